"""The history of a run in bounded memory: however long it lasts, it has at most so many points.

Time is cut into bins whose width is a power of two. When the run outgrows them, neighbours are added up and the width
doubles. So the whole run is always there, and a page that opens late gets a small message.
"""

from math import ceil, floor, isfinite, log2
from typing import Any

import numpy as np

from sojourn.types import Floats

BINS = 256
FEW = 8.0  # updates per bin below which neighbours are shown together
LEAST = 12  # bins that are shown at the least
POINTS = 400  # evaluations


class Bins:
    """Updates and their staleness over time, and what was promised.

    >>> bins = Bins(most=4)
    >>> bins.add(np.array([0.5, 1.5, 2.5, 3.5]), np.array([1.0, 2.0, 3.0, 4.0]))
    >>> bins.width, bins.count.tolist()
    (1.0, [1.0, 1.0, 1.0, 1.0])
    >>> bins.add(np.array([4.5]), np.array([5.0]))
    >>> bins.width, bins.count.tolist(), bins.stale.tolist()
    (2.0, [2.0, 2.0, 1.0, 0.0], [3.0, 7.0, 5.0, 0.0])
    """

    def __init__(self, most: int = BINS) -> None:
        self.most, self.width = most, 0.0
        self.count, self.stale = np.zeros(most), np.zeros(most)

    def add(self, at: Floats, staleness: Floats) -> None:
        """Add updates: when they were applied, and their staleness."""
        if not at.size:
            return
        self._fit(float(at.max()))
        place = np.minimum((np.maximum(at, 0.0) / self.width).astype(np.int64), self.most - 1)
        self.count += np.bincount(place, minlength=self.most)
        self.stale += np.bincount(place, staleness, self.most)

    def _fit(self, last: float) -> None:
        """Make the bins wide enough for this time."""
        if not self.width:
            self.width = 2.0 ** ceil(log2(max(last, 1e-9) / self.most))
        while last >= self.width * self.most:
            self.width *= 2
            self.count, self.stale = (_halved(one) for one in (self.count, self.stale))

    def shown(self, time: float) -> dict[str, Any]:
        """Return the middle of each bin up to a time, updates per second and mean staleness in it.

        Neighbours are put together as long as a bin has few updates on average, so that chance does not hide what there
        is to see. A bin that the run is still in is left out, unless it is the only one.
        """
        if not self.width or not time > 0:
            return {"at": [], "throughput": [], "staleness": []}
        count, stale, width = self.count, self.stale, self.width
        while time / width > LEAST and count.sum() * width / time < FEW:
            count, stale, width = _halved(count), _halved(stale), 2 * width
        used = min(self.most, max(1, floor(time / width)))
        begin = width * np.arange(used)
        end = np.minimum(begin + width, time)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = stale[:used] / count[:used]
        return {"at": (begin + end) / 2, "throughput": count[:used] / (end - begin), "staleness": mean}


def _halved(values: Floats) -> Floats:
    """Add up neighbours; the second half becomes free."""
    found = np.zeros_like(values)
    found[: values.size // 2] = values.reshape(-1, 2).sum(axis=1)
    return found


class Curve:
    """Points of a curve; when there are too many, every second one is left out from then on.

    >>> curve = Curve(("loss",), most=4)
    >>> for time in range(9): curve.add(float(time), {"loss": 9.0 - time})
    >>> curve.shown()
    {'at': [0.0, 4.0, 8.0], 'loss': [9.0, 5.0, 1.0]}
    """

    def __init__(self, names: tuple[str, ...], most: int = POINTS) -> None:
        self.names, self.most = names, most
        self._rows: list[list[float]] = []
        self._last: list[float] | None = None  # the newest, if it is not among the rows
        self._every, self._seen = 1, 0

    def add(self, at: float, values: Any) -> None:
        """Add a point; values that are missing are NaN."""
        row = [at, *(float(values.get(name, np.nan)) for name in self.names)]
        self._last = None if self._seen % self._every == 0 else row
        if self._last is None:
            self._rows.append(row)
            if len(self._rows) > self.most:
                self._rows, self._every = self._rows[::2], 2 * self._every
                self._last = row if self._rows[-1] is not row else None
        self._seen += 1

    def shown(self) -> dict[str, list[float]]:
        """Return the columns; the newest point is always there."""
        rows = self._rows if self._last is None else [*self._rows, self._last]
        columns = zip(*rows, strict=True) if rows else [()] * (1 + len(self.names))
        return {name: list(column) for name, column in zip(("at", *self.names), columns, strict=True)}


def plain(value: Any, digits: int = 6) -> Any:
    """Return a value as JSON can hold it: numbers with a few digits, null for what is not finite.

    >>> plain({"a": np.array([1.23456789, np.nan]), "b": (float("inf"), 3, "x")})
    {'a': [1.23457, None], 'b': [None, 3, 'x']}
    """
    if isinstance(value, float | np.floating):
        return float(f"{value:.{digits}g}") if isfinite(value) else None
    if isinstance(value, np.bool_ | np.integer):
        return value.item()
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "iub":
            return value.tolist()
        return [plain(one, digits) for one in value.tolist()]
    if isinstance(value, dict):
        return {str(key): plain(one, digits) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one, digits) for one in value]
    return value
