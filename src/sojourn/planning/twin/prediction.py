"""Predict the loss that training will reach under a policy, without training."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf, isfinite, log2, sqrt

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.landscape import Landscape
from sojourn.plan import fleet_of
from sojourn.planning.policy import Policy
from sojourn.planning.twin.moments import Outcome, exact
from sojourn.planning.twin.runs import BLOCKS, STRETCHES, Run, Runs
from sojourn.planning.twin.windows import long
from sojourn.types import Floats

HALVINGS = 40  # most halvings of the step size from where the search begins


@dataclass(frozen=True, eq=False)
class Predicted:
    """The predicted result of a policy within a time, at its best step size."""

    policy: Policy
    """The policy."""
    loss: float
    """Mean final loss, including the landscape's lowest loss; inf = it diverges at every step size tried."""
    error: float
    """Standard error of the loss over traces."""
    step_size: float
    """Best step size for the landscape."""
    times: Floats
    """Times at which the loss is known: the beginning and the ends of blocks."""
    curve: Floats
    """Mean loss at these times."""
    worst: float
    """Final loss of the worst speed group."""
    updates: float
    """Number of updates within the time."""

    @property
    def diverges(self) -> bool:
        """Whether nothing is learnt at any step size tried, so that the final loss is not below the first."""
        return not self.loss < float(self.curve[0])

    def time_to(self, loss: float) -> float:
        """Return when the curve first reaches this loss, with log-linear interpolation between
        block ends; inf = never.
        """
        for q in range(1, self.curve.size):
            above, below = float(self.curve[q - 1]), float(self.curve[q])
            if above <= loss:
                return float(self.times[q - 1])
            if below <= loss:
                part = (above - loss) / (above - below) if below <= 0 else log2(above / loss) / log2(above / below)
                return float(self.times[q - 1] + part * (self.times[q] - self.times[q - 1]))
        return inf


def predict(
    fleet: Fleet,
    policies: Iterable[Policy],
    time: float,
    landscape: Landscape | None = None,
    *,
    traces: int = 2,
    seed: int = 0,
    step_sizes: Sequence[float] | None = None,
    most: int | None = None,
    stretches: int = STRETCHES,
) -> list[Predicted]:
    """Predict the final loss of each policy, at the step size that is best for it (or the best of `step_sizes`).

    Policies with the same timing share traces, and all have the same seed, so that randomness is common to them. The
    plan's step size is not used, because it belongs to the real problem. `most` is the most clients to simulate (None
    = as many as needed), `stretches` the most stretches of a block with a step size of their own in a long run.

    >>> from sojourn.planning.policy import usual
    >>> fleet = Fleet.of(fast=(9, 8.0), slow=(1, 1.0))
    >>> found = predict(fleet, usual(fleet, 20.0), time=20.0)
    >>> found[3].loss < found[2].loss
    True
    """
    fleet, landscape = fleet_of(fleet), landscape or Landscape.generic()
    if not (isfinite(time) and time > 0):
        raise InvalidInput(f"time must be positive and finite, got {time}; write for example 3600 or 1h")
    if traces < 1:
        raise InvalidInput(f"traces must be at least 1, got {traces}")
    if step_sizes is not None and not (len(step_sizes) and all(isfinite(one) and one > 0 for one in step_sizes)):
        raise InvalidInput(f"step_sizes must hold positive numbers, got {list(step_sizes)}")
    runs = Runs(fleet, float(time), traces, seed, most, stretches)
    each = [(policy, runs.of(policy)) for policy in policies]
    with ThreadPoolExecutor(max(1, min(len(each), os.cpu_count() or 1))) as pool:
        return list(pool.map(lambda one: _predicted(one[0], one[1], landscape, step_sizes), each))


def _predicted(policy: Policy, runs: list[Run], landscape: Landscape, step_sizes: Sequence[float] | None) -> Predicted:
    models = [model_of(run, landscape) for run in runs]

    def loss(eta: float) -> float:
        return float(np.mean([model(eta).curve[-1] for model in models]))

    best = searched(loss, _guess(runs, landscape), landscape.loss) if step_sizes is None else min(step_sizes, key=loss)
    found = [model(best) for model in models]
    ends = np.array([one.curve[-1] for one in found])
    spread = float(ends.std(ddof=1) / sqrt(len(ends))) if len(ends) > 1 and np.isfinite(ends).all() else np.nan
    return Predicted(
        policy=policy,
        loss=landscape.lowest + float(ends.mean()),
        error=spread,
        step_size=float(best),
        times=runs[0].time * np.arange(BLOCKS + 1) / BLOCKS,
        curve=landscape.lowest + np.mean([one.curve for one in found], axis=0),
        worst=landscape.lowest + float(np.mean([one.worst for one in found])),
        updates=float(np.mean([run.number * run.updates.many for run in runs])),
    )


def model_of(run: Run, landscape: Landscape) -> Callable[[float], Outcome]:
    """Return a function from a step size to the outcome of a run."""
    return (long if run.number > len(run.updates) else exact)(run, landscape).at


def _guess(runs: list[Run], landscape: Landscape) -> float:
    """Return where the search begins: a step size at which the delay matters in the steepest direction."""
    rows = [run.server.rows(run.updates) for run in runs]
    total = sum(float((one.weight if one.step is None else one.step).sum()) for one in rows)
    mean = total / max(1, sum(len(run.updates) for run in runs))
    return 1 / ((mean or 1.0) * float(landscape.h.max()) * sqrt(runs[0].updates.concurrency))


def searched(loss: Callable[[float], float], guess: float, below: float = inf) -> float:
    """Return the step size with the least loss: search by factors of 2, then by the root of 2, then by a parabola.

    The search begins with the first step size that gives a loss `below` a limit, since divergent runs may also end low.

    >>> round(searched(lambda eta: (log2(eta) - 3.3) ** 2, 1.0), 6) == round(2**3.3, 6)
    True
    """
    known: dict[float, float] = {}

    def at(x: float) -> float:
        if x not in known:
            known[x] = loss(guess * 2.0**x)
        return known[x]

    here = 0.0
    while not at(here) < below and here > -HALVINGS:
        here -= 1.0
    for direction in (-1.0, 1.0):
        ahead = here + direction
        while abs(ahead) < HALVINGS and min(at(ahead), at(ahead + direction)) < at(
            here
        ):  # stops after two that are worse
            here = min((ahead, ahead + direction), key=at)
            ahead = here + direction
    here = min((here - 0.5, here, here + 0.5), key=at)
    low, middle, high = at(here - 0.5), at(here), at(here + 0.5)
    bend = low + high - 2 * middle
    if isfinite(bend) and bend > 0:
        vertex = here + 0.25 * (low - high) / bend
        here = min((here, vertex), key=at)
    return float(guess * 2.0**here)
