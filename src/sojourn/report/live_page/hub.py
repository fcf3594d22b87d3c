"""Hub: one look per second for all readers, and none while nobody reads. Looks are made outside the event loop."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from sojourn.errors import SojournError
from sojourn.report.live_page.state import State
from sojourn.report.web.serving import THREAD, event
from sojourn.watched import ENDED, Watched

EVERY, MANY = 1.0, 200  # seconds between two looks; twice as many if there are more clients than that
MOST = 500  # characters of an error
MOMENT = 0.25  # seconds between two checks whether the server stops


class Message(NamedTuple):
    """What readers are sent: the newest message of each kind, encoded once for all."""

    number: int
    about: bytes
    now: bytes
    version: int
    """Of `about`."""
    ended: bool


class Hub:
    """The state of a run, and what its readers are told."""

    def __init__(self, watched: Watched, stopping: threading.Event, every: float = EVERY) -> None:
        self.state, self.stopping = State(watched), stopping
        self.every = every if watched.described.group.size <= MANY else 2 * every
        self._looker = ThreadPoolExecutor(1, THREAD)
        self._lock = threading.Lock()
        self._last: Message | None = None
        self._looked = 0.0

    def message(self, at_once: bool = False) -> Message:
        """Return the newest message; look again if it is older than a moment. Called outside the event loop."""
        with self._lock:
            if self._last is None or at_once or time.monotonic() - self._looked >= 0.9 * self.every:
                self._last = self._new(self._last)
                self._looked = time.monotonic()
            return self._last

    def _new(self, last: Message | None) -> Message:
        found = self._found()
        version = self.state.renamed
        about = last.about if last is not None and last.version == version else _encoded("about", self.state.about)
        now = _encoded("now", found)
        number = 0 if last is None else last.number + (now != last.now)
        return Message(number, about, now, version, found.get("state") == ENDED)

    def _found(self) -> dict[str, Any]:
        """Look, and return what there is to show, or in words why there is nothing: no fault may end the stream."""
        try:
            return self.state.look()
        except (SojournError, OSError) as error:  # such as a folder that is gone
            return {"error": str(error)}
        except Exception as error:  # files that are odd in a way that nobody has thought of
            return {"error": f"{type(error).__name__}: {error}"[:MOST]}

    async def events(self) -> AsyncIterator[bytes]:
        """Give the whole run at once, and then what changes, until the server stops; at the end how it ended."""
        version, number = -1, -1
        while True:
            over = self.stopping.is_set()
            found = await asyncio.get_running_loop().run_in_executor(self._looker, self.message, over)
            if found.version != version:
                version = found.version
                yield found.about
            if found.number != number:
                number = found.number
                yield found.now
            else:
                yield b": still here\n\n"
            if over:
                yield event("bye", "{}")
                return
            await self._pause()

    async def _pause(self) -> None:
        until = time.monotonic() + self.every
        while time.monotonic() < until and not self.stopping.is_set():
            await asyncio.sleep(min(MOMENT, self.every))


def _encoded(name: str, content: Any) -> bytes:
    return event(name, json.dumps(content, separators=(",", ":"), allow_nan=False))
