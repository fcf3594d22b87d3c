"""Journal: what a live run has on the disk, so that it goes on after a crash as if nothing had been lost.

A commit writes the rows of the tasks that ended since the last one, and then a checkpoint of everything else: model,
algorithm state, random state, tasks in flight. The checkpoint says how many rows belong to it. Rows of a commit that
did not come to its end are cut off when the run is resumed, so rows and model always belong together. Commits are
written by a thread of their own, one at a time; nothing that they are given is changed afterwards.

A journal that is not durable writes rows as they come, but a checkpoint only when it is flushed or closed: a run that
is stopped goes on where it was, and one that is killed starts again from where the server was last started.
"""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from sojourn.errors import SojournError, UnreadableFile
from sojourn.files import writing
from sojourn.learning.run.store import Store
from sojourn.trace import COLUMNS, Trace

ROWS = "rows.bin"
CHECKPOINTS = "checkpoints"
LEAST = 0.1  # seconds between two commits at the least
SAVE = "save"
SHARE = 0.05  # of the time that commits may take
ROW = np.dtype([(key, kind) for key, kind in COLUMNS.items()])


class Commit(NamedTuple):
    """What one commit holds."""

    rows: bytes
    """Rows of the tasks that ended, as `ROW`."""
    tree: dict[str, Any]
    """Everything else."""
    then: Callable[[], None]
    """Called once it is on the disk, by the thread that calls `Journal.settle`."""


class Journal:
    """The folder of a live run: rows and checkpoints."""

    def __init__(self, folder: Path, least: float = LEAST, durable: bool = True) -> None:
        self.durable = durable
        self.path, self.store, self.least = folder / ROWS, Store(folder / CHECKPOINTS), least
        self.number, self.rows = 0, 0
        self.cost = 0.0
        """Seconds of the last commit."""
        self._file: Any = None
        self._todo: SimpleQueue[Commit | str | None] = SimpleQueue()
        self._unsaved: dict[str, Any] | None = None  # the tree of the last commit, if it is not on the disk
        self._done: SimpleQueue[Callable[[], None] | BaseException] = SimpleQueue()
        self._busy, self._begun = False, -float("inf")
        self._thread: threading.Thread | None = None

    def open(self) -> dict[str, Any] | None:
        """Open the files; return the tree of the last commit, and cut off what came after it; None = there is none."""
        tree = None
        if self.store.steps():
            self.number, tree = self.store.load()
            self.rows = int(tree["rows"])
        elif self.path.exists() and self.path.stat().st_size:
            raise UnreadableFile(
                f"{self.path} has rows, but there is no checkpoint in {self.store.folder}; restore the checkpoints of "
                "this run from a backup, or begin again with --overwrite (overwrite=True)"
            )
        with writing(self.path, "rows of the trace"):
            # without a buffer: what a full disk had no room for must not be written again when the file is closed
            self._file = self.path.open("r+b" if tree is not None and self.path.exists() else "w+b", buffering=0)
            size = self._file.seek(0, os.SEEK_END)
            if size < self.rows * ROW.itemsize:
                raise UnreadableFile(
                    f"{self.path} has fewer rows than its checkpoint says, {self.rows:,}; restore the right file"
                )
            self._file.truncate(self.rows * ROW.itemsize)
            self._file.seek(0, os.SEEK_END)
        self._thread = threading.Thread(target=self._write, name="journal", daemon=True)
        self._thread.start()
        return tree

    @property
    def busy(self) -> bool:
        """Whether a commit is being written."""
        return self._busy

    def wait(self) -> float:
        """Return the seconds until the next commit may begin, so that commits take a small share of the time."""
        if self._busy:
            return self.least
        pause = max(self.least, self.cost / SHARE)
        return max(0.0, self._begun + pause - time.monotonic())

    def commit(self, commit: Commit) -> None:
        """Begin to write a commit; the last one must have been settled."""
        assert not self._busy
        self._busy, self._begun = True, time.monotonic()
        self._todo.put(commit)

    def settle(self, timeout: float = 0.0) -> bool:
        """Take note of a commit that is on the disk; return whether there was one. Its error is raised here."""
        try:
            found = self._done.get(timeout=timeout) if timeout else self._done.get_nowait()
        except Empty:
            return False
        self._busy = False
        if isinstance(found, BaseException):
            raise found
        found()
        return True

    def flush(self) -> None:
        """Wait until all that was committed is on the disk."""
        self._wait()
        if self._unsaved is not None:
            self._busy = True
            self._todo.put(SAVE)
            self._wait()

    def _wait(self) -> None:
        while self._busy:
            self.settle(timeout=1.0)

    def close(self) -> None:
        """End the thread and close the file; what is not on the disk yet is written."""
        if self._thread is not None:
            self._todo.put(None)
            self._thread.join()
            self._thread = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def trace(self, metadata: dict[str, Any], in_flight: bytes = b"") -> Trace:
        """Return the trace: the rows that are on the disk, then the tasks in flight."""
        content = self.path.read_bytes()[: self.rows * ROW.itemsize] + in_flight
        table = np.frombuffer(content, ROW)
        return Trace(**{key: np.ascontiguousarray(table[key]) for key in COLUMNS}, metadata=metadata)

    def _write(self) -> None:
        while (todo := self._todo.get()) is not None:
            try:
                if isinstance(todo, Commit):
                    self._put(todo)
                else:
                    self._save()
                self._done.put(todo.then if isinstance(todo, Commit) else lambda: None)
            except BaseException as error:
                self._done.put(error)
        with suppress(SojournError):  # the run has ended by an error already
            self._save()

    def _put(self, commit: Commit) -> None:
        begun = time.thread_time()
        rows = self.rows + len(commit.rows) // ROW.itemsize
        with writing(self.path, "rows of the trace"):
            if commit.rows:
                self._file.seek(self.rows * ROW.itemsize)
                rest = memoryview(commit.rows)
                while rest:
                    rest = rest[self._file.write(rest) :]
        self._unsaved = {**commit.tree, "rows": rows}
        if self.durable:
            try:
                self._save()
            except SojournError:
                self._file.truncate(self.rows * ROW.itemsize)
                raise
        self.rows = rows
        self.cost = time.thread_time() - begun

    def _save(self) -> None:
        """Write the last commit to the disk, rows first."""
        tree, self._unsaved = self._unsaved, None
        if tree is None:
            return
        with writing(self.path, "rows of the trace"):
            os.fdatasync(self._file.fileno())
        self.store.save(self.number + 1, tree)
        self.number += 1
