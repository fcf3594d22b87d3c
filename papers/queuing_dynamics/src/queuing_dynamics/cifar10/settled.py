"""Which reading comes nearest to the paper's three numbers, each method at its best rate on held-out examples.

Under that one every method is tried at two rates more, on either side of its best. What is best after so many updates
need not be best after so much time, so that each method has a rate for either.
"""

from collections.abc import Mapping
from functools import partial
from math import nan, sqrt
from pathlib import Path
from typing import NamedTuple

from queuing_dynamics.cifar10.readings import PAPER, Reading, readings
from queuing_dynamics.cifar10.search import Tried, trials, tried
from queuing_dynamics.cifar10.size import Size
from queuing_dynamics.ledger import Ledger, Marked
from queuing_dynamics.tuned import Best, accuracy, best_of
from sojourn.errors import SojournError

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
    end: str
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
    every = (_standing(size, folder, reading, end, ledger) for reading in readings() for end in reading.ends)
    found = [one for one in every if one is not None]
    return sorted(found, key=lambda one: (one.distance != one.distance, one.distance))


def settled(size: Size, folder: Path, ledger: Ledger) -> Standing:
    """The nearest reading, once all have been tried."""
    found = nearest(size, folder, ledger)
    left = list(dict.fromkeys(one.reading.name(size) for one in found if not one.best))
    if left:
        raise SojournError(
            f"{len(left)} readings were not tried whole, such as '{left[0]}'; go on with the stage search"
        )
    return found[0]


def refined(size: Size, folder: Path, found: Standing, ledger: Ledger) -> Tried:
    """The settled reading with finer rates: the cells, and each method's best of all of its rates."""
    cells = list(tried(size, folder, found.reading, THREE, ledger).cells)
    for method, best in found.best.items():
        for rate in (best.rate / FINER, best.rate * FINER):
            cells += trials(size, folder, found.reading, method, (float(f"{rate:.3g}"),))
    if ledger.missing(cells):
        return Tried(cells, {})
    return Tried(cells, {method: _best(size, found.reading, found.end, cells, method, ledger) for method in THREE})


def refined_in_time(size: Size, folder: Path, found: Standing, ledger: Ledger) -> Tried:
    """The same cells, and each method's best by the time at which the first of all runs ends."""
    made = refined(size, folder, found, ledger)
    if not made.best:
        return made
    until = min(ledger.curves[cell.hash][-1]["time"] for _, cell in made.cells)
    worth = partial(accuracy, axis="time", most=until)
    return Tried(made.cells, {method: best_of(made.cells, method, ledger, worth) for method in THREE})


def _standing(size: Size, folder: Path, reading: Reading, end: str, ledger: Ledger) -> Standing | None:
    """None where FedBuff does not come as far as that."""
    made = tried(size, folder, reading, THREE, ledger)
    if not made.best:
        return Standing(reading, end, {})
    if end == "buffers" and _buffers(made.cells, ledger) < size.steps:
        return None
    return Standing(reading, end, {**made.best, "fedbuff": _best(size, reading, end, made.cells, "fedbuff", ledger)})


def _buffers(cells: list[Marked], ledger: Ledger) -> float:
    """The fewest that a run of FedBuff has filled."""
    return min(ledger.curves[cell.hash][-1]["version"] for marks, cell in cells if marks["method"] == "fedbuff")


def _best(size: Size, reading: Reading, end: str, cells: list[Marked], method: str, ledger: Ledger) -> Best:
    """A method's best rate, where the reading reads it."""
    if method == "fedbuff" and end != "end":
        axis = "version" if end == "buffers" else "received"
        return best_of(cells, method, ledger, partial(accuracy, axis=axis, most=size.steps))
    return best_of(cells, method, ledger, partial(accuracy, most=reading.most(size)))
