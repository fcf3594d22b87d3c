"""`sojourn sweep`: every combination of a grid of settings, trained in parallel, here or on a Ray cluster."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sojourn.cli.arguments import AsJson
from sojourn.cli.cell_options import (
    Address,
    DryRun,
    Jobs,
    On,
    OnePart,
    Out,
    Seconds,
    Together,
    cell_bar,
    check_pace,
    check_torch,
    end,
    part_of,
    say_failures,
)

SHOWN = ("received", "time", "accuracy", "test_loss", "client_worst", "staleness")


def sweep(
    config: Annotated[Path, typer.Argument(help="Sweep file (TOML): seeds, [run] as for train, [grid] of lists.")],
    out: Out = Path("sweep"),
    jobs: Jobs = None,
    on: On = "here",
    ray_address: Address = None,
    part: OnePart = None,
    dry_run: DryRun = False,
    checkpoint_seconds: Seconds = "60",
    together: Together = None,
    as_json: AsJson = False,
) -> None:
    """Train every combination of a grid of settings with every seed.

    The file holds `seeds = 3`, a table `[run]` with what all share (keys as the options of `sojourn train`), and a
    table `[grid]` with a list for each key that is swept. Running the same command again does what is left.

    Examples:
    - `sojourn sweep sweep.toml --out sweep/ --jobs 4`

    - `sojourn sweep sweep.toml --out sweep/ --on ray`

    - `sojourn sweep sweep.toml --out sweep/ --dry-run`

    """
    from sojourn.cli.show import attempts, plural, to_json
    from sojourn.csv_file import write_csv
    from sojourn.experiments.sweep import Grid, counted, runs_of, work_off

    grid, mine = Grid.load(config), part_of(part)
    if dry_run:
        cells, done = counted(grid, out)
        if as_json:
            typer.echo(to_json({"command": "sweep", "dry_run": True, "cells": cells, "cells_ended": done}))
        else:
            typer.echo(f"{plural(cells, 'cell')}, {done} of them done")
        return
    between = check_pace(together, checkpoint_seconds)
    check_torch()
    options: dict[str, Any] = {"jobs": jobs, "on": on, "address": ray_address, "together": together}
    with cell_bar() as (phase, report):
        phase("cells")
        swept = work_off(grid, out, mine, watch=report, checkpoint_seconds=between, **options)
    rows = runs_of(grid, out, swept.failures)
    with attempts() as attempt:
        attempt(write_csv, out / "runs.csv", rows)
        _show(rows, list(grid.values), out, as_json)
        say_failures(swept.failures, out)
    end(swept.interrupted, swept.failures)


def _show(rows: list[dict[str, Any]], keys: list[str], out: Path, as_json: bool) -> None:
    from sojourn.cli.show import number, table, to_json

    if as_json:
        typer.echo(to_json({"command": "sweep", "runs": rows}))
        return
    lines = [
        [*(str(row[key]) for key in (*keys, "seed", "state")), *(number(float(row.get(key, "nan"))) for key in SHOWN)]
        for row in rows
    ]
    table(str(out), [*keys, "seed", "state", *SHOWN], lines, ["every run is in runs.csv"])
