"""`sojourn compare`: algorithms and plans over several seeds, each at its best step size, on common random numbers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from sojourn.cli.run_flags import takes_keys
from sojourn.errors import SojournError
from sojourn.learning.run.config import keys

if TYPE_CHECKING:
    from sojourn.experiments.compare import Compared
    from sojourn.experiments.comparison import ComparisonSpec

_WORLD = (*keys(part="world"), "dispatcher")
SHARED = ("time", "steps", "data", "partition", "model", "loss", "metrics", "concurrency", "cap", "correction", *_WORLD)
"""Keys of a run, the same for all, with flags of their own; the others by --set."""


@takes_keys("fleet", *SHARED)
def compare(
    given: dict[str, Any],
    config: Annotated[Path | None, typer.Option(help="Comparison file (TOML); flags win.")] = None,
    algorithm: Annotated[
        list[str] | None,
        typer.Option(
            help="`fedbuff(size=10)`, or `name: algorithm key=value ...`; repeat it. The first is the baseline."
        ),
    ] = None,
    plan: Annotated[
        list[str] | None,
        typer.Option(help="Plan file, or `name: key=value ...`; repeat it: every algorithm under every plan."),
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
        float | None, typer.Option(help="Share of the training examples to tune on (default 0.1).")
    ] = None,
    tune_by: Annotated[
        str | None, typer.Option(help="What a trial is judged by: `loss` (default) or `accuracy`.")
    ] = None,
    extensions: Annotated[
        int | None, typer.Option(help="How often the grid may grow at its edges (default 3).")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="What is to be reached, `accuracy=0.9` or `test_loss=0.3`.")
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="Algorithm that the others are compared with.")] = None,
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
    as_json: AsJson = False,
) -> None:
    """Compare algorithms and plans fairly: the same data, first model, batches and service times.

    Every algorithm is tried at every step size of one grid, on held-out examples and seeds of their own; where a best
    one lies at the edge the grid grows, for all. Then all are trained at their best with the final seeds and judged on
    the test set. Running the same command again does what is left; folders from two machines may be copied into one.

    Examples:
    - `sojourn compare fleet.csv --algorithm asyncsgd --algorithm "fedbuff(size=10)" --step-sizes 0.1,0.3 --time 100`

    - `sojourn compare fleet.csv --algorithm asyncsgd --algorithm "planned: generalized-asyncsgd plan=p.json" --seeds 5`

    - `sojourn compare fleet.csv --algorithm asyncsgd --plan p.json --plan "fast: sampling=speed" --target accuracy=0.9`

    - `sojourn compare --config compare.toml --out cmp/ --jobs 8`

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
    whole = {"seeds": seeds, "target": target, "baseline": baseline}
    content = content_of(config, given, setting or [], tuning, whole, algorithm or [], plan or [])
    comparison = ComparisonSpec.of(content, f"comparison file {config}" if config else "compare")
    mine = part_of(part)
    if dry_run:
        _count(comparison, out, as_json)
        return
    between = check_pace(together, checkpoint_seconds)
    check_torch()
    if picture:
        from sojourn.report.figures import pyplot

        pyplot()  # says now, not after the training, that it is missing
    options: dict[str, Any] = {"jobs": jobs, "on": on, "address": ray_address, "together": together}
    options |= {"checkpoint_seconds": between}
    from sojourn.cli.show import attempts
    from sojourn.experiments.compare import save, work_off

    with cell_bar() as (phase, report):
        compared = work_off(comparison, out, mine, phase, watch=report, **options)
    with attempts() as attempt:
        attempt(save, comparison, compared)
        if not (compared.runs or compared.interrupted or compared.open or compared.failures):
            raise SojournError("nothing is left to compare: " + "; ".join(compared.notes))
        if picture and compared.curves:
            attempt(_draw, comparison, compared)
        _show(comparison, compared, as_json)
    end(compared.interrupted, compared.failures)


def _count(comparison: "ComparisonSpec", out: Path, as_json: bool) -> None:
    from sojourn.cli.show import plural, to_json
    from sojourn.experiments.compare import counted

    many = counted(comparison, out)
    if as_json:
        typer.echo(to_json({"command": "compare", "dry_run": True, **many}))
        return
    if many["trials"]:
        typer.echo(f"{plural(many['trials'], 'trial')}, {many['trials_ended']} of them done; the grid may grow")
    typer.echo(f"{plural(many['runs'], 'run')}, {many['runs_ended']} of them done")


def _draw(comparison: "ComparisonSpec", compared: "Compared") -> None:
    from sojourn.cli.show import plural
    from sojourn.report.training_figures import comparison_picture

    key, target = compared.table[0]["judged_by"], comparison.target
    line = target.value if target is not None and target.key == key else None
    data = comparison.run.get("data", "digits")
    seeds = sorted({len(mine) for mine in compared.runs.values()})
    many = f"{seeds[0]} to {seeds[-1]} seeds" if len(seeds) > 1 else plural(seeds[0], "seed")
    title = f"{data}, mean of {many}" + (" with its 95% interval" if seeds[-1] > 1 else "")
    comparison_picture(compared.curves, key, compared.folder / "comparison", title, line)


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
            "call this again (without --part it trains here what is still left)",
            err=True,
        )
    say_failures(compared.failures, compared.folder)
