"""Choose step sizes by trials on held-out examples: the value of a run, and a method's best step size by that value.

The value of a run is its mean accuracy over its last part, since the last model alone fluctuates by several points.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from queuing_dynamics.ledger import Ledger, Marked
from sojourn.experiments.comparison import FIRST_TUNING_SEED
from sojourn.experiments.grid_search import Scores
from sojourn.experiments.grid_search import best_of as best_of_scores

HELD_OUT: dict[str, Any] = {
    "holdout": 0.1,
    "judged_on": "holdout",
}  # keys of a trial, which is evaluated on examples that it does not learn from
LAST = 0.15  # share of the run over which accuracies are averaged
POINTS = 31  # points in that part

EDGES = {"": "", "lower": ", the least tried", "upper": ", the largest tried"}

Curve = Sequence[Mapping[str, float]]
"""One row per evaluation."""
Worth = Callable[[Curve], float]
"""Function from the curve of a run to its value, a share; more is better."""


class Best(NamedTuple):
    """A method at its best rate."""

    rate: float
    """The rate."""
    accuracy: float
    """Mean over the seeds, in percent."""
    edge: str
    """`lower` or `upper` if it is the smallest or the largest that was tried."""


def trial_seeds(many: int) -> range:
    """Return the seeds of trials; no final run has one of them."""
    return range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + many)


def worth_of(cell_hash: str, ledger: Ledger, worth: Worth) -> float:
    """Return the value of a run in percent; 0 if it diverged."""
    if ledger.runs[cell_hash]["state"] == "diverged":
        return 0.0
    return 100 * worth(ledger.curves[cell_hash])


def reached(cells: Iterable[Marked], method: str, ledger: Ledger, worth: Worth) -> dict[float, float]:
    """Return the value of each step size of a method in percent, the mean over the seeds."""
    found: dict[float, list[float]] = {}
    for marks, cell in cells:
        if marks["method"] == method:
            found.setdefault(float(marks["rate"]), []).append(worth_of(cell.hash, ledger, worth))
    return {rate: fmean(values) for rate, values in found.items()}


def scores_of(means: Mapping[str, Mapping[float, float]]) -> Scores:
    """Return means by method and step size as scores, of which less is better."""
    return {method: {rate: -mean for rate, mean in reached.items()} for method, reached in means.items()}


def best_of(cells: Iterable[Marked], method: str, ledger: Ledger, worth: Worth) -> Best:
    """Return a method's best step size, by the mean over the seeds."""
    means = reached(cells, method, ledger, worth)
    chosen, edge = best_of_scores(scores_of({method: means}))
    return Best(chosen[method], means[chosen[method]], edge.get(method, ""))


def accuracy(curve: Curve, axis: str = "received", most: float = inf, last: float = LAST) -> float:
    """Return the mean over the last part of a run along an axis, up to `most`, with linear interpolation.

    >>> curve = [{"received": at, "accuracy": value} for at, value in ((0, 0.1), (80, 0.5), (100, 0.7))]
    >>> round(accuracy(curve, last=0.2), 6), round(accuracy(curve, most=80, last=0), 6)
    (0.6, 0.5)
    """
    where, values = ([row[key] for row in curve] for key in (axis, "accuracy"))
    end = min(most, where[-1])
    return float(np.interp(np.linspace((1 - last) * end, end, POINTS), where, values).mean())


def accuracy_in_time(curve: Curve, end: float) -> float:
    """Return the mean over the last part of the time; each model counts for as long as the server has it.

    So a method whose model does not change for long, until a round ends, is evaluated with the model that it has.

    >>> curve = [{"time": 0, "accuracy": 0.1}, {"time": 80, "accuracy": 0.2}, {"time": 90, "accuracy": 0.5}]
    >>> round(accuracy_in_time(curve, 100), 3)  # 5 units of time at 0.2, 10 at 0.5
    0.4
    """
    begin = (1 - LAST) * end
    times = [*(row["time"] for row in curve), end]
    held = [max(0.0, later - max(now, begin)) for now, later in pairwise(times)]
    return sum(long * row["accuracy"] for long, row in zip(held, curve, strict=True)) / sum(held)
