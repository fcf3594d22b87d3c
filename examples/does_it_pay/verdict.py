"""What the bound says of each plan, and how it stands to what training says."""

import math
from collections.abc import Mapping

import numpy as np
from scipy.stats import spearmanr
from trials import CHOICES
from world import plans, time_of

from sojourn import Fleet, Plan, analyze, goal
from sojourn.constants import Constants
from sojourn.experiments.compare import Compared
from sojourn.planning.bound.theorem import best_step, bound, largest_step, sums

Row = dict[str, object]


def rows(work: str, name: str, fleet: Fleet, known: Mapping[str, Constants], compared: Compared) -> list[Row]:
    """A row a plan: its loss and time to the target, and the bound that it has."""
    found = {str(row["algorithm"]): row for row in compared.table if row["axis"] == "time"}
    made = []
    for (way, tasks), plan in plans(fleet).items():
        row = found[f"{way}, {tasks}"]
        bounds = {
            f"bound_{key}": goal(time=time_of(fleet), constants=one).predict(fleet, plan).value
            for key, one in known.items()
        } | {f"milder_{key}": milder(fleet, plan, one) for key, one in known.items()}
        made.append({"data": work, "fleet": name, "sampling": way, "tasks": tasks, **_facts(row), **bounds})
    for label in CHOICES.values():
        made.append(
            {"data": work, "fleet": name, "sampling": label, "tasks": _tasks(compared, label), **_facts(found[label])}
        )
    return made


def milder(fleet: Fleet, plan: Plan, constants: Constants) -> float:
    """The bound without the factor C of its last term, which takes all gradients in flight to point the same way."""
    found = analyze(fleet, plan)
    weights = np.full(fleet.groups, 1 / fleet.clients)
    S1, S2 = sums(plan.sampling, found.staleness("indicator"), weights, fleet.count)
    steps = found.throughput * time_of(fleet)
    eta = min(best_step(steps, 1, S1, S2, constants), largest_step(1, S1, S2, constants))
    return bound(eta, steps, 1, S1, S2, constants)


def _facts(row: Mapping[str, object]) -> Row:
    losses = ("test_loss", "test_loss_low", "test_loss_high", "accuracy")
    keys = ("step_size", "edge", *losses, "reached", "not_reached", "to_target", "diverged")
    return {key: row.get(key) for key in keys}


def _tasks(compared: Compared, label: str) -> int:
    runs = compared.runs[label]
    return int(next(iter(runs.values())).facts["config"]["concurrency"])


def verdicts(made: list[Row]) -> list[Row]:
    """Of one dataset and fleet: rank correlation of the bound with the loss, and what following it costs."""
    grid = [row for row in made if "bound_default" in row]
    losses = np.array([_number(row["test_loss"]) for row in grid])
    best = grid[int(np.nanargmin(losses))]
    rows: list[Row] = []
    for key, label in CHOICES.items():
        bounds = np.array([_number(row[f"bound_{key}"]) for row in grid])
        pick = grid[int(np.argmin(bounds))]
        free = next(row for row in made if row["sampling"] == label)
        fair = ~np.isnan(losses)
        milder_bounds = np.array([_number(row[f"milder_{key}"]) for row in grid])
        milder_pick = grid[int(np.argmin(milder_bounds))]
        rows.append(
            {
                "data": best["data"],
                "fleet": best["fleet"],
                "constants": key,
                "rank_correlation": float(spearmanr(bounds[fair], losses[fair]).statistic),
                "with_the_same_tasks": _within(grid, bounds, losses),
                "best": _called(best),
                "best_loss": best["test_loss"],
                "bound_picks": _called(pick),
                "loss_there": pick["test_loss"],
                "regret": _number(pick["test_loss"]) / _number(best["test_loss"]),
                "free_choice_tasks": free["tasks"],
                "free_choice_loss": free["test_loss"],
                "milder_rank_correlation": float(spearmanr(milder_bounds[fair], losses[fair]).statistic),
                "milder_picks": _called(milder_pick),
                "milder_regret": _number(milder_pick["test_loss"]) / _number(best["test_loss"]),
            }
        )
    return rows


def _within(grid: list[Row], bounds: np.ndarray, losses: np.ndarray) -> float:
    """Mean over the numbers of tasks of the rank correlation among plans that share it; NaN where there is but one."""
    tasks = np.array([row["tasks"] for row in grid])
    found = [tasks == many for many in dict.fromkeys(tasks)]
    if any(mine.sum() < 2 for mine in found):
        return math.nan
    return float(np.mean([spearmanr(bounds[mine], losses[mine]).statistic for mine in found]))


def _called(row: Row) -> str:
    return f"{row['sampling']}, {row['tasks']}"


def _number(value: object) -> float:
    return math.nan if value is None or value == "" else float(value)  # type: ignore[arg-type]
