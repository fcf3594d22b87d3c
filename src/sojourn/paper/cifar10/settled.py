"""Which reading comes nearest to the paper's three numbers, each method at its best rate on held-out examples."""

from collections.abc import Iterable, Mapping, Sequence
from math import nan
from statistics import fmean
from typing import Any, NamedTuple

from sojourn.paper.cifar10.readings import PAPER, Reading, readings
from sojourn.paper.cifar10.size import Size
from sojourn.paper.ledger import Ledger

SAME = "buffers"
ENDS = {"end": "at the end of the run", SAME: "after as many server steps as the paper has"}
"""Where FedBuff is read: it makes a server step only when a buffer is full."""


class Best(NamedTuple):
    """A method under a reading at its best rate."""

    rate: float
    """The rate."""
    accuracy: float
    """Mean over the seeds, in percent."""
    edge: bool
    """Whether the rate is the least or the largest that was tried."""


class Standing(NamedTuple):
    """A reading and what comes of it."""

    reading: Reading
    """Which."""
    buffered: str
    """Where FedBuff is read: `end` or `buffers`."""
    best: Mapping[str, Best]
    """By method."""

    @property
    def distance(self) -> float:
        """Sum of the distances from the paper's three numbers, in points; NaN where a method was not tried."""
        return sum(abs(self.best[one.name].accuracy - one.paper) if one.name in self.best else nan for one in PAPER)


def nearest(size: Size, ledger: Ledger) -> list[Standing]:
    """The readings, the nearest first; those that were not tried whole at the end."""
    found = [
        Standing(reading, ends, _best(size, ledger, reading, ends))
        for reading in readings()
        for ends in (ENDS if reading.axis != "updates" else ("end",))
    ]
    return sorted(found, key=lambda one: (one.distance != one.distance, one.distance))


def _best(size: Size, ledger: Ledger, reading: Reading, ends: str) -> dict[str, Best]:
    best: dict[str, Best] = {}
    for one in PAPER:
        rows = [
            row for row in ledger.runs.values() if (row["reading"], row["method"]) == (reading.name(size), one.name)
        ]
        steps = size.steps if one.name == "fedbuff" and ends == SAME else None
        found = best_rate(rows, ledger, steps)
        if found is not None:
            best[one.name] = found
    return best


def best_rate(rows: Sequence[Mapping[str, Any]], ledger: Ledger, steps: int | None = None) -> Best | None:
    """The rate with the best mean accuracy, read after so many server steps; a run that diverged is worth nothing."""
    reached: dict[float, list[float]] = {}
    for row in rows:
        value = 0.0 if row["state"] == "diverged" else 100 * accuracy(ledger.curves[row["cell"]], steps)
        reached.setdefault(float(row["rate"]), []).append(value)
    if not reached:
        return None
    rate = max(reached, key=lambda one: fmean(reached[one]))
    return Best(rate, fmean(reached[rate]), rate in (min(reached), max(reached)))


def accuracy(curve: Iterable[Mapping[str, float]], steps: int | None) -> float:
    """Of the last evaluation, or of the last one up to so many server steps."""
    return [row["accuracy"] for row in curve if steps is None or row["version"] <= steps][-1]
