"""`sojourn plan --by bound`: the paper's planner, which minimises a convergence bound."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from sojourn.fleet import Fleet
    from sojourn.plan import Plan
    from sojourn.planning.bound.search import Planned


def plan_by_bound(
    fleet: Path,
    *,
    time: str | None,
    budget_steps: str | None,
    epsilon: float | None,
    objective: str | None,
    concurrency: str | None,
    cap: str | None,
    correction: float | None,
    search: str | None,
    reading: str | None,
    free_step: bool,
    constants: Path | None,
    weights: str | None,
    floor: float | None,
    most_tasks: str | None,
    most_staleness: float | None,
    unequal: bool,
    server_rate: float | None,
    server_power: float | None,
    sensitivity: bool,
    law_check: bool,
    pictures: Path | None,
    figure: bool,
    seed: str,
    out: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Minimise a bound; print the plan, and write it to a file if asked."""
    from sojourn.calibration import notes_of
    from sojourn.cli.arguments import check_free, tasks_of, whole
    from sojourn.cli.bound_shown import print_plan
    from sojourn.cli.command import made_by
    from sojourn.cli.show import attempts, progress, say, to_json
    from sojourn.constants import WORKED_EXAMPLE, Constants
    from sojourn.durations import seconds
    from sojourn.errors import InvalidInput
    from sojourn.fleet import Fleet
    from sojourn.own_code import names_code
    from sojourn.planning.bound.goal import goal, mixed_goal
    from sojourn.planning.bound.own import own_objective
    from sojourn.planning.bound.search import Limits, make_plan
    from sojourn.planning.explain import Explanation

    single = None if out is None or not unequal else out.with_name(f"{out.stem}-fleet.csv")
    check_free(overwrite, out, what="plan file")
    check_free(overwrite, single, what="fleet file")
    loaded = Fleet.load(fleet)
    _check_policy(cap, correction)
    tasks = tasks_of(concurrency)
    if tasks is None and (budget_steps is not None or objective == "throughput"):
        tasks = loaded.clients
        say(f"tasks in flight: {tasks}, one per client; give --concurrency for another number", err=True)
    search = search or "simplex"
    name, _, clusters = search.partition("=")
    if clusters and (name != "clusters" or not clusters.isdecimal()):
        raise InvalidInput(f"--search must be simplex, clusters, clusters=K, power or grid, got '{search}'")
    numbers = Constants.load(constants) if constants is not None else WORKED_EXAMPLE
    notes = notes_of(constants) if constants is not None else []
    settings: dict[str, Any] = {
        "concurrency": tasks,
        "search": name,
        "limits": Limits(
            floor or 0.0,
            None if most_tasks is None else whole("most-tasks", most_tasks),
            float("inf") if most_staleness is None else most_staleness,
        ),
        "clusters": whole("clusters", clusters or "2"),
        "equal": not unequal,
        "seed": whole("seed", seed),
    }
    seen_by: dict[str, Any] = {
        "weights": weights or "equal",
        "reading": reading or "indicator",
        "server_rate": server_rate,
        "server_power": server_power or 0.0,
    }
    own = objective is not None and names_code(objective)
    least, _, share = ("", "", "") if own else (objective or "").partition("=")
    if share and least != "mix":
        raise InvalidInput(f"--objective must be time, steps, energy, mix=S or throughput, got '{objective}'")
    wanted: Any
    if own:
        if (time, budget_steps, epsilon, constants) != (None, None, None, None) or free_step:
            raise InvalidInput(
                f"--objective {objective} is your own, which takes no budget, epsilon, constants or free step; "
                "leave them out, or give them as its options"
            )
        wanted = own_objective(str(objective), **seen_by)
    else:
        wanted = goal(
            time=None if time is None else seconds(time),
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
    with attempts() as attempt:  # write the plan first: explaining it takes longer
        if out is not None:
            attempt(_save, planned.plan, out, "", made_by())
        if single is not None:
            attempt(
                _save, planned.fleet, single, ": the same clients as single groups, the fleet that this plan is for"
            )
        if law_check:
            _announce(planned.fleet)
        if as_json:
            typer.echo(to_json({"command": "plan", **shown.facts()}))
        else:
            print_plan(shown)
        if pictures is not None:
            attempt(_draw, planned, pictures, figure)


def _check_policy(cap: str | None, correction: float | None) -> None:
    """Refuse settings that the bound does not have."""
    from sojourn.errors import InvalidInput

    if cap not in (None, "none"):
        raise InvalidInput(
            f"the bound holds for clients whose tasks queue, got --cap {cap}; leave it out, or plan --by policy"
        )
    if correction not in (None, 1.0):
        raise InvalidInput(f"the bound holds for unbiased updates, got --correction {correction:g}; leave it out")


def _save(what: "Plan | Fleet", path: Path, remark: str = "", *made_by: str) -> None:
    from sojourn.cli.show import say

    what.save(path, *made_by)
    say(f"wrote {path}{remark}", err=True)


def _announce(fleet: "Fleet") -> None:
    """Explain why the first plan on a machine takes longer."""
    from sojourn.cli.show import say
    from sojourn.scenario import Scenario
    from sojourn.timing.simulate.runners import first_use

    if first_use(fleet, Scenario(), "events"):
        say("compiling the simulator, once on this machine; this takes some seconds", err=True)


def _draw(planned: "Planned", folder: Path, alone: bool) -> None:
    from sojourn.cli.show import say
    from sojourn.report.plan_figures import plan_pictures

    for path in plan_pictures(planned, folder, alone):
        say(f"wrote {path}", err=True)


def _share(text: str) -> float:
    from sojourn.errors import InvalidInput

    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"--objective mix must give the share of energy, got 'mix={text}'; write mix=0.3") from None
