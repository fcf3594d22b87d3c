"""The search: methods under a reading at every rate of a grid, judged on held-out examples.

Where the best rate of a method is the least or the largest of its grid, the grids of all methods of the reading grow
there by one rate, twice at most, so that each has had as many trials. A run is worth its mean accuracy over the last
part of the way: the last model alone swings by several points.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from sojourn.paper.cifar10.readings import Reading
from sojourn.paper.cifar10.size import Size
from sojourn.paper.ledger import Ledger, Marked
from sojourn.sweep.cell import Cell
from sojourn.sweep.comparison import FIRST_TUNING_SEED
from sojourn.sweep.tuning import extended
from sojourn.train.config import TrainConfig

HOLDOUT = 0.1
GROWTH = 2
LAST = 0.15  # share of the way over which accuracies are averaged

Grids = dict[str, tuple[float, ...]]


class Best(NamedTuple):
    """A method at its best rate."""

    rate: float
    """The rate."""
    accuracy: float
    """Mean over the seeds, in percent."""
    edge: str
    """`lower` or `upper` where it is the least or the largest that was tried."""


class Tried(NamedTuple):
    """The trials of a reading."""

    cells: list[Marked]
    """Those that can be told so far."""
    best: dict[str, Best]
    """Each method's best; empty until all cells stand in the ledger."""


Chosen = dict[str, tuple[Reading, Best]]
"""By method: how it is run, and at which rate."""


def tried(size: Size, folder: Path, reading: Reading, methods: Sequence[str], ledger: Ledger) -> Tried:
    """The trials of these methods under a reading, and what came of them where all have been made."""
    grids: Grids = {method: reading.rates(method) for method in methods}
    for growth in range(GROWTH + 1):
        cells = [one for method, grid in grids.items() for one in trials(size, folder, reading, method, grid)]
        if ledger.missing(cells):
            return Tried(cells, {})
        best = {method: best_of(cells, method, ledger, most=reading.most(size)) for method in methods}
        edges = {one.edge for one in best.values()} - {""}
        if not edges or growth == GROWTH:
            break
        grids = {method: extended(grid, edges) for method, grid in grids.items()}
    return Tried(cells, best)


def trials(size: Size, folder: Path, reading: Reading, method: str, rates: Iterable[float]) -> list[Marked]:
    """A method at these rates, over the seeds of the search."""
    seeds = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + size.trial_seeds)
    return [trial(size, folder, reading, method, rate, seed) for rate in rates for seed in seeds]


def trial(size: Size, folder: Path, reading: Reading, method: str, rate: float, seed: int) -> Marked:
    """One trial, judged by examples that it does not learn from."""
    marks: dict[str, Any] = {"reading": reading.name(size), "method": method, "rate": rate, "seed": seed}
    keys = {**reading.keys(size, method), **common(size, folder, reading), "holdout": HOLDOUT, "judged_on": "holdout"}
    return marks, Cell(
        f"{marks['reading']}, {method}, rate {rate:g}, seed {seed}", TrainConfig(**keys, rate=rate, seed=seed)
    )


def common(size: Size, folder: Path, reading: Reading) -> dict[str, Any]:
    """Keys of a run that the methods share."""
    return {
        "fleet": size.saved_fleet(folder, reading.slow_rate),
        "data": size.data,
        "partition": f"classes(k={size.classes})",
        "batch_size": size.batch_size,
        "augment": size.augment,
        "precision": size.precision,
    }


def best_of(cells: Iterable[Marked], method: str, ledger: Ledger, axis: str = "received", most: float = inf) -> Best:
    """A method's best rate by mean accuracy, read at most so far on an axis; a run that diverged is worth nothing."""
    reached: dict[float, list[float]] = {}
    for marks, cell in cells:
        if marks["method"] == method:
            gone = ledger.runs[cell.hash]["state"] == "diverged"
            value = 0.0 if gone else 100 * accuracy(ledger.curves[cell.hash], axis, most)
            reached.setdefault(float(marks["rate"]), []).append(value)
    rate = max(reached, key=lambda one: fmean(reached[one]))
    edge = "lower" if rate == min(reached) else "upper" if rate == max(reached) else ""
    return Best(rate, fmean(reached[rate]), edge)


def accuracy(curve: Sequence[Mapping[str, float]], axis: str = "received", most: float = inf) -> float:
    """Mean over the last part of the way along an axis, up to `most`."""
    on_the_way = [row for row in curve if row[axis] <= most]
    end = on_the_way[-1][axis]
    return fmean(row["accuracy"] for row in on_the_way if row[axis] >= (1 - LAST) * end)
