"""Compare a plan with those that people would use without it, and study errors in its inputs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.constants import Constants
from sojourn.fleet import Fleet
from sojourn.plan import MOST_TASKS, Plan
from sojourn.planning.bound.binning import binned, into_bins
from sojourn.planning.bound.objective import NetworkObjective, Objective, Prediction
from sojourn.planning.bound.problem import Infeasible
from sojourn.planning.bound.scores import StepBudget
from sojourn.planning.bound.search import Planned, make_plan

FEW = 200  # up to this many groups errors in the inputs are studied on the fleet itself
ERROR = 0.2


def compare(planned: Planned) -> dict[str, Prediction]:
    """Return predictions for uniform sampling, sampling by speed, the paper's plan, and the plan itself, by name."""
    fleet, objective, tasks = planned.fleet, planned.objective, planned.plan.concurrency
    some = "1 task" if tasks == 1 else f"{tasks} tasks"
    others = {f"uniform, {some}{' (C = n)' if tasks == fleet.clients else ''}": Plan.uniform(fleet, tasks)}
    if tasks != fleet.clients <= MOST_TASKS:
        others[f"uniform, {fleet.clients} tasks (C = n)"] = Plan.uniform(fleet, fleet.clients)
    others[f"by speed, {some}"] = Plan.by_speed(fleet, tasks)
    rows = {name: objective.predict(fleet, plan) for name, plan in others.items()}
    paper = papers_plan(fleet, objective, tasks)
    if paper is not None:
        rows[f"the paper's, {some}"] = objective.predict(fleet, paper)
    rows["this plan"] = planned.prediction
    return rows


def papers_plan(fleet: Fleet, objective: Objective, tasks: int) -> Plan | None:
    """Return the paper's plan: two speed clusters, and the bound after T steps on a grid of p_fast around uniform.

    T is the number of steps of uniform sampling under `objective`. Returns None if the objective has no constants, or
    the fleet only one speed.
    """
    constants = _constants(objective)
    if constants is None or np.ptp(fleet.rate) == 0:
        return None
    assert isinstance(objective, NetworkObjective)
    steps = max(1.0, objective.predict(fleet, Plan.uniform(fleet, tasks)).scored.steps)
    free = getattr(objective.score, "free_step", False)
    bound = replace(objective, score=StepBudget(steps, constants, free))
    return replace(make_plan(fleet, bound, tasks, "grid").plan, step_size=None)


@dataclass(frozen=True)
class Sensitivity:
    """The effect of one input that differs from what was assumed."""

    case: str
    """The input, and by how much it differs."""
    kept: float
    """Value of the plan as it is, its step size included, under the true input."""
    best: float
    """Value of a plan made with the true input; NaN = no plan keeps the limits."""
    concurrency: int | None
    """Tasks in flight of that plan."""
    step_size: float | None
    """Its step size."""
    sampling_change: float
    """Largest relative change of a client's probability; NaN = there is no such plan."""
    proven: bool
    """Whether the theorem still allows the kept step size."""
    feasible: bool
    """Whether the kept plan still keeps the constraints."""

    @property
    def regret(self) -> float:
        """Relative loss of the kept plan compared with the best one."""
        return self.kept / self.best - 1


def sensitivity(planned: Planned, error: float = ERROR, seed: int = 0) -> list[Sensitivity]:
    """Compare the plan with plans made for rates, A, L and B that are wrong by `error`.

    A fleet of more than 200 groups is studied through bins.
    """
    planned = _smaller(planned)
    return [_studied(planned, *case) for case in _cases(planned, error, seed)]


def _studied(planned: Planned, case: str, fleet: Fleet, objective: Objective) -> Sensitivity:
    kept = replace(planned.plan, fleet_hash=None)
    old = objective.predict(fleet, kept)
    held = (old.scored.proven, planned.limits.kept(old))
    try:
        new = _again(planned, fleet, objective, kept.concurrency if planned.fixed else None, start=planned)
    except Infeasible:
        return Sensitivity(case, old.value, nan, None, None, nan, *held)
    change = float(np.abs(new.plan.sampling / kept.sampling - 1).max())
    return Sensitivity(case, old.value, new.prediction.value, new.plan.concurrency, new.plan.step_size, change, *held)


def _smaller(planned: Planned) -> Planned:
    fleet, objective = planned.fleet, planned.objective
    if fleet.groups <= FEW:
        return planned
    label = into_bins(fleet, objective, FEW)
    smaller, same = binned(fleet, objective, label)
    fixed = planned.plan.concurrency if planned.fixed else None
    try:
        return _again(replace(planned, equal=True), smaller, same, fixed)
    except Infeasible:
        return planned


def _again(planned: Planned, fleet: Fleet, objective: Objective, tasks: int | None, **more: Any) -> Planned:
    """Return a plan from the same family, under the same constraints."""
    clusters = min(planned.clusters, np.unique(fleet.rate).size)
    settings = {"clusters": clusters, "equal": planned.equal, **more}
    return make_plan(fleet, objective, tasks, planned.search, planned.limits, **settings)


def _cases(planned: Planned, error: float, seed: int) -> Iterator[tuple[str, Fleet, Objective]]:
    fleet, objective = planned.fleet, planned.objective
    if np.ptp(fleet.rate) > 0:
        fast = _fast_half(fleet)
        for sign in (error, -error):
            rates = np.where(fast, fleet.rate * (1 + sign), fleet.rate)
            yield f"fast clients' rates {_off(sign)}", fleet.with_rates(rates), objective
    rng = np.random.default_rng(seed)
    rates = fleet.rate * rng.uniform(1 - error, 1 + error, fleet.groups)
    yield f"every group's rate wrong by up to {100 * error:.0f}%", fleet.with_rates(rates), objective
    constants = _constants(objective)
    if constants is None:
        return
    assert isinstance(objective, NetworkObjective)
    for key in ("A", "L", "B"):
        for sign in (error, -error):
            score = replace(objective.score, constants=_scaled(constants, key, 1 + sign))  # type: ignore[type-var]
            yield f"{key} {_off(sign)}", fleet, replace(objective, score=score)


def _off(sign: float) -> str:
    return f"{100 * abs(sign):.0f}% {'more' if sign > 0 else 'less'}"


def _fast_half(fleet: Fleet) -> NDArray[np.bool_]:
    """Return the groups faster than the median client; if there are none, those faster than the slowest."""
    order = np.argsort(fleet.rate)
    median = fleet.rate[order][np.searchsorted(np.cumsum(fleet.count[order]), fleet.clients / 2)]
    fast: NDArray[np.bool_] = fleet.rate > median
    return fast if fast.any() else np.asarray(fleet.rate > fleet.rate.min())


def _constants(objective: Objective) -> Constants | None:
    score = objective.score if isinstance(objective, NetworkObjective) else None
    constants = getattr(score, "constants", None)
    return constants if isinstance(constants, Constants) else None


def _scaled(constants: Constants, key: str, factor: float) -> Constants:
    """Return the constants with A, L or B scaled; B through its parts if it is given by them."""
    if key != "B" or constants.B is not None:
        return replace(constants, **{key: getattr(constants, key) * factor})
    parts = {part: getattr(constants, part) for part in ("sigma2", "G2", "R2")}
    return replace(constants, **{part: value * factor for part, value in parts.items() if value is not None})
