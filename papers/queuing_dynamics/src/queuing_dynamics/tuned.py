"""Rates chosen by trials on held-out examples: what a run is worth, and a method's best rate by that.

A run is worth its mean accuracy over the last part of the way: the last model alone swings by several points.
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
}  # keys of a trial: examples that it does not learn from judge it
LAST = 0.15  # share of the way over which accuracies are averaged
POINTS = 31  # of that part

EDGES = {"": "", "lower": ", the least tried", "upper": ", the largest tried"}

Curve = Sequence[Mapping[str, float]]
"""A row an evaluation."""
Worth = Callable[[Curve], float]
"""Of a run, from its curve; a share, more is better."""


class Best(NamedTuple):
    """A method at its best rate."""

    rate: float
    """The rate."""
    accuracy: float
    """Mean over the seeds, in percent."""
    edge: str
    """`lower` or `upper` where it is the least or the largest that was tried."""


def trial_seeds(many: int) -> range:
    """Seeds of trials, none of which a final run has."""
    return range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + many)


def worth_of(cell_hash: str, ledger: Ledger, worth: Worth) -> float:
    """What a run came to, in percent; one that diverged is worth nothing."""
    if ledger.runs[cell_hash]["state"] == "diverged":
        return 0.0
    return 100 * worth(ledger.curves[cell_hash])


def reached(cells: Iterable[Marked], method: str, ledger: Ledger, worth: Worth) -> dict[float, float]:
    """What each rate of a method came to, in percent: the mean over the seeds."""
    found: dict[float, list[float]] = {}
    for marks, cell in cells:
        if marks["method"] == method:
            found.setdefault(float(marks["rate"]), []).append(worth_of(cell.hash, ledger, worth))
    return {rate: fmean(values) for rate, values in found.items()}


def scores_of(means: Mapping[str, Mapping[float, float]]) -> Scores:
    """Means by method and rate as scores, of which less is better."""
    return {method: {rate: -mean for rate, mean in reached.items()} for method, reached in means.items()}


def best_of(cells: Iterable[Marked], method: str, ledger: Ledger, worth: Worth) -> Best:
    """A method's best rate, by the mean over the seeds."""
    means = reached(cells, method, ledger, worth)
    chosen, edge = best_of_scores(scores_of({method: means}))
    return Best(chosen[method], means[chosen[method]], edge.get(method, ""))


def accuracy(curve: Curve, axis: str = "received", most: float = inf, last: float = LAST) -> float:
    """Mean over the last part of the way along an axis, up to `most`; between evaluations in proportion.

    >>> curve = [{"received": at, "accuracy": value} for at, value in ((0, 0.1), (80, 0.5), (100, 0.7))]
    >>> round(accuracy(curve, last=0.2), 6), round(accuracy(curve, most=80, last=0), 6)
    (0.6, 0.5)
    """
    where, values = ([row[key] for row in curve] for key in (axis, "accuracy"))
    end = min(most, where[-1])
    return float(np.interp(np.linspace((1 - last) * end, end, POINTS), where, values).mean())


def accuracy_in_time(curve: Curve, end: float) -> float:
    """Mean over the last part of the time: each model counts for as long as the server has it.

    So a method whose model stands still for long, until a round ends, is judged by the model that it has.

    >>> curve = [{"time": 0, "accuracy": 0.1}, {"time": 80, "accuracy": 0.2}, {"time": 90, "accuracy": 0.5}]
    >>> round(accuracy_in_time(curve, 100), 3)  # 5 units of time at 0.2, 10 at 0.5
    0.4
    """
    begin = (1 - LAST) * end
    times = [*(row["time"] for row in curve), end]
    held = [max(0.0, later - max(now, begin)) for now, later in pairwise(times)]
    return sum(long * row["accuracy"] for long, row in zip(held, curve, strict=True)) / sum(held)
