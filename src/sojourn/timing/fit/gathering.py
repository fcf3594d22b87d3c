"""Durations of one kind, collected piece by piece: sums over all of them, and a uniform sample of each unit.

Sums use every row. A law needs single durations; of these each unit (client or group) keeps those with the smallest
random keys, which is a uniform sample without replacement whatever the length of the trace and of its pieces. Services
that ended and those that were cut off draw their keys from generators of their own, since pieces decide their order.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import InvalidInput
from sojourn.timing.fit.durations import Durations, Kept
from sojourn.timing.fit.ends import Ends
from sojourn.trace import Trace
from sojourn.types import Flags, Floats, Integers

KEPT = 20_000
BUDGET = 2_000_000  # kept durations over all units
FEWEST_KEPT = 20
WAITING = 100_000  # rows that wait, before they are compared with those that are kept


class Gathering:
    """Durations of one kind, collected piece by piece."""

    def __init__(self, group: Integers | None, stream: int) -> None:
        self._group = group
        self._rng, self._rng_of_cut = (np.random.default_rng([kind, stream]) for kind in (0, 1))
        self._finished, self._total, self._work = np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0)
        self._kept, self._cut = _Sample(), _Sample()
        self._cuts, self._cut_age = np.zeros(0, dtype=np.int64), np.zeros(0)  # sums over all of them, by unit
        self._running: list[tuple[Integers, Floats, Floats]] = []
        self._unfinished = np.zeros(0, dtype=np.int64)

    def add(self, piece: Trace, begin: str, end: str, ends: Ends, before: int, clients: int) -> None:
        """Add the rows of a piece."""
        started = getattr(piece, begin)
        whole = ends.finished | ends.cut
        early = whole & (ends.at < started)
        if early.any():
            row = int(np.argmax(early))
            raise InvalidInput(
                f"{end} must not be before {begin}, got {ends.at[row]} before {started[row]} in row {before + row}; "
                "the clock went backwards: correct the trace or drop the row"
            )
        units = clients if self._group is None else int(self._group[-1]) + 1
        rows = self._rows(piece, started, ends, ends.finished, self._rng)
        client = piece.client[ends.finished]
        self._finished = longer(self._finished, clients) + np.bincount(client, minlength=clients)
        self._total = longer(self._total, clients) + np.bincount(client, rows.value, clients)
        self._work = longer(self._work, clients) + np.bincount(client, rows.work, clients)
        self._kept.add(rows if begin == "started_at" else rows.at(rows.value > 0), units)  # most traces have no uplinks
        unseen = piece.client[ends.cut | ends.running]
        self._unfinished = longer(self._unfinished, clients) + np.bincount(unseen, minlength=clients)
        if ends.cut.any():
            cut = self._rows(piece, started, ends, ends.cut, self._rng_of_cut)
            self._cuts = longer(self._cuts, units) + np.bincount(cut.unit, minlength=units)
            self._cut_age = longer(self._cut_age, units) + np.bincount(cut.unit, cut.value, units)
            self._cut.add(cut, units)
        self._running.append((self._unit(piece, ends.running), started[ends.running], ends.steps[ends.running]))

    def _unit(self, piece: Trace, picked: Flags) -> Integers:
        client = piece.client[picked].astype(np.int64)
        return client if self._group is None else self._group[client]

    def _rows(self, piece: Trace, started: Floats, ends: Ends, picked: Flags, keys: np.random.Generator) -> Kept:
        steps = np.maximum(ends.steps[picked], 1)
        value = (ends.at - started)[picked] / steps
        unit = self._unit(piece, picked)
        return Kept(unit, value, started[picked], ends.until[picked], steps, keys.random(value.size))

    def done(self, clients: int, last: float) -> Durations:
        """Return the durations; a row that was still running is assumed to have the mean work, unless it has more."""
        work, finished = longer(self._work, clients), longer(self._finished, clients)
        mean_work = max(1.0, work.sum() / max(1, finished.sum()))
        unit, began, steps = (np.concatenate(column) for column in zip(*self._running, strict=True))
        age = (last - began) / np.where(steps > 0, steps, mean_work)
        cut = self._cut.rows
        size = int(cut.unit.max(initial=-1)) + 1
        share = self._cuts[:size] / np.maximum(np.bincount(cut.unit, minlength=size), 1)
        mean = np.bincount(cut.unit, cut.value, size) * share
        right = np.where(
            mean > 0, self._cut_age[:size] / np.where(mean > 0, mean, 1.0), 1.0
        )  # scales the kept ages to the known sum
        return Durations(
            *(finished, longer(self._total, clients), work, self._kept.rows, longer(self._unfinished, clients)),
            running=np.concatenate([unit, cut.unit]),
            age=np.concatenate([age, cut.value * right[cut.unit]]),
            began=np.concatenate([began, cut.began]),
            weight=np.concatenate([np.ones(age.size), share[cut.unit]]),
            cut=np.arange(age.size + cut.unit.size) >= age.size,
        )


class _Sample:
    """A uniform sample of rows for each unit: those with the smallest keys."""

    def __init__(self) -> None:
        empty = np.zeros(0)
        self._rows = Kept(np.zeros(0, dtype=np.int64), empty, empty, empty, empty, empty)
        self._waiting: list[Kept] = []
        self._many = self._units = 0  # rows that wait; units
        self._edge = np.zeros(0)  # largest key that a unit may still keep

    def add(self, new: Kept, units: int) -> None:
        """Keep the rows with the smallest keys of each unit."""
        edge = np.ones(units)
        edge[: self._edge.size] = self._edge
        self._edge, self._units = edge, units
        self._waiting.append(new.at(new.key < edge[new.unit]))
        self._many += self._waiting[-1].key.size
        if self._many > max(WAITING, self._rows.key.size // 4):
            self._choose()

    @property
    def rows(self) -> Kept:
        """The rows that are kept, by unit and key."""
        if self._waiting:
            self._choose()
        return self._rows

    def _choose(self) -> None:
        most = int(np.clip(BUDGET // max(self._units, 1), FEWEST_KEPT, KEPT))
        rows = Kept(*[np.concatenate(columns) for columns in zip(self._rows, *self._waiting, strict=True)])
        order = np.argsort(rows.unit + rows.key)
        unit = rows.unit[order]
        rank = np.arange(unit.size) - np.searchsorted(unit, unit, side="left")
        self._rows, self._waiting, self._many = rows.at(order[rank < most]), [], 0
        full = rank == most - 1
        self._edge[unit[full]] = rows.key[order][full]


def longer(column: NDArray[Any], size: int) -> NDArray[Any]:
    """Return a column with zeros behind it, so that it has this size."""
    return np.concatenate([column, np.zeros(size - column.size, dtype=column.dtype)])
