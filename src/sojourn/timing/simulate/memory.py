"""How long a network remembers its start, and whether a run is long enough to forget it.

Two things take time. First the queues settle: a client that begins with x tasks and holds q in the stationary network
passes its surplus to the clients of the most loaded group b. While both are busy, both serve mu t tasks in the time t
and get p A of the A steps, so that it takes

    t = Delta / (mu - p mu_b / p_b),    Delta = x - q + (p / p_b) (q_b - x_b),    A = (mu_b t + q_b - x_b) / p_b.

If loads are nearly equal this overestimates: an M/M/1 queue with the utilisation rho settles in the longer of
Delta / (mu (1 - rho)) and its relaxation time 1 / (mu (1 - sqrt(rho))^2). Then the tasks age: for about the largest
mean staleness, the first tasks carry step 0 and look younger than they are. This is a rough estimate to distinguish
short runs from long ones; after the stated steps between a tenth and a half of the surplus is left.
"""

import math
from dataclasses import dataclass

import numpy as np

from sojourn.dispatching import HOMES, QUEUED
from sojourn.timing.exact.analysis import Analysis
from sojourn.timing.simulate.summary import Summary

SLIGHT = 0.05  # a surplus below this part of a queue, or of one task, is ignored
SEEN = 100  # with fewer updates than this the mean of a group says little
ENOUGH = 8  # a run is long enough if it lasts this many times its memory; a stationary start leaves out as much


@dataclass(frozen=True)
class Memory:
    """What a run has to forget, in server steps."""

    settling: float
    """Steps until the queues are those of the stationary network; 0 if they begin so."""
    staleness: float
    """Largest mean staleness of a group: by theory, or as simulated if that is larger."""
    needed: int
    """Steps to simulate after the warm-up so that the start does not matter."""
    short: bool
    """Whether the run is shorter than that."""


def memory_of(summary: Summary, exact: Analysis) -> Memory:
    """Compare the length of a run with its memory; `exact` is the analysis of the same network.

    >>> from sojourn import Fleet, Plan, analyze, measure
    >>> fleet = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))
    >>> plan = Plan.uniform(fleet, concurrency=1000)
    >>> found = memory_of(measure(fleet, plan, steps=2000, start="even"), analyze(fleet, plan))
    >>> round(found.settling), round(found.staleness), found.short
    (10273, 1949, True)
    """
    routed = summary.dispatcher == "routed" and not summary.plan.capped
    seen = summary.staleness.value[summary.arrivals >= SEEN]
    stale = [0.0, *seen, *(exact.staleness() if routed else [])]
    if summary.dispatcher in QUEUED or summary.dispatcher not in HOMES:
        stale.append(summary.plan.concurrency - 1)  # the mean over all updates, whoever gets them
    oldest = max(stale) + 1
    settling = settling_steps(exact, summary.start) if routed else 0.0
    left = max(settling + oldest - summary.warmup, oldest)
    needed = math.ceil(ENOUGH * left)
    steps = summary.steps / summary.replications
    return Memory(settling, float(oldest - 1), needed, steps < needed)


def settling_steps(exact: Analysis, start: str) -> float:
    """Return the number of steps until the queues of a routed network without a cap have settled."""
    if start == "stationary":
        return 0.0
    fleet, plan = exact.fleet, exact.plan
    share = plan.sampling if start == "routed" else np.full(fleet.groups, 1 / fleet.clients)
    surplus = plan.concurrency * share - exact.queue
    p, rate, rho = plan.sampling, fleet.rate, np.minimum(exact.utilisation, 1 - 1e-12)
    b = int(np.argmax(p / rate))
    delta = np.abs(surplus - p / p[b] * surplus[b])
    counts = delta > SLIGHT * np.maximum(exact.queue, 1.0)
    if not counts.any():
        return 0.0
    by_drift = delta / np.maximum(rate - p * (rate[b] / p[b]), 1e-300)
    by_chance = np.maximum(delta / (rate * (1 - rho)), 1 / (rate * (1 - np.sqrt(rho)) ** 2))
    lasting = np.minimum(by_drift, by_chance)[counts].max()
    return float((rate[b] * lasting + abs(surplus[b])) / p[b])
