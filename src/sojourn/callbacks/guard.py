"""Guard: callbacks of one run, called so that none of them can break it; for live runs each in a thread of its own."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from math import inf
from queue import SimpleQueue
from typing import Any

from sojourn.callbacks.callback import Callback, Ending, Model, Row, RunFacts
from sojourn.errors import SojournError
from sojourn.shown import short, visible

MODELS = 16  # models that may wait for a callback of a live run; the oldest is let go
EVENTS = 10_000  # events that may wait for it; then updates are left out, and evaluations are not
LAST = 60.0  # seconds that callbacks may take at the end of a live run
SAID = 200  # characters of an error that are shown
Warn = Callable[[str], None]


class Callbacks:
    """The callbacks of a run. An error of one is reported once, and the run goes on."""

    def __init__(self, made: Sequence[Callback], warn: Warn) -> None:
        self.stop: str | None = None
        """Why a callback wants the run to end; None = none does."""
        self._made, self._warn = list(made), warn
        self._broken: set[int] = set()  # those that could not begin
        self._warned: set[int] = set()
        self._open = False

    def __bool__(self) -> bool:
        return bool(self._made)

    def check(self, columns: Sequence[str]) -> None:
        """Raise an error if one of them refuses the run."""
        for one in self._made:
            one.check(columns)

    def due(self, received: int) -> float:
        """Return the number of updates at which `updated` is to be called next."""
        return min(((received // one.every + 1) * one.every for one in self._made if one.every), default=inf)

    def wants(self, received: int) -> bool:
        """Whether one of them wants to know of this update."""
        return any(one.every and received % one.every == 0 for one in self._made)

    def begin(self, run: RunFacts) -> None:
        """Tell that a run begins; a callback that fails here is not called again."""
        self._open = True
        for one in self._made:
            if not self._call(one, "begin", run):
                self._broken.add(id(one))

    def evaluated(self, row: Row, model: Model) -> None:
        """Tell of an evaluation."""
        for one in self._made:
            self._call(one, "evaluated", row, model)

    def updated(self, received: int, model: Model) -> None:
        """Tell of updates those who want to know of this one."""
        for one in self._made:
            if one.every and received % one.every == 0:
                self._call(one, "updated", received, model)

    def end(self, ending: Ending) -> None:
        """Tell that the run has ended, or was stopped; further calls do nothing."""
        if self._open:
            self._open = False
            for one in self._made:
                self._call(one, "end", ending)

    def _call(self, one: Callback, method: str, *given: Any) -> bool:
        """Call a method, and return whether it succeeded."""
        if id(one) in self._broken:
            return False
        try:
            reason = getattr(one, method)(*given)
            if reason is not None and method != "end":
                if not isinstance(reason, str):
                    raise TypeError(f"{method} must return a sentence or None, got {reason!r}")
                self.stop = self.stop or reason
        except Exception as error:
            self._fail(one, method, error)
            return False
        return True

    def _fail(self, one: Callback, method: str, error: Exception) -> None:
        if id(one) in self._warned:
            return
        self._warned.add(id(one))
        why = str(error) if isinstance(error, SojournError) else f"{type(error).__name__}: {error}"
        then = "it is not called again" if method == "begin" else "further errors of it are not reported"
        name = one.name or type(one).__name__
        self._warn(f"callback {visible(name)} failed in {method} ({short(why, SAID)}); the run goes on, {then}")


class HeldModel:
    """A model that waits for a callback."""

    def __init__(self, make: Model) -> None:
        self._make: Model | None = make

    def __call__(self) -> dict[str, Any]:
        """Return its tensors by name."""
        if self._make is None:
            raise SojournError(
                "the model of this moment is gone, because callbacks take too long; call them less often"
            )
        return self._make()

    def release(self) -> None:
        """Let go of the tensors."""
        self._make = None


class QueuedCallbacks:
    """The callbacks of a live run, each called in a thread of its own: a slow one holds up neither run nor others."""

    def __init__(self, made: Sequence[Callback], warn: Warn) -> None:
        self._all = [_Queue(Callbacks([one], warn)) for one in made]

    @property
    def stop(self) -> str | None:
        """Why a callback wants the run to end; None = none does."""
        return next((one.callbacks.stop for one in self._all if one.callbacks.stop is not None), None)

    @property
    def left_out(self) -> int:
        """Updates that callbacks were not told of, because they were too slow."""
        return sum(one.left_out for one in self._all)

    def check(self, columns: Sequence[str]) -> None:
        """Raise an error if one of them refuses the run."""
        for one in self._all:
            one.callbacks.check(columns)

    def due(self, received: int) -> float:
        """Return the number of updates at which `updated` is to be called next."""
        return min((one.callbacks.due(received) for one in self._all), default=inf)

    def begin(self, run: RunFacts) -> None:
        """Start the threads, and tell that a run begins."""
        for one in self._all:
            one.begin(run)

    def evaluated(self, row: Mapping[str, float], make: Model) -> None:
        """Tell of an evaluation."""
        for one in self._all:
            one.put(one.callbacks.evaluated, dict(row), make)

    def updated(self, received: int, make: Model) -> None:
        """Tell of updates those who want to know of this one, unless too much waits for them."""
        for one in self._all:
            if one.callbacks.wants(received) and one.free():
                one.put(one.callbacks.updated, received, make)

    def end(self, ending: Ending, seconds: float = LAST) -> bool:
        """Tell that the run has ended, and wait for the threads; return whether all were done in time."""
        until = time.monotonic() + seconds
        for one in self._all:
            one.close(ending)
        late = [one for one in self._all if not one.joined(until - time.monotonic())]
        return not late


class _Queue:
    """One callback, its thread, and what waits for it."""

    def __init__(self, callbacks: Callbacks) -> None:
        self.callbacks, self.left_out = callbacks, 0
        self._queue: SimpleQueue[tuple[Callable[..., None], tuple[Any, ...]] | None] = SimpleQueue()
        self._models: deque[HeldModel] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._open = False

    def begin(self, run: RunFacts) -> None:
        self._thread = threading.Thread(target=self._work, name="callback", daemon=True)
        self._open = True
        self._thread.start()
        self._queue.put((self.callbacks.begin, (run,)))

    def free(self) -> bool:
        """Whether there is room for an update; if not, it is counted."""
        there = self._queue.qsize() < EVENTS
        self.left_out += not there
        return there

    def put(self, call: Callable[..., None], what: Any, make: Model) -> None:
        if not self._open:
            return
        held = HeldModel(make)
        with self._lock:
            self._models.append(held)
            if len(self._models) > MODELS:
                self._models.popleft().release()
        self._queue.put((call, (what, held)))

    def close(self, ending: Ending) -> None:
        if self._open:
            self._open = False
            self._queue.put((self.callbacks.end, (ending,)))
            self._queue.put(None)

    def joined(self, seconds: float) -> bool:
        if self._thread is not None:
            self._thread.join(max(0.0, seconds))
        return self._thread is None or not self._thread.is_alive()

    def _work(self) -> None:
        while (event := self._queue.get()) is not None:
            call, given = event
            call(*given)
            for held in (one for one in given if isinstance(one, HeldModel)):
                held.release()
                with self._lock:
                    if held in self._models:
                        self._models.remove(held)
