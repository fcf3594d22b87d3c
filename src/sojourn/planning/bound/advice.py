"""Describe a plan in words: what was computed, and its limits."""

import numpy as np
from numpy.typing import NDArray

from sojourn.fleet import Fleet
from sojourn.planning.bound.objective import NetworkObjective, Prediction
from sojourn.planning.bound.scores import TimeOfStep
from sojourn.planning.bound.search import Planned

PESSIMISM = (
    "A worst-case bound was minimised, not training itself: it is known to be pessimistic about concurrency, because "
    "it assumes that all pending gradients pull the same way, and so prefers few tasks in flight and small steps."
)
BLIND = (
    "Only the number of server steps per unit of time was maximised: no bound was considered, and clients that are "
    "hardly ever sampled get very large weights instead."
)
OWN = (
    "Your own objective was minimised, as it is written: no bound was considered, and what it does "
    "not see it does not take into account."
)
TOO_SHORT = (
    "Fewer than one server step is expected, so the figures mean little: check budget or epsilon, and that it is "
    "in the unit of time of the rates."
)
EXTREME = 0.1  # part of the clients at each end of the speeds, if a fleet has many


def advice(planned: Planned, others: dict[str, Prediction]) -> list[str]:
    """Return sentences about the plan."""
    plan, value = planned.plan, planned.prediction.value
    rows = [(name, row.value) for name, row in others.items() if name.startswith("uniform")]
    name, uniform = rows[-1]
    scored = planned.prediction.scored
    what = "bound" if scored.value == scored.bound else "value"
    change = f"{100 * abs(1 - value / uniform):.0f}% {'lower' if value <= uniform else 'higher'}"
    said = [f"{_whom(planned.fleet, plan.sampling)}; {_tasks(plan.concurrency)}; {what} {change} than {name}"]
    if planned.prediction.scored.step_size is not None:
        said.append(_step(planned.prediction))
    if planned.prediction.scored.steps < 1:
        said.append(TOO_SHORT)
    if planned.binning is not None:
        said.append(_bins(planned))
    if planned.parked is not None:
        said.append(planned.parked)
    return [*said, _caveat(planned)]


def _caveat(planned: Planned) -> str:
    """Return a sentence on the limits of the objective."""
    if not np.isnan(planned.prediction.scored.bound):
        return PESSIMISM
    score = planned.objective.score if isinstance(planned.objective, NetworkObjective) else None
    return BLIND if isinstance(score, TimeOfStep) else OWN


def _tasks(tasks: int) -> str:
    return "1 task in flight" if tasks == 1 else f"{tasks} tasks in flight"


def _whom(fleet: Fleet, sampling: NDArray[np.float64]) -> str:
    """Describe the ratio of the fastest clients' probability to the slowest clients'."""
    if np.ptp(fleet.rate) == 0:
        return "sample all clients alike" if np.ptp(sampling) < 1e-9 else "sample as listed"
    fast, slow = _end(fleet, sampling, -fleet.rate), _end(fleet, sampling, fleet.rate)
    if np.unique(fleet.rate).size == 2:
        names = ("fast clients", "slow ones", "slow clients", "fast ones")
    else:
        names = ("the fastest clients", "the slowest", "the slowest clients", "the fastest")
    ratio = fast / slow
    if abs(ratio - 1) < 0.005:
        return f"sample {names[0]} as often as {names[1]}"
    if ratio > 1:
        return f"sample {names[0]} {ratio:.2g}x as often as {names[1]}"
    return f"sample {names[2]} {1 / ratio:.2g}x as often as {names[3]}"


def _end(fleet: Fleet, sampling: NDArray[np.float64], by: NDArray[np.float64]) -> float:
    """Return the mean probability of the clients at one end of the speeds: the first group, or a
    tenth of all clients.
    """
    order = np.argsort(by, kind="stable")
    taken = np.cumsum(fleet.count[order]) - fleet.count[order] < max(1.0, EXTREME * fleet.clients)
    end = order[taken] if np.unique(fleet.rate).size > 5 else order[by[order] == by[order[0]]]
    return float((fleet.count[end] * sampling[end]).sum() / fleet.count[end].sum())


def _step(prediction: Prediction) -> str:
    scored = prediction.scored
    assert scored.step_size is not None
    assert scored.free_step_size is not None
    assert scored.largest_step_size is not None
    limit = f"the proof of Theorem 1 allows steps up to {scored.largest_step_size:.6g}"
    if scored.step_size < scored.free_step_size:
        return (
            f"step size {scored.step_size:.6g}: {limit}; without that limit {scored.free_step_size:.6g} would be best"
        )
    if not scored.proven:
        return f"step size {scored.step_size:.6g}, chosen freely: {limit}, so the bound is not proven for it"
    return f"step size {scored.step_size:.6g}, the best one; {limit}"


def _bins(planned: Planned) -> str:
    binning = planned.binning
    assert binning is not None
    gain = 1 - binning.refined_value / binning.true_value
    refined = f"; then refined client by client, which gained {gain:.1e}" if gain > 0 else ""
    return (
        f"planned through {binning.bins} bins of clients (rates within a bin differ by at most "
        f"{100 * (binning.width - 1):.1f}%), whose prediction had a relative error of {binning.error:.1e}{refined}; "
        "the "
        "figures are for the fleet itself"
    )
