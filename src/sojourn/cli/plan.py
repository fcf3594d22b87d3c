"""`sojourn plan`: whom to sample, with what step, how many tasks in flight."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.arguments import AsJson, Cap, FleetFile, Overwrite, ServerRate

if TYPE_CHECKING:
    from sojourn.fleet import Fleet
    from sojourn.plan import Plan
    from sojourn.planning.bound.search import Planned


def plan(
    fleet: FleetFile,
    budget_time: Annotated[float | None, typer.Option(help="Least bound after this time on the clock.")] = None,
    budget_steps: Annotated[
        str | None, typer.Option(help="Least bound after this many server steps (the paper's).")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Soonest until the bound is this small.")] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="What to minimise with --epsilon: `time` (default), `steps`, `energy`, or `mix=0.3` (share of "
            "energy); without a budget: `throughput`, as many steps per unit of time as possible, or one of your own, "
            "`package.module:Class(key=value)`."
        ),
    ] = None,
    concurrency: Annotated[
        str | None,
        typer.Option("--concurrency", "-C", help="Tasks in flight (default: chosen too; n with --budget-steps)."),
    ] = None,
    cap: Cap = None,
    correction: Annotated[
        float | None, typer.Option(help="Exponent of an update's weight; the bound is that of 1, unbiased.")
    ] = None,
    search: Annotated[
        str,
        typer.Option(
            help="Where sampling is looked for: `simplex`, `clusters` or `clusters=K` (by speed), `power` (of speed), "
            "`grid` (the paper's 50 points)."
        ),
    ] = "simplex",
    reading: Annotated[str, typer.Option(help="Staleness in the bound: `indicator` or `conditional`.")] = "indicator",
    free_step: Annotated[
        bool, typer.Option("--free-step", help="Let the step exceed the theorem's largest, as the paper's figures do.")
    ] = False,
    constants: Annotated[
        Path | None,
        typer.Option(help="TOML file with A, L and B, or A, L, sigma2 and G2 (and R2): see `sojourn calibrate`."),
    ] = None,
    weights: Annotated[str, typer.Option(help="Weight of a client in the objective: `equal` or `data`.")] = "equal",
    floor: Annotated[float, typer.Option(help="Least sampling probability of every client.")] = 0.0,
    most_tasks: Annotated[str | None, typer.Option(help="Most tasks in flight.")] = None,
    most_staleness: Annotated[float | None, typer.Option(help="Largest mean staleness of every client.")] = None,
    unequal: Annotated[bool, typer.Option("--unequal", help="Let equal clients get different probabilities.")] = False,
    server_rate: ServerRate = None,
    server_power: Annotated[float, typer.Option(help="Watts of the server while it applies an update.")] = 0.0,
    sensitivity: Annotated[bool, typer.Option(help="Plan anew with inputs off by 20%.")] = True,
    law_check: Annotated[bool, typer.Option(help="Simulate the plan under other service laws.")] = True,
    pictures: Annotated[Path | None, typer.Option(help="Folder for the pictures of the plan.")] = None,
    seed: Annotated[str, typer.Option(help="Seed of the random starts.")] = "0",
    out: Annotated[Path | None, typer.Option(help="Write the plan to this file (JSON).")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Choose sampling, step size and concurrency for a fleet.

    Examples:
    - `sojourn plan fleet.csv --budget-time 3600 --out plan.json`

    - `sojourn plan fleet.csv --budget-steps 10000 -C 100 --search grid --free-step`

    - `sojourn plan fleet.csv --epsilon 0.1 --objective mix=0.3 --constants constants.toml`

    - `sojourn plan fleet.csv --budget-time 3600 --most-staleness 50 --floor 0.001 --pictures pictures/`

    """
    from sojourn.calibration import notes_of
    from sojourn.cli.arguments import check_free, tasks_of, whole
    from sojourn.cli.plan_shown import print_plan
    from sojourn.cli.show import attempts, progress, to_json
    from sojourn.constants import WORKED_EXAMPLE, Constants
    from sojourn.errors import InvalidInput
    from sojourn.fleet import Fleet
    from sojourn.folders import check_folder
    from sojourn.own_code import names_code
    from sojourn.planning.bound.goal import goal, mixed_goal
    from sojourn.planning.bound.own import own_objective
    from sojourn.planning.bound.search import Limits, make_plan
    from sojourn.planning.explain import Explanation

    single = None if out is None or not unequal else out.with_name(f"{out.stem}-fleet.csv")
    check_free(overwrite, out, what="plan file")
    check_free(overwrite, single, what="fleet file")
    if pictures is not None:
        check_folder(pictures)
    loaded = Fleet.load(fleet)
    _check_policy(cap, correction)
    tasks = tasks_of(concurrency)
    if tasks is None and (budget_steps is not None or objective == "throughput"):
        tasks = loaded.clients
        typer.echo(f"tasks in flight: {tasks}, one a client; give --concurrency for another number", err=True)
    name, _, clusters = search.partition("=")
    if clusters and (name != "clusters" or not clusters.isdecimal()):
        raise InvalidInput(f"--search must be simplex, clusters, clusters=K, power or grid, got '{search}'")
    numbers = Constants.load(constants) if constants is not None else WORKED_EXAMPLE
    notes = notes_of(constants) if constants is not None else []
    settings: dict[str, Any] = {
        "concurrency": tasks,
        "search": name,
        "limits": Limits(
            floor,
            None if most_tasks is None else whole("most-tasks", most_tasks),
            float("inf") if most_staleness is None else most_staleness,
        ),
        "clusters": whole("clusters", clusters or "2"),
        "equal": not unequal,
        "seed": whole("seed", seed),
    }
    seen_by: dict[str, Any] = {
        "weights": weights,
        "reading": reading,
        "server_rate": server_rate,
        "server_power": server_power,
    }
    own = objective is not None and names_code(objective)
    least, _, share = ("", "", "") if own else (objective or "").partition("=")
    if share and least != "mix":
        raise InvalidInput(f"--objective must be time, steps, energy, mix=S or throughput, got '{objective}'")
    wanted: Any
    if own:
        if (budget_time, budget_steps, epsilon, constants) != (None, None, None, None) or free_step:
            raise InvalidInput(
                f"--objective {objective} is one of your own, which has no budget, epsilon, constants or free step; "
                "leave them out, or write them as its options"
            )
        wanted = own_objective(str(objective), **seen_by)
    else:
        wanted = goal(
            time=budget_time,
            steps=None if budget_steps is None else whole("budget-steps", budget_steps),
            epsilon=epsilon,
            least={"": None, "throughput": "step time", "mix": "time"}.get(least, least),
            constants=numbers,
            free_step=free_step,
            **seen_by,
        )
    with progress("planning") as report:
        if least == "mix":
            wanted = mixed_goal(loaded, wanted, _share(share), **settings)
        planned = make_plan(loaded, wanted, progress=report, **settings)
    shown = Explanation(planned, numbers, constants is not None, tuple(notes), sensitivity, law_check)
    with attempts() as attempt:  # the plan first: what is said of it takes longer
        if out is not None:
            attempt(_save, planned.plan, out)
        if single is not None:
            attempt(_save, planned.fleet, single, ": the same clients one by one, the fleet that this plan is for")
        if law_check:
            _announce(planned.fleet)
        if as_json:
            typer.echo(to_json({"command": "plan", **shown.facts()}))
        else:
            print_plan(shown)
        if pictures is not None:
            attempt(_draw, planned, pictures)


def _check_policy(cap: str | None, correction: float | None) -> None:
    """Refuse what the bound does not know of."""
    from sojourn.errors import InvalidInput

    if cap not in (None, "none"):
        raise InvalidInput(
            f"the bound is that of clients whose tasks queue, got --cap {cap}; leave it out here, and see what a cap "
            "does with sojourn analyze, simulate, train and compare"
        )
    if correction not in (None, 1.0):
        raise InvalidInput(f"the bound is that of unbiased updates, got --correction {correction:g}; leave it out")


def _save(what: "Plan | Fleet", path: Path, remark: str = "") -> None:
    from sojourn.cli.show import say

    what.save(path)
    say(f"wrote {path}{remark}", err=True)


def _announce(fleet: "Fleet") -> None:
    """Say why the first plan on a machine takes longer."""
    from sojourn.scenario import Scenario
    from sojourn.timing.simulate.runners import first_use

    if first_use(fleet, Scenario(), "events"):
        typer.echo("compiling the simulator, once on this machine; this takes some seconds", err=True)


def _draw(planned: "Planned", folder: Path) -> None:
    from sojourn.cli.show import say
    from sojourn.report.plan_figures import plan_pictures

    for path in plan_pictures(planned, folder):
        say(f"wrote {path}", err=True)


def _share(text: str) -> float:
    from sojourn.errors import InvalidInput

    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"--objective mix must name the share of energy, got 'mix={text}'; write mix=0.3") from None
