"""The paper's worked example: 90 fast clients and 10 slow ones, and the bound for a sampling of them.

n = 100, slow rate 1, fast rate mu_f; L = 1, B = 20, A = 100, T = 10^4. A fast client is sampled with p, a slow one with
q = (1 - 90 p) / 10. The staleness m in the bound has two readings, and two sources: the exact stationary law, and
simulation of the first T steps from an even start, as the paper's Monte Carlo.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sojourn.constants import WORKED_EXAMPLE
from sojourn.fleet import Fleet
from sojourn.laws.law import Law
from sojourn.plan import Plan
from sojourn.planning.bound.family import grid_around_uniform
from sojourn.planning.bound.goal import goal
from sojourn.planning.bound.theorem import best_step, bound, sums
from sojourn.timing.exact.analysis import Reading
from sojourn.timing.simulate.summary import Summary, measure
from sojourn.types import Floats

FAST, SLOW = 90, 10
STEPS = 10_000
SPEEDS = (2.0, 4.0, 8.0, 16.0)
CONCURRENCIES = (10, 50, 100)
READINGS: tuple[Reading, Reading] = ("conditional", "indicator")
GRID = 50
UNIFORM = 1 / (FAST + SLOW)


class Best(NamedTuple):
    """The best point of a grid."""

    p: float
    """Probability of a fast client."""
    value: float
    """Bound there."""
    gain: float
    """Relative decrease from the bound of uniform sampling."""


def worked_fleet(speed: float, deterministic: bool = False) -> Fleet:
    """Return a fleet of 90 clients at rate `speed` and 10 at rate 1."""
    fleet = Fleet.of(fast=(FAST, speed), slow=(SLOW, 1.0))
    return replace(fleet, law=(Law("deterministic"),) * 2) if deterministic else fleet


def sampled(fleet: Fleet, p: float, concurrency: int) -> Plan:
    """Return a plan that samples each fast client with probability p, and slow ones with the rest."""
    count = fleet.count
    return Plan(fleet.name, count, np.array([p, (1 - count[0] * p) / count[1]]), concurrency)


def grid(fleet: Fleet) -> Floats:
    """Return 50 values of p around the uniform one, as in the paper; the range (0, min(2/n,
    1/n_fast)) is our choice.
    """
    return np.array([np.exp(point[0]) for point in grid_around_uniform(fleet, GRID)])


def exact_bounds(
    fleet: Fleet, values: Floats, concurrency: int, reading: Reading, *, free: bool = True, time: float | None = None
) -> Floats:
    """Return the bound at each p with the best step size and the exact stationary staleness; after a time if one is
    given.
    """
    steps = STEPS if time is None else None
    wanted = goal(steps=steps, time=time, free_step=free, reading=reading)
    return np.array([wanted.predict(fleet, sampled(fleet, p, concurrency)).value for p in values])


def simulated_bounds(fleet: Fleet, p: float, concurrency: int, replications: int, seed: int) -> dict[Reading, float]:
    """Return the bound at p by reading, with the simulated staleness of the first T steps from an even start."""
    plan = sampled(fleet, p, concurrency)
    seen = complete(measure(fleet, plan, STEPS, start="even", warmup=0, replications=replications, seed=seed))
    share = seen.arrivals / (seen.steps * fleet.count)
    staleness: dict[Reading, Floats] = {
        "conditional": seen.staleness.value,
        "indicator": seen.staleness.value * share,  # a task went to this client
    }
    weights = np.full(fleet.groups, UNIFORM)
    found: dict[Reading, float] = {}
    for reading, m in staleness.items():
        S1, S2 = sums(plan.sampling, m, weights, fleet.count)
        step = best_step(STEPS, concurrency, S1, S2, WORKED_EXAMPLE)
        found[reading] = bound(step, STEPS, concurrency, S1, S2, WORKED_EXAMPLE)
    return found


def best(values: Floats, bounds: Floats, uniform: float) -> Best:
    """Return the best of a grid, compared with the bound of uniform sampling."""
    at = int(np.argmin(bounds))
    return Best(float(values[at]), float(bounds[at]), float(1 - bounds[at] / uniform))


def complete(summary: Summary) -> Summary:
    """Return the summary; raise an error if it was interrupted, since half an experiment has no result."""
    if not summary.complete:
        raise KeyboardInterrupt
    return summary
