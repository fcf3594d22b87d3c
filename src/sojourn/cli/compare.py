"""`sojourn compare`: algorithms and plans over several seeds, each at its best step size, on common random numbers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.arguments import AsJson, Figure, OwnPictures, pictures_in, singly
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
from sojourn.cli.run_flags import takes_keys
from sojourn.errors import SojournError
from sojourn.learning.run.config import keys

if TYPE_CHECKING:
    from sojourn.experiments.compare import Compared
    from sojourn.experiments.comparison import ComparisonSpec

_WORLD = (*keys(part="world"), "dispatcher")
SHARED = ("time", "steps", "data", "partition", "model", "loss", "metrics", "concurrency", "cap", "correction", *_WORLD)
"""Keys of a run, the same for all algorithms, that have flags; other keys are set by --set."""


@takes_keys("fleet", *SHARED)
def compare(
    given: dict[str, Any],
    config: Annotated[Path | None, typer.Option(help="Comparison file (TOML); flags override it.")] = None,
    algorithm: Annotated[
        list[str] | None,
        typer.Option(
            help="`fedbuff(size=10)`, or `name: algorithm key=value ...`; repeat it. The first is the baseline."
        ),
    ] = None,
    plan: Annotated[
        list[str] | None,
        typer.Option(help="Plan file, or `name: key=value ...`; repeat it. Every algorithm runs under every plan."),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Seeds of the final runs: a number (default 10) or `3,5,7`.")
    ] = None,
    step_sizes: Annotated[
        str | None, typer.Option(help="Grid of step sizes, `0.01,0.03,0.1`; without it nothing is tuned.")
    ] = None,
    tuning_seeds: Annotated[
        str | None, typer.Option(help="Seeds of the trials: a number (default 3) or a list.")
    ] = None,
    holdout: Annotated[
        float | None, typer.Option(help="Share of the training examples held out for tuning (default 0.1).")
    ] = None,
    tune_by: Annotated[
        str | None, typer.Option(help="What a trial is judged by: `loss` (default) or `accuracy`.")
    ] = None,
    extensions: Annotated[
        int | None, typer.Option(help="How often the grid may grow at its edges (default 3).")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="A value to be reached, `accuracy=0.9` or `test_loss=0.3`.")
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="Algorithm that the others are compared with.")] = None,
    dispatch: Annotated[
        str | None,
        typer.Option(
            help="One dispatcher for all: `same` (the baseline's), or one by its name, `idle` (default: each algorithm "
            "has its own)."
        ),
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Any other key of a run, `batch_size=16`; repeat it.")
    ] = None,
    out: Out = Path("comparison"),
    jobs: Jobs = None,
    on: On = "here",
    ray_address: Address = None,
    part: OnePart = None,
    dry_run: DryRun = False,
    checkpoint_seconds: Seconds = "60",
    together: Together = None,
    picture: Annotated[bool, typer.Option(help="Draw the curves.")] = True,
    pictures: OwnPictures = None,
    figure: Figure = "panels",
    overwrite: OverwriteTables = False,
    as_json: AsJson = False,
) -> None:
    """Compare algorithms and plans fairly: the same data, first model, batches and service times.

    Every algorithm is tried at every step size of one grid. These trials have seeds of their own and are judged on
    held-out examples. If a best step size lies at the edge, the grid grows for all. Then each algorithm is trained at
    its best step size with the final seeds and judged on the test set. Running the same command again trains only what
    is missing. Folders from several machines may be copied into one.

    With --csv the main table alone is printed. The file table.csv in the folder also has each algorithm's dispatcher
    and updates.

    Examples:
    - `sojourn compare fleet.csv --algorithm asyncsgd --algorithm "fedbuff(size=10)" --step-sizes 0.1,0.3 --time 100`

    - `sojourn compare fleet.csv --algorithm asyncsgd --algorithm "planned: generalized-asyncsgd plan=p.json" --seeds 5`

    - `sojourn compare fleet.csv --algorithm asyncsgd --plan p.json --plan "fast: sampling=speed" --target accuracy=0.9`

    - `sojourn compare fleet.csv --algorithm asyncsgd --algorithm "fedbuff(size=10)" --dispatch same --time 100`

    - `sojourn compare --config compare.toml --out cmp/ --jobs 8`

    - `sojourn compare --config compare.toml --out cmp/ --dry-run`

    - `sojourn compare --config compare.toml --out cmp/ --figure single`

    - `sojourn compare --config compare.toml --out cmp/ --part 1/2`

    """
    from sojourn.cli.comparison_words import content_of
    from sojourn.experiments.comparison import ComparisonSpec

    tuning = {
        "step_sizes": step_sizes,
        "seeds": tuning_seeds,
        "holdout": holdout,
        "by": tune_by,
        "extensions": extensions,
    }
    whole = {"seeds": seeds, "target": target, "baseline": baseline, "dispatch": dispatch}
    content = content_of(config, given, setting or [], tuning, whole, algorithm or [], plan or [])
    comparison = ComparisonSpec.of(content, f"comparison file {config}" if config else "compare")
    mine = part_of(part)
    between = check_pace(together, checkpoint_seconds)
    check_torch()
    if dry_run:
        _count(comparison, out, jobs, together, on, as_json)
        return
    drawn, alone = pictures_in(pictures, out), singly(figure)
    if picture:
        from sojourn.report.figures import pyplot

        pyplot()  # reports before the training, not after it, that matplotlib is missing
    options: dict[str, Any] = {"jobs": jobs, "on": on, "address": ray_address, "together": together}
    options |= {"checkpoint_seconds": between}
    from sojourn.cli.command import made_by
    from sojourn.cli.show import attempts
    from sojourn.experiments.compare import save, work_off
    from sojourn.experiments.earlier import check_comparison

    if not overwrite:
        check_comparison(comparison, out, another("--out"))

    with cell_bar() as (phase, report):
        compared = work_off(comparison, out, mine, phase, watch=report, **options)
    with attempts() as attempt:
        attempt(save, comparison, compared, made_by())
        if not (compared.runs or compared.interrupted or compared.open or compared.failures):
            raise SojournError("nothing is left to compare: " + "; ".join(compared.notes))
        if picture and compared.curves:
            attempt(_draw, comparison, compared, drawn or compared.folder, alone)
        _show(comparison, compared, as_json)
    end(compared.interrupted, compared.failures)


def _count(
    comparison: "ComparisonSpec", out: Path, jobs: int | None, together: int | None, on: str, as_json: bool
) -> None:
    """Show how much there is to do and what it will cost; nothing is written into the folder."""
    from sojourn.cli.estimate_shown import say_count, show_estimate
    from sojourn.cli.show import to_json
    from sojourn.experiments.compare import cells_of, counted, known_before, may_grow
    from sojourn.experiments.estimate import estimated
    from sojourn.experiments.train_cells import check_cells

    check_cells([comparison.final(one, None, comparison.seeds[0]) for one in comparison.algorithms], "elsewhere")
    many, cells = counted(comparison, out), cells_of(comparison, out)
    found = estimated(cells, out, jobs, together)
    if as_json:
        facts = {"estimate": found.facts()} if found.left else {}
        typer.echo(to_json({"command": "compare", "dry_run": True, **many, **facts}))
        return
    if many["trials"]:
        say_count(many["trials"], many["trials_ended"], "trial", "; the grid may grow")
    say_count(many["runs"], many["runs_ended"], "run")
    notes = [f"! {note}" for note in known_before(comparison)]
    more = may_grow(comparison, many["trials"])
    if more:
        notes.insert(
            0, f"the grid may grow at its edges: {many['trials']:,} to {many['trials'] + more:,} trials in all"
        )
    if found.left:
        show_estimate(found, on, notes)


def _draw(comparison: "ComparisonSpec", compared: "Compared", folder: Path, alone: bool) -> None:
    from sojourn.cli.show import plural
    from sojourn.folders import made
    from sojourn.report.training_figures import comparison_picture

    key, target = compared.table[0]["judged_by"], comparison.target
    line = target.value if target is not None and target.key == key else None
    data = comparison.run.get("data", "digits")
    seeds = sorted({len(mine) for mine in compared.runs.values()})
    many = f"{seeds[0]} to {seeds[-1]} seeds" if len(seeds) > 1 else plural(seeds[0], "seed")
    title = f"{data}, mean of {many}" + (" with its 95% interval" if seeds[-1] > 1 else "")
    with made(folder):
        comparison_picture(compared.curves, key, folder / "comparison", title, line, alone)


def _show(comparison: "ComparisonSpec", compared: "Compared", as_json: bool) -> None:
    from sojourn.cli.comparison_shown import show_table
    from sojourn.cli.show import plural, say, to_json
    from sojourn.experiments.compare import summary

    if as_json:
        typer.echo(to_json({"command": "compare", **summary(comparison, compared)}))
    elif compared.table:
        show_table(comparison, compared)
    if compared.open and not compared.interrupted:
        say(
            f"{plural(compared.open, 'cell')} left to other machines; copy their folders into {compared.folder} and "
            "run this again (without --part it trains here what is still missing)",
            err=True,
        )
    say_failures(compared.failures, compared.folder)
