"""FlowerEngine: carries tasks and updates over Flower's Grid, within a ServerApp.

All calls of the Grid happen in one background thread. What the loop says waits for that thread in an inbox, and events
come back through a queue.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any

from sojourn.live.engine import Event, Offer, TaskName, Work
from sojourn.live.engines.flower.exchange import Exchange, Say
from sojourn.live.engines.flower.records import Carried
from sojourn.live.engines.flower.roster import Names

BEAT = 0.25  # seconds between two turns at most
PATIENCE = 5.0  # seconds to wait for the background thread, which may be in a call that nobody answers


class FlowerEngine:
    """The Flower engine, an `Engine`; it works from `begin` on, when the model is known.

    Clients keep no updates: what a ServerApp has received is lost if it dies before the next commit, and the task is
    sent again. So there is nothing to acknowledge or to refuse.
    """

    def __init__(self, grid: Any, work: Work, names: Names, more: Mapping[str, Any], say: Say) -> None:
        """`more` are values for the training functions of clients; `say` is told what no event can say."""
        self._grid, self._work, self._names, self._more, self._say = grid, work, names, more, say
        self._inbox: deque[Callable[[Exchange], None]] = deque()
        self._events: SimpleQueue[Event | BaseException] = SimpleQueue()
        self._wake, self._over = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, model: Carried) -> None:
        """Begin to work, with the model of the run."""
        exchange = Exchange(self._grid, self._work, model, self._names, self.now, self._more, self._say)
        self._thread = threading.Thread(target=self._run, args=(exchange,), name="sojourn-flower", daemon=True)
        self._thread.start()

    @property
    def names(self) -> dict[str, int]:
        """Number of each client that is known by name."""
        return dict(self._names.numbers)

    def now(self) -> float:
        """Return the engine's clock in seconds."""
        return time.monotonic()

    def offer(self, offer: Offer) -> None:
        """Put a task into its client's queue."""
        self._hand(lambda exchange: exchange.offer(offer))

    def withdraw(self, name: TaskName) -> None:
        """Forget a task; the update of a node that has it already becomes an event."""
        self._hand(lambda exchange: exchange.withdraw(name))

    def receive(self, timeout: float) -> Event | None:
        """Return the next event; wait at most `timeout` seconds for it; None = nothing yet."""
        try:
            found = self._events.get(timeout=timeout) if timeout > 0 else self._events.get_nowait()
        except Empty:
            return None
        if isinstance(found, BaseException):
            raise found
        return found

    def acknowledge(self, names: list[TaskName]) -> None:
        """Do nothing: clients keep no updates."""

    def refuse(self, name: TaskName, reason: str) -> None:
        """Do nothing: clients keep no updates."""

    def expel(self, client: int, reason: str) -> None:
        """Admit a client no more."""
        self._hand(lambda exchange: exchange.expel(client, reason))

    def stop(self, ended: bool = True) -> None:
        """Stop; SuperNodes stay, and wait for the next run."""
        self._over.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(PATIENCE)
            self._thread = None

    def _hand(self, call: Callable[[Exchange], None]) -> None:
        """Let the background thread make a call."""
        self._inbox.append(call)
        self._wake.set()

    def _run(self, exchange: Exchange) -> None:
        try:
            while not self._over.is_set():
                self._wake.clear()
                while self._inbox:
                    self._inbox.popleft()(exchange)
                for event in exchange.turn():
                    self._events.put(event)
                self._wake.wait(BEAT)
        except BaseException as error:  # the loop raises it
            self._events.put(error)
