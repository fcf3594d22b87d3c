"""`sojourn tune`: choose the step size of a plan, and on request its correction and buffer, by short paired runs."""

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.arguments import AsJson, Overwrite, OwnPictures, check_free, pictures_in, whole
from sojourn.cli.cell_options import (
    Address,
    Jobs,
    On,
    Seconds,
    Together,
    another,
    cell_bar,
    check_pace,
    check_torch,
    end,
    say_failures,
)
from sojourn.cli.comparison_words import numbers_of, seeds_of_text
from sojourn.cli.run_flags import takes_keys
from sojourn.errors import InvalidInput
from sojourn.learning.run.config import keys

if TYPE_CHECKING:
    from sojourn.experiments.tuned_plan import TunedPlan
    from sojourn.learning.run.config import TrainConfig

NOT_HERE = ("step_size", "correction", "holdout", "judged_on", "evaluate_every", "seed")
"""Keys of a run that the tuning decides itself."""


@takes_keys(*(name for name in keys() if name not in NOT_HERE))
def tune(
    given: dict[str, Any],
    out: Annotated[Path, typer.Option(help="Write the tuned plan to this file (JSON).")] = Path("tuned.json"),
    folder: Annotated[
        Path, typer.Option(help="Folder of the trials; trials that are finished there are not repeated.")
    ] = Path("tuning"),
    config: Annotated[
        Path | None, typer.Option(help="Run file (TOML) with the keys of a run; flags override it.")
    ] = None,
    guess: Annotated[
        float | None,
        typer.Option(help="Step size to search around (default: the plan's; if it has none, a wide grid around 0.1)."),
    ] = None,
    correction: Annotated[
        str | None, typer.Option(help="Corrections to try, `0,0.5,1` (default: only the plan's).")
    ] = None,
    buffer: Annotated[
        str | None,
        typer.Option(
            help="Buffers to try, `1,3,10`, for an algorithm that collects updates (default: only the plan's)."
        ),
    ] = None,
    seeds: Annotated[str, typer.Option(help="Seeds of every trial: how many, or a list, `3,5,7`.")] = "2",
    holdout: Annotated[float, typer.Option(help="Share of the training examples that trials are judged on.")] = 0.2,
    rungs: Annotated[
        str | None, typer.Option(help="Parts of the budget that trials are trained for (default: 1/9, 1/3 and 1).")
    ] = None,
    extensions: Annotated[int, typer.Option(help="How often the grid may grow at its edges.")] = 6,
    jobs: Jobs = None,
    on: On = "here",
    ray_address: Address = None,
    checkpoint_seconds: Seconds = "60",
    together: Together = None,
    pictures: OwnPictures = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Choose the step size of a plan by short paired runs on held-out examples.

    Step sizes around a guess, a factor of 2 apart, are trained for a ninth of the budget, the best third of them for a
    third of it, and the best of these for all of it. All have the same data, batches and service times. The grid grows
    if the best step size lies at its edge. The test set is never used. Running the same command again continues the
    work.

    Examples:
    - `sojourn tune fleet.csv --plan plan.json --data digits --partition "classes(k=2)" --time 20 --out tuned.json`

    - `sojourn tune fleet.csv --plan plan.json --time 1h --guess 0.1 --correction 0,0.5,1 --out tuned.json`

    - `sojourn tune fleet.csv --plan plan.json --time 20 --pictures pictures/`

    - `sojourn tune fleet.csv --plan plan.json --buffer 1,3,10 --steps 5000 --folder trials/`

    """
    between = check_pace(together, checkpoint_seconds)
    check_torch()
    from sojourn.cli.command import keep_command, made_by
    from sojourn.cli.show import attempts, draw, say
    from sojourn.experiments.earlier import check_tuning
    from sojourn.experiments.plan_tuning import PlanTuning
    from sojourn.experiments.tune_plan import tune_plan

    tuning = PlanTuning(
        _config(config, given),
        guess,
        tuple(numbers_of("correction", correction)),
        tuple(whole("buffer", text) for text in (buffer or "").split(",") if text.strip()),
        seeds_of_text("seeds", seeds),
        holdout,
        **({} if rungs is None else {"rungs": tuple(numbers_of("rungs", rungs))}),
        extensions=extensions,
    )
    drawn = pictures_in(pictures, folder)
    if not overwrite:
        check_tuning(tuning, folder, another("--folder"))
    mine = tuning.made(out) and (folder / "tuning.csv").is_file()
    check_free(overwrite or mine, out, what="plan file")
    options = {"jobs": jobs, "on": on, "address": ray_address, "together": together, "checkpoint_seconds": between}
    with cell_bar() as (phase, report):
        found = tune_plan(tuning, folder, phase, watch=report, **options)
    with attempts() as attempt:
        if found.complete:
            attempt(found.plan.save, out, made_by())
        attempt(keep_command, folder)
        show(found, out, folder, as_json)
        if drawn is not None:
            from sojourn.report.tuning_figures import tuning_pictures

            attempt(draw, tuning_pictures, found, drawn)
        say_failures(found.failures, folder)
    if not (found.complete or found.interrupted or found.failures):
        say(f"{found.open} trials are being trained by another process; run this again when they have ended", err=True)
    end(found.interrupted, found.failures)


def _config(path: Path | None, given: dict[str, Any]) -> "TrainConfig":
    from sojourn.learning.run.config import TrainConfig

    if path is not None:
        return TrainConfig.load(path, **given)
    if "fleet" not in given:
        raise InvalidInput("tuning needs a fleet, got none; name a fleet file, or give --config with one in it")
    return TrainConfig.of(given, "tune")


def show(found: "TunedPlan", out: Path | None, folder: Path, as_json: bool) -> None:
    """Print what was tried, and which trial won."""
    from sojourn.cli.show import number, table, to_json

    columns = found._table()
    if as_json:
        chosen = None if found.chosen is None else found.chosen._asdict()
        facts = {"complete": found.complete, "chosen": chosen, "loss": found.loss, "guess": found.guess}
        trials = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        typer.echo(to_json({"command": "tune", **facts, "edge": found.edge or None, "trials": trials}))
        return
    if not found.rows:
        return  # whoever ended it says so
    rows = [
        [*(_cell(one, number) for one in row), "chosen" if trial == found.chosen else ""]
        for trial, row in zip(found.means(), zip(*columns.values(), strict=True), strict=True)
    ]
    heads = [key.replace("_", " ") for key in columns]
    table(
        f"{folder}: {'done' if found.complete else 'interrupted'}",
        [*heads, "choice"],
        rows,
        sentences(found, out, folder),
        10_000,
    )


def _cell(value: float, number: Any) -> str:
    return "diverged" if value == float("inf") else number(float(value), 4)


def sentences(found: "TunedPlan", out: Path | None, folder: Path = Path()) -> list[str]:
    """Return sentences about the result."""
    said = ["losses are means over the seeds, on held-out examples; trials without a loss were dropped earlier"]
    if found.chosen is None:
        return [*said, "no step size is chosen yet: run this again to continue"]
    best = found.chosen
    others = "" if best.combination == "the plan" else f" with {best.combination}"
    far = "found without a guess"
    if found.guess is not None and isfinite(found.guess):
        off = best.step_size / found.guess
        far = "the guess itself" if abs(off - 1) < 1e-6 else f"{max(off, 1 / off):.3g} times {_side(off)} the guess"
    said.append(f"step size {best.step_size:g}{others}: held-out loss {found.loss:.4g}; {far}")
    if found.edge:
        said.append(f"! it lies at the {found.edge} edge of the grid: a better one may lie beyond; give it as --guess")
    if out is not None:
        said.append(f"the plan, tuned for {found.plan.tuned_for}, is in {out}; every run is in {folder / 'tuning.csv'}")
    return said


def _side(off: float) -> str:
    return "above" if off > 1 else "below"
