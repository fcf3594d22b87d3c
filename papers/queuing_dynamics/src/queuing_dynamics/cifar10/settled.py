"""Find the reading that is nearest to the paper's three numbers, with each method at its best step size.

Step sizes are chosen on held-out examples. Under the nearest reading every method is tried at two more step sizes, one
on either side of its best. What is best after some updates need not be best after some time, so each method has a step
size for either.
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
    """A reading and its results."""

    reading: Reading
    """Which."""
    end: str
    """Where FedBuff is read."""
    best: Mapping[str, Best]
    """Results by method; empty if the trials are incomplete."""

    @property
    def distance(self) -> float:
        """Return the sum of the distances from the paper's three numbers, in percentage points."""
        if not self.best:
            return nan
        return sum(abs(self.best[one.name].accuracy - one.paper) for one in PAPER)


def nearest(size: Size, folder: Path, ledger: Ledger) -> list[Standing]:
    """Return the readings, the nearest first; those with incomplete trials come last."""
    every = (_standing(size, folder, reading, end, ledger) for reading in readings() for end in reading.ends)
    found = [one for one in every if one is not None]
    return sorted(found, key=lambda one: (one.distance != one.distance, one.distance))


def settled(size: Size, folder: Path, ledger: Ledger) -> Standing:
    """Return the nearest reading; raise an error unless all have been tried."""
    found = nearest(size, folder, ledger)
    left = list(dict.fromkeys(one.reading.name(size) for one in found if not one.best))
    if left:
        raise SojournError(
            f"{len(left)} readings were not tried whole, such as '{left[0]}'; go on with the stage search"
        )
    return found[0]


def refined(size: Size, folder: Path, found: Standing, ledger: Ledger) -> Tried:
    """Return the cells of the settled reading at finer step sizes, and each method's best of all."""
    cells = list(tried(size, folder, found.reading, THREE, ledger).cells)
    for method, best in found.best.items():
        for rate in (best.rate / FINER, best.rate * FINER):
            cells += trials(size, folder, found.reading, method, (float(f"{rate:.3g}"),))
    if ledger.missing(cells):
        return Tried(cells, {})
    return Tried(cells, {method: _best(size, found.reading, found.end, cells, method, ledger) for method in THREE})


def refined_in_time(size: Size, folder: Path, found: Standing, ledger: Ledger) -> Tried:
    """Return the same cells, and each method's best at the time at which the first of all runs ends."""
    made = refined(size, folder, found, ledger)
    if not made.best:
        return made
    until = min(ledger.curves[cell.hash][-1]["time"] for _, cell in made.cells)
    worth = partial(accuracy, axis="time", most=until)
    return Tried(made.cells, {method: best_of(made.cells, method, ledger, worth) for method in THREE})


def _standing(size: Size, folder: Path, reading: Reading, end: str, ledger: Ledger) -> Standing | None:
    """Return a reading with its results; None if FedBuff does not get that far."""
    made = tried(size, folder, reading, THREE, ledger)
    if not made.best:
        return Standing(reading, end, {})
    if end == "buffers" and _buffers(made.cells, ledger) < size.steps:
        return None
    return Standing(reading, end, {**made.best, "fedbuff": _best(size, reading, end, made.cells, "fedbuff", ledger)})


def _buffers(cells: list[Marked], ledger: Ledger) -> float:
    """Return the fewest buffers that a run of FedBuff has filled."""
    return min(ledger.curves[cell.hash][-1]["version"] for marks, cell in cells if marks["method"] == "fedbuff")


def _best(size: Size, reading: Reading, end: str, cells: list[Marked], method: str, ledger: Ledger) -> Best:
    """Return a method's best step size, at the point where the reading reads it."""
    if method == "fedbuff" and end != "end":
        axis = "version" if end == "buffers" else "received"
        return best_of(cells, method, ledger, partial(accuracy, axis=axis, most=size.steps))
    return best_of(cells, method, ledger, partial(accuracy, most=reading.most(size)))
