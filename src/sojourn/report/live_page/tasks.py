"""The tasks of a whole trace as a clock goes on: which have ended since it was last asked, and which are in flight.

Each row is looked at when it is sent and when it ends, and not in between, so that a look costs what is new and what is
in flight, however long the trace is.
"""

from pathlib import Path
from typing import Any

import numpy as np

from sojourn.tails import sound
from sojourn.trace import COLUMNS, IN_FLIGHT, scan
from sojourn.types import Flags, Integers

ROW = np.dtype([(key, kind) for key, kind in COLUMNS.items()])
PIECE = 100_000  # rows that are read at a time


class Tasks:
    """The tasks of a trace, in the order in which they end."""

    def __init__(self, rows: np.ndarray[Any, Any]) -> None:
        """`rows` is a record array with the columns of a trace; rows that say neither whose nor when are left out."""
        kept = sound(rows) | ((rows["client"] >= 0) & (rows["fate"] == IN_FLIGHT))
        rows = rows if kept.all() else rows[kept]
        ends = np.ascontiguousarray(rows["applied_at"])
        if not np.all(ends[1:] >= ends[:-1]):  # tasks in flight at the end come last
            order = np.argsort(ends, kind="stable")
            rows, ends = rows[order], ends[order]
        self.rows, self._ends = rows, ends
        self._by_begin = np.argsort(rows["dispatched_at"], kind="stable")
        self._begins = rows["dispatched_at"][self._by_begin]
        self.rewind()

    @classmethod
    def of(cls, path: Path) -> "Tasks":
        """Read the trace in a file."""
        return cls(np.concatenate([_rows(piece) for piece in scan(path, PIECE)]))

    @property
    def clients(self) -> int:
        """Clients that it names."""
        return int(self.rows["client"].max(initial=-1)) + 1

    def rewind(self) -> None:
        """Begin again, with a clock that has not gone on yet."""
        self._told, self._sent = 0, 0  # rows that have ended, and that were sent
        self._held = np.zeros(0, np.intp)  # rows in flight

    def ended(self, time: float) -> np.ndarray[Any, Any]:
        """Return the tasks that have ended since this was last called."""
        until = max(self._told, int(np.searchsorted(self._ends, time, side="right")))
        found = self.rows[self._told : until]
        self._told = until
        return np.asarray(found[found["fate"] != IN_FLIGHT])

    def flying(self, time: float) -> tuple[Integers, Flags]:
        """Return the client of each task that was sent and has not ended, and whether it is being served."""
        until = max(self._sent, int(np.searchsorted(self._begins, time, side="right")))
        held = np.concatenate([self._held, self._by_begin[self._sent : until]])
        self._sent, self._held = until, held[held >= self._told]
        mine = self.rows[self._held]
        return mine["client"].astype(np.int64), mine["started_at"] <= time


def _rows(piece: Any) -> np.ndarray[Any, Any]:
    rows = np.zeros(len(piece), ROW)
    for key in COLUMNS:
        rows[key] = getattr(piece, key)
    return rows
