"""`sojourn sweep`: every combination of a grid of settings, trained in parallel, here or on a Ray cluster."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.arguments import AsJson, OwnPictures, pictures_in
from sojourn.cli.cell_options import (
    Address,
    DryRun,
    Jobs,
    On,
    OnePart,
    Out,
    OverwriteTables,
    Seconds,
    Together,
    another,
    cell_bar,
    check_pace,
    check_torch,
    end,
    part_of,
    say_failures,
)

if TYPE_CHECKING:
    from sojourn.experiments.sweep import Grid

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
    pictures: OwnPictures = None,
    overwrite: OverwriteTables = False,
    as_json: AsJson = False,
) -> None:
    """Train every combination of a grid of settings with every seed.

    The file holds `seeds = 3`, a table `[run]` with the keys that all runs share (named like the options of
    `sojourn train`), and a table `[grid]` with a list for each key that is swept. Running the same command again trains
    only what is missing.

    Examples:
    - `sojourn sweep sweep.toml --out sweep/ --jobs 4`

    - `sojourn sweep sweep.toml --out sweep/ --on ray`

    - `sojourn sweep sweep.toml --out sweep/ --dry-run`

    - `sojourn sweep sweep.toml --out sweep/ --pictures pictures/`

    """
    from sojourn.cli.command import keep_command
    from sojourn.cli.show import attempts, draw
    from sojourn.csv_file import write_csv
    from sojourn.experiments.earlier import check_sweep
    from sojourn.experiments.sweep import Grid, runs_of, work_off

    grid, mine = Grid.load(config), part_of(part)
    between = check_pace(together, checkpoint_seconds)
    check_torch()
    if dry_run:
        _count(grid, out, jobs, together, on, as_json)
        return
    if not overwrite:
        check_sweep(grid, out, another("--out"))
    drawn = pictures_in(pictures, out)
    options: dict[str, Any] = {"jobs": jobs, "on": on, "address": ray_address, "together": together}
    with cell_bar() as (phase, report):
        phase("cells")
        swept = work_off(grid, out, mine, watch=report, checkpoint_seconds=between, **options)
    rows = runs_of(grid, out, swept.failures)
    with attempts() as attempt:
        attempt(write_csv, out / "runs.csv", rows)
        attempt(keep_command, out)
        _show(rows, list(grid.values), out, as_json)
        if drawn is not None:
            from sojourn.report.sweep_figures import sweep_pictures

            attempt(draw, sweep_pictures, rows, list(grid.values), _nonnegative(grid), drawn)
        say_failures(swept.failures, out)
    end(swept.interrupted, swept.failures)


def _count(grid: "Grid", out: Path, jobs: int | None, together: int | None, on: str, as_json: bool) -> None:
    """Show how much there is to do and what it will cost; nothing is written into the folder."""
    from sojourn.cli.estimate_shown import say_count, show_estimate
    from sojourn.cli.show import to_json
    from sojourn.experiments.estimate import estimated
    from sojourn.experiments.train_cells import check_cells

    cells = [cell for _, cell in grid.cells()]
    check_cells(cells, "elsewhere")
    found = estimated({"cells": cells}, out, jobs, together)
    (phase,) = found.phases
    if as_json:
        facts = {"estimate": found.facts()} if found.left else {}
        counts = {"cells": phase.cells, "cells_ended": phase.ended}
        typer.echo(to_json({"command": "sweep", "dry_run": True, **counts, **facts}))
        return
    say_count(phase.cells, phase.ended, "cell")
    if found.left:
        show_estimate(found, on, [])


def _nonnegative(grid: "Grid") -> bool:
    """Whether all losses are the package's own, which are never negative."""
    configs = [cell.config for _, cell in grid.cells()]
    return all(config.model != "problem" and not {"model", "loss"} & set(config.code) for config in configs)


def _show(rows: list[dict[str, Any]], keys: list[str], out: Path, as_json: bool) -> None:
    from sojourn.cli.show import number, table, to_json

    if as_json:
        typer.echo(to_json({"command": "sweep", "runs": rows}))
        return
    lines = [
        [*(str(row[key]) for key in (*keys, "seed", "state")), *(number(float(row.get(key, "nan"))) for key in SHOWN)]
        for row in rows
    ]
    notes = [f"every run is in {out / 'runs.csv'}"]
    table(str(out), [*keys, "seed", "state", *SHOWN], lines, notes, least=("staleness", "received"))
