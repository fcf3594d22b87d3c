"""RunClock: how long a live run has been going, in seconds. It does not count the time that the server was down.

It can be held: until the first clients are there, and in a pause in which nothing is in flight. So every task that is
sent also ends while the clock goes, and a run of an hour trains for an hour, however long it waited or was paused.
"""

from collections.abc import Callable


class RunClock:
    """Seconds of a run, from the clock of its engine; it may be read from any thread.

    >>> engine = iter([10.0, 12.0, 15.0, 70.0, 71.0])
    >>> clock = RunClock(lambda: next(engine))
    >>> clock.now
    2.0
    >>> clock.hold()
    >>> clock.now
    5.0
    >>> clock.go_on()
    >>> clock.now
    6.0
    """

    def __init__(self, engine: Callable[[], float]) -> None:
        self._engine = engine
        self._zero, self._least = engine(), 0.0
        self._held: float | None = None  # what it shows while it stands still

    @property
    def now(self) -> float:
        """Seconds that the run has been going."""
        held = self._held
        return self._engine() - self._zero if held is None else held

    def at(self, engine: float) -> float:
        """Return what it showed when the engine's clock showed this; not before it was last set or let go on."""
        return max(engine - self._zero, self._least)

    def set(self, seconds: float) -> None:
        """Let it show so many seconds now, and go on from there."""
        self._zero, self._least, self._held = self._engine() - seconds, seconds, None

    def hold(self) -> None:
        """Let it stand still."""
        self._held = self.now

    def go_on(self) -> None:
        """Let it go on, if it stands still."""
        if self._held is not None:
            self.set(self._held)
