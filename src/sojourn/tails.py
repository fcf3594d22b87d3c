"""Tails: the new part of files that grow, so that a long run is read once."""

import csv
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import isfinite, nan
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.types import Flags

PIECE = 2**26  # bytes that are read at once
OF_A_CLIENT = ("joined", "left")  # entries of a log that say nothing without a client


class Tail:
    """The new bytes of a file, a piece at a time; `more` says that there may be another piece.

    `anew` says that the file was cut or replaced: then it begins again from the start.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._at, self._file, self.anew, self.more = path, 0, -1, False, False

    def read(self, whole: int = 1, until: int | None = None) -> bytes:
        """Return what is new, in multiples of `whole` bytes, up to byte `until` of the file."""
        self.anew = self.more = False
        try:
            with self.path.open("rb") as file:
                self._notice(file)
                file.seek(self._at)
                piece = max(PIECE // whole, 1) * whole
                wanted = piece if until is None else min(piece, until - self._at)
                found = file.read(max(0, wanted // whole * whole))
        except FileNotFoundError:
            self.anew, self._at = self._at > 0, 0
            return b""
        self.more = len(found) == piece
        found = found[: len(found) // whole * whole]
        self._at += len(found)
        return found

    def rewind(self) -> None:
        """Read everything again from the start the next time."""
        self._at = 0

    def back(self, many: int) -> None:
        """Read the last so many bytes again the next time."""
        self._at -= many

    def _notice(self, file: Any) -> None:
        """Begin anew if this is another file than before, or the same one cut short."""
        facts = os.fstat(file.fileno())
        if self._at and (facts.st_ino != self._file or facts.st_size < self._at):
            self.anew, self._at = True, 0
        self._file = facts.st_ino


class LineTail(Tail):
    """The new lines of a text file; a line that is still being written is left for the next time."""

    def lines(self) -> list[str]:
        """Return the new lines."""
        found = self.read()
        whole, _, rest = found.rpartition(b"\n")
        self.back(len(rest))
        self.more = self.more and bool(whole)  # a line longer than a piece has not ended yet
        return whole.decode("utf-8", "replace").split("\n") if whole else []


class LogTail(LineTail):
    """The new entries of a log with one JSON object per line. When it is turned over, the end of its old part is lost
    to who looks too seldom; only pages read it, and they look every second.
    """

    def entries(self) -> list[Mapping[str, Any]]:
        """Return the new entries; lines that are none are left out."""
        return [entry for entry in map(_entry, self.lines()) if entry is not None]


def _entry(line: str) -> Mapping[str, Any] | None:
    """Return the entry that a line of a log holds, or None."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):  # no JSON, or a few thousand brackets
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("what"), str):
        return None
    client = entry.get("client")
    named = type(client) is int and client >= 0
    return entry if named or entry["what"] not in OF_A_CLIENT else None


class MetricsTail(LineTail):
    """The new rows of a metrics.csv, each with the time of its evaluation."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._columns: list[str] = []

    def rewind(self) -> None:
        """Read everything again, the line with the columns first."""
        super().rewind()
        self._columns = []

    def rows(self) -> list[dict[str, float]]:
        """Return the new rows; lines that are none are left out."""
        lines = self.lines()
        if self.anew or not self._columns:
            self._columns = next(csv.reader(lines[:1]), [])
            lines = lines[1:]
        rows = map(self._row, csv.reader(lines))
        return [row for row in rows if row is not None and isfinite(row.get("time", nan))]

    def _row(self, cells: list[str]) -> dict[str, float] | None:
        try:
            return dict(zip(self._columns, map(float, cells), strict=True))
        except ValueError:  # another number of cells, or one that is no number
            return None


class RowTail(Tail):
    """The new records of a file of equal records."""

    def __init__(self, path: Path, kind: Any) -> None:
        super().__init__(path)
        self._kind = np.dtype(kind)

    def records(self, until: int | None = None) -> np.ndarray[Any, Any]:
        """Return the new records, or those before the one with the number `until`."""
        size = self._kind.itemsize
        return np.frombuffer(self.read(size, None if until is None else until * size), self._kind)


def sound(rows: np.ndarray[Any, Any]) -> Flags:
    """Return which rows say whose task has ended, and when."""
    return np.asarray((rows["client"] >= 0) & np.isfinite(rows["applied_at"]))


class RunTails:
    """The files of a live run, which belong together: rows of tasks, evaluations, and the log.

    When a crash has undone some of them, and after a look that failed, all are read again from the start: what was told
    before is to be forgotten as a whole, since nobody can tell which part of it still holds.
    """

    def __init__(self, rows: RowTail, metrics: MetricsTail, log: LogTail) -> None:
        self._rows, self._metrics, self._log = rows, metrics, log
        self._anew = True

    @property
    def more(self) -> bool:
        """Whether there may be another piece, to be read at once."""
        return self._rows.more or self._metrics.more or self._log.more

    @contextmanager
    def new(self, until: int | None = None) -> Iterator[tuple[Any, Any, Any, bool]]:
        """Give the new rows (those before number `until`), evaluations and entries, and whether they begin anew.

        What is given counts as read when the block ends without an error.
        """
        anew, self._anew = self._anew, True
        found = self._read(until, anew)
        if not anew and self._undone(found[2]):
            anew, found = True, self._read(until, True)
        yield *found, anew
        self._anew = False

    def _read(self, until: int | None, anew: bool) -> tuple[Any, Any, Any]:
        if anew:
            for tail in (self._rows, self._metrics, self._log):
                tail.rewind()
        rows = self._rows.records(until)
        return rows[sound(rows)], self._metrics.rows(), self._log.entries()

    def _undone(self, entries: list[Mapping[str, Any]]) -> bool:
        """Whether a file was cut; one that was cut and has grown since is known by the log alone."""
        return self._rows.anew or self._metrics.anew or any(entry["what"] == "resumed" for entry in entries)
