"""Find the best value for each algorithm on a grid; when a best value lies at the edge, the grid grows for all.

So in the end every algorithm has had the same number of trials. The caller decides what is searched for and how a
trial is judged: `compare` judges by the end of a run; a paper may judge by a whole stored curve.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from sojourn.learning.run.config import LARGEST_STEP_SIZE

WIDTH = 10**0.5  # ratio of neighbouring values for a grid that has only one value
EDGES = {"lower", "upper"}

Grids = Mapping[str, tuple[float, ...]]
"""The values that each algorithm is tried at, in increasing order."""
Scores = Mapping[str, Mapping[float, float]]
"""Scores by algorithm and value; less is better, inf = it diverged."""


class Searched(NamedTuple):
    """The result of a search."""

    grids: Grids
    """The last grids that were tried."""
    chosen: dict[str, float]
    """Best value of each algorithm, on the last grids whose scores are all known."""
    edge: dict[str, str]
    """`lower` or `upper`, for algorithms whose best value is still the smallest or the largest of the grid."""
    whole: bool
    """Whether all scores of the last grids are known."""


def search(grids: Grids, extensions: int, look: Callable[[Grids], Scores | None]) -> Searched:
    """Search grids that may grow a given number of times; `look` returns the scores, None = not all are known yet.

    >>> search({"a": (1.0, 2.0)}, 2, lambda grids: {"a": {value: (value - 5) ** 2 for value in grids["a"]}})
    Searched(grids={'a': (1.0, 2.0, 4.0, 8.0)}, chosen={'a': 4.0}, edge={}, whole=True)
    """
    chosen: dict[str, float] = {}
    edge: dict[str, str] = {}
    for extension in range(extensions + 1):
        scores = look(grids)
        if scores is None:
            return Searched(grids, chosen, edge, whole=False)
        chosen, edge = best_of(scores)
        if not edge or extension == extensions:
            break
        found = set(edge.values())
        grids = {name: extended(grid, found if len(grid) > 1 else EDGES) for name, grid in grids.items()}
    return Searched(grids, chosen, edge, whole=True)


def best_of(scores: Scores) -> tuple[dict[str, float], dict[str, str]]:
    """The best value of each algorithm (the first of equal ones), and the edge of the grid where it lies, if any.

    >>> best_of({"a": {0.1: 3.0, 0.3: 2.0, 1.0: 1.0}, "b": {0.1: 0.2, 0.3: 0.0, 1.0: 0.7}})
    ({'a': 1.0, 'b': 0.3}, {'a': 'upper'})
    """
    chosen = {name: min(tried, key=tried.__getitem__) for name, tried in scores.items()}
    ends = {name: (min(tried), max(tried)) for name, tried in scores.items()}
    edge = {name: "lower" if one == ends[name][0] else "upper" for name, one in chosen.items() if one in ends[name]}
    return chosen, edge


def extended(grid: tuple[float, ...], edges: set[str]) -> tuple[float, ...]:
    """The grid with one more value at each of the edges, at the same ratio as the two values next to it.

    >>> extended((0.1, 0.2, 0.8), {"lower", "upper"})
    (0.05, 0.1, 0.2, 0.8, 3.2)
    """
    low = WIDTH if len(grid) == 1 else grid[1] / grid[0]
    high = WIDTH if len(grid) == 1 else grid[-1] / grid[-2]
    below = [rounded(grid[0] / low)] if "lower" in edges else []
    above = [rounded(grid[-1] * high)] if "upper" in edges and grid[-1] * high < LARGEST_STEP_SIZE else []
    return (*below, *grid, *above)


def rounded(value: float) -> float:
    """Round to six digits, so that the value shown is the value used."""
    return float(f"{value:.6g}")
