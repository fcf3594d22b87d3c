"""Transient staleness: how m_{i,k} settles after the start (the paper's stationarity figure).

For every dispatch step k >= 1 and group it gives the mean staleness of the task dispatched then, over replications. A
task that is not back after T steps counts with the steps so far (the paper's M_{i,k}^T stops at T as well).
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan, plan_for
from sojourn.scenario import Scenario
from sojourn.timing.simulate.runners import Runner, runner
from sojourn.timing.simulate.summary import Progress, check_run
from sojourn.types import Floats

_SHARE = 64  # replications whose sums are added up in one piece


@dataclass(frozen=True, eq=False)
class Transient:
    """Curves of the staleness over the dispatch step k = 1..steps, as arrays by [group, k - 1]."""

    conditional: Floats
    """Mean staleness of a task dispatched at step k, given that it went to a client of the group."""
    conditional_error: Floats
    """Its standard error."""
    indicator: Floats
    """The paper's m_{i,k} for one client of the group: the mean of the staleness times the indicator of "sent to client
    i".
    """
    indicator_error: Floats
    """Its standard error."""
    replications: int
    """Number of independent runs that are averaged."""


def transient(
    fleet: Fleet,
    plan: Plan,
    steps: int,
    *,
    replications: int = 10_000,
    start: str = "even",
    seed: int = 0,
    scenario: Scenario | None = None,
    engine: str = "auto",
    workers: int | None = None,
    progress: Progress | None = None,
) -> Transient:
    """Simulate how the staleness settles after the start, and return its curves, averaged over replications.

    `steps` is the length of each run, `replications` the number of runs; the other arguments are those of `measure`.

    >>> fleet = Fleet.of(fast=(5, 10.0), slow=(5, 1.0))
    >>> curves = transient(fleet, Plan.uniform(fleet, concurrency=10), steps=200, replications=200)
    >>> curves.conditional.shape
    (2, 200)
    """
    plan = plan_for(fleet, plan)
    steps, seed = check_run(steps, seed, replications, workers=workers)
    if replications < 2:
        raise InvalidInput(f"replications must be at least 2 for a standard error, got {replications}")
    origin: dict[str, Any] = {"start": start, "seed": seed, "scenario": scenario, "engine": engine}
    runner(fleet, plan, **origin)  # raises an error for an impossible run before any thread starts
    group_of = fleet.group_of_client

    def share(first: int) -> Floats:
        sums = np.zeros((3, fleet.groups, steps + 1))
        for index in range(first, min(first + _SHARE, replications)):
            _add_run(runner(fleet, plan, replication=index, **origin), group_of, steps, sums)
        return sums

    total = np.zeros((3, fleet.groups, steps + 1))
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        for number, sums in enumerate(pool.map(share, range(0, replications, _SHARE))):
            total += sums
            if progress is not None:
                progress(min((number + 1) * _SHARE, replications), replications)
    return _curves(total[:, :, 1:], np.asarray(fleet.count, dtype=np.float64)[:, None], replications)


def _add_run(run: Runner, group_of: NDArray[np.int64], steps: int, sums: Floats) -> None:
    """Add count, staleness and squared staleness of one run by [group, dispatch step]."""
    done, waiting = run.rows(steps), run.in_flight()
    kept = done["applied_step"] >= 0
    dispatched = np.concatenate([done["dispatched_step"][kept], waiting["dispatched_step"]])
    until = np.concatenate([done["applied_step"][kept], np.full(waiting["client"].size, run.steps)])
    group = group_of[np.concatenate([done["client"][kept], waiting["client"]])]
    inside = dispatched <= steps
    cell = (group * (steps + 1) + dispatched)[inside]
    staleness = (until - dispatched)[inside].astype(np.float64)
    for row, weights in zip(sums, (None, staleness, staleness**2), strict=True):
        row += np.bincount(cell, weights=weights, minlength=row.size).reshape(row.shape)


def _curves(sums: Floats, clients: Floats, replications: int) -> Transient:
    seen, total, squares = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        conditional = total / seen
        conditional_error = np.sqrt(np.maximum(squares / seen - conditional**2, 0) / (seen - 1))
    whole = total / replications
    whole_error = np.sqrt(np.maximum(squares / replications - whole**2, 0) / (replications - 1))
    return Transient(conditional, conditional_error, whole / clients, whole_error / clients, replications)
