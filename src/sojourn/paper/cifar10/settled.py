"""Which reading comes nearest to the paper's three numbers, each method at its best rate on held-out examples.

Under that one every method is tried at two rates more, on either side of its best.
"""

from collections.abc import Mapping
from functools import partial
from math import nan, sqrt
from pathlib import Path
from typing import NamedTuple

from sojourn.errors import SojournError
from sojourn.paper.cifar10.readings import PAPER, Reading, readings
from sojourn.paper.cifar10.search import Tried, trials, tried
from sojourn.paper.cifar10.size import Size
from sojourn.paper.ledger import Ledger, Marked
from sojourn.paper.tuned import Best, accuracy, best_of

THREE = tuple(one.name for one in PAPER)
ENDS = {
    "end": "at the end of the run",
    "buffers": "after as many full buffers as the paper has steps",
    "updates": "after as many updates as the paper has steps",
}
"""Where FedBuff, whose steps are full buffers, is read."""
FINER = sqrt(3)


class Standing(NamedTuple):
    """A reading and what comes of it."""

    reading: Reading
    """Which."""
    buffered: str
    """Where FedBuff is read."""
    best: Mapping[str, Best]
    """By method; empty where it was not tried whole."""

    @property
    def distance(self) -> float:
        """Sum of the distances from the paper's three numbers, in points."""
        if not self.best:
            return nan
        return sum(abs(self.best[one.name].accuracy - one.paper) for one in PAPER)


def nearest(size: Size, folder: Path, ledger: Ledger) -> list[Standing]:
    """The readings, the nearest first; those that were not tried whole at the end."""
    found = [_standing(size, folder, reading, ends, ledger) for reading in readings() for ends in reading.buffered]
    return sorted(found, key=lambda one: (one.distance != one.distance, one.distance))


def settled(size: Size, folder: Path, ledger: Ledger) -> Standing:
    """The nearest reading, once all have been tried."""
    found = nearest(size, folder, ledger)
    left = list(dict.fromkeys(one.reading.name(size) for one in found if not one.best))
    if left:
        raise SojournError(f"{len(left)} readings were not tried whole, such as '{left[0]}'; go on with the search")
    return found[0]


def refined(size: Size, folder: Path, found: Standing, ledger: Ledger) -> Tried:
    """The settled reading with finer rates: the cells, and each method's best of all of its rates."""
    cells = list(tried(size, folder, found.reading, THREE, ledger).cells)
    for method, best in found.best.items():
        for rate in (best.rate / FINER, best.rate * FINER):
            cells += trials(size, folder, found.reading, method, (float(f"{rate:.3g}"),))
    if ledger.missing(cells):
        return Tried(cells, {})
    return Tried(cells, {method: _best(size, found.reading, found.buffered, cells, method, ledger) for method in THREE})


def _standing(size: Size, folder: Path, reading: Reading, ends: str, ledger: Ledger) -> Standing:
    made = tried(size, folder, reading, THREE, ledger)
    if not made.best:
        return Standing(reading, ends, {})
    return Standing(reading, ends, {**made.best, "fedbuff": _best(size, reading, ends, made.cells, "fedbuff", ledger)})


def _best(size: Size, reading: Reading, ends: str, cells: list[Marked], method: str, ledger: Ledger) -> Best:
    """A method's best rate, where the reading reads it."""
    if method == "fedbuff" and ends != "end":
        axis = "version" if ends == "buffers" else "received"
        return best_of(cells, method, ledger, partial(accuracy, axis=axis, most=size.steps))
    return best_of(cells, method, ledger, partial(accuracy, most=reading.most(size)))
