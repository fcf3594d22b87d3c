"""Log: what happened in a live run, one JSON object per line, for people and for programs."""

import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sojourn.files import writing
from sojourn.live.log_state import LogState

MOST = 64 * 2**20  # bytes after which the log moves to NAME.1


class Log:
    """A file to which lines are appended; it is turned over before a line once it has grown large."""

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, threading.Lock()
        self._state = LogState()  # for the first line of a file that is begun, so that nobody needs the lines before it
        with writing(path, "log"):
            self._file = path.open("a", encoding="utf-8")

    def write(self, what: str, facts: Mapping[str, Any]) -> None:
        """Append a line: the time by the wall clock, what happened, and facts about it."""
        with self._lock, writing(self.path, "log"):
            if self._file.tell() > MOST:
                self._file.close()
                self.path.replace(self.path.with_suffix(self.path.suffix + ".1"))
                self._file = self.path.open("a", encoding="utf-8")
                self._report("new log", self._state.facts())
            self._report(what, facts)
            self._file.flush()
            self._state.take({"what": what, **facts})

    def _report(self, what: str, facts: Mapping[str, Any]) -> None:
        line = json.dumps({"at": round(time.time(), 3), "what": what, **facts}, default=str)
        self._file.write(line + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()
