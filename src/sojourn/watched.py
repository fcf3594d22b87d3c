"""Watched: what a page is told about a run, whoever tells it: a live server, the folder of one, or simulated training.

A page asks for `looks`. Each has what is new since the last one (tasks that ended, evaluations, lines of the log), and
what holds now (tasks in flight, who is there, the plan in force). So a run of any length is read once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple, Protocol

import numpy as np

from sojourn.types import Flags, Floats, Integers

RUNNING, PAUSED, STOPPED, KILLED, ENDED = "running", "paused", "stopped", "killed", "ended"


class Promise(NamedTuple):
    """A plan, and what exact theory promises while it is in force."""

    time: float
    """When it took effect, in seconds of the run."""
    step: int
    """Updates before it."""
    reason: str
    """Why it was made."""
    concurrency: int
    """Tasks in flight."""
    throughput: float | None = None
    """Updates per second; None = the speeds are not known."""
    share: Sequence[float] | None = None
    """Share of each group in all updates."""
    staleness: Sequence[float | None] | None = None
    """Mean staleness of each group."""

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> "Promise":
        """Return the promise of an entry in the list of a live run's plans."""
        return cls(*(entry.get(key) for key in cls._fields))  # type: ignore[arg-type]

    @property
    def mean_staleness(self) -> float | None:
        """Mean staleness of all updates."""
        if self.share is None or self.staleness is None:
            return None
        pairs = zip(self.share, self.staleness, strict=True)
        return float(sum(share * stale for share, stale in pairs if stale is not None))


class Speeds(NamedTuple):
    """What is known of each client's time per task, with a 95% interval; NaN = nothing."""

    mean: Floats
    low: Floats
    high: Floats
    tasks: Floats
    """Tasks that it is known from."""


@dataclass(frozen=True)
class Described:
    """What does not change while a run goes on."""

    name: str
    """What to call it: its folder."""
    live: bool
    """Whether its clock is a real one."""
    groups: tuple[str, ...]
    """Names of the groups."""
    group: Integers
    """Group of each client."""
    clients: tuple[str, ...]
    """Names of the clients, as the fleet has them."""
    told: Floats | None = None
    """Mean time of each client's tasks, as the fleet says; None = unknown."""
    updates: float = inf
    """Updates after which it ends."""
    time: float = inf
    """Seconds after which it ends."""
    notes: tuple[str, ...] = ()
    """What a reader should know, in sentences."""


@dataclass(frozen=True)
class Look:
    """A run at one moment: what holds now, and what is new since the last look."""

    state: str
    """`running`, `paused`, `stopped`, `killed` or `ended`."""
    time: float
    """Seconds that it has been going."""
    ended: np.ndarray[Any, Any]
    """Tasks that have ended since the last look: a record array with the columns of a trace."""
    flying: Integers
    """The client of each task in flight."""
    began: Flags
    """Whether each task in flight is in its client's hands; False = it waits."""
    metrics: Sequence[Mapping[str, float]] = ()
    """New evaluations: rows of metrics.csv."""
    log: Sequence[Mapping[str, Any]] = ()
    """New lines of the log."""
    plans: Sequence[Promise] = ()
    """All plans so far; empty = theory has nothing to say."""
    present: Flags | None = None
    """Which clients are there; None = all."""
    names: Mapping[int, str] = field(default_factory=dict)
    """Names of clients that have said theirs."""
    speeds: Speeds | None = None
    """What the run itself knows of speeds; None = the page has to learn them from the tasks."""
    faults: Mapping[str, int] = field(default_factory=dict)
    """What went wrong so far, by kind."""
    anew: bool = False
    """Whether everything that was told before is to be forgotten, since this begins from the start again."""
    more: bool = False
    """Whether there is more that is new than this look could hold, so that another one is wanted at once."""
    updates: int | None = None
    """Updates so far where single tasks are not known: then `ended` and `flying` say nothing. None = count `ended`."""
    notes: Sequence[str] = ()
    """What a reader should know now, in sentences."""


class Controls(Protocol):
    """What a page can ask of a run."""

    @property
    def paused(self) -> bool:
        """Whether no new tasks are sent, or training waits."""

    def pause(self) -> None:
        """Send no new tasks; those in flight come back. Training waits."""

    def go_on(self) -> None:
        """Send tasks again, or train again."""

    def replan(self) -> None:
        """Work out the plan again, now."""

    def stop(self) -> None:
        """Stop as Ctrl-C does: the run can be resumed."""

    @property
    def never_replans(self) -> str | None:
        """Why the plan cannot be worked out again; None = it can."""


class Watched(Protocol):
    """A run that can be looked at."""

    @property
    def described(self) -> Described:
        """What does not change."""

    @property
    def controls(self) -> Controls | None:
        """How to control it; None = it can only be watched."""

    def look(self) -> Look:
        """Look at the run; called by one thread at a time, and not by the run's own."""
