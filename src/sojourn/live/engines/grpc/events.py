"""Events on their way from the thread of the network to the loop."""

from collections import deque
from queue import Empty, SimpleQueue

from sojourn.live.engine import Event


class Events:
    """A queue of events; those that can wait do not wake the loop, but come with the next one, or when it looks."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Event] = SimpleQueue()
        self._quiet: deque[Event] = deque()

    def put(self, event: Event) -> None:
        """Append an event, after those that have waited for one."""
        while self._quiet:
            try:
                self._queue.put(self._quiet.popleft())
            except IndexError:  # the loop was faster
                break
        self._queue.put(event)

    def put_quietly(self, event: Event) -> None:
        """Append an event that can wait."""
        self._quiet.append(event)

    def get(self, timeout: float) -> Event | None:
        """Return the next event; wait at most `timeout` seconds for one that cannot wait; None = there is none."""
        try:
            return self._queue.get_nowait()
        except Empty:
            pass
        try:
            return self._quiet.popleft()
        except IndexError:
            pass
        try:
            return self._queue.get(timeout=timeout) if timeout > 0 else None
        except Empty:
            return self._quiet.popleft() if self._quiet else None

    def qsize(self) -> int:
        """Return how many events wait for the loop."""
        return self._queue.qsize()
