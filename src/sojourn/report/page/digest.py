"""Digest: what a page needs of a trace, read once in pieces, in memory that grows with the clients and not the tasks.

    over time     tasks in service, waiting and on their way back, and updates, by group, in bins that double
    staleness     a histogram by group: exact below 128, then 32 bins per doubling
    by client     updates, staleness, waiting, what became of the tasks
    lanes         the first tasks of a few clients, one by one, until all of them were seen

The result does not depend on the pieces in which the trace is read, up to the rounding of sums.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.report.page.time_bins import TimeBins
from sojourn.timing.fit.observed import check_clients
from sojourn.timing.simulate.jump_chain import bin_edges
from sojourn.trace import FATES, IN_FLIGHT, Trace
from sojourn.types import Flags, Floats, Integers

HELD, SERVED, RETURNING, UPDATES, STALE = range(5)  # kinds of what is kept over time
LANE = 60  # tasks of a client that a lane shows
QUEUED = 2000  # tasks that waited meanwhile, and are kept to count them
EDGES = bin_edges()
MOST_STEPS = int(EDGES[-1]) - 2  # so that every staleness has a bin
TIMES = ("dispatched_at", "started_at", "finished_at", "applied_at")


@dataclass
class Lane:
    """The first tasks of one client."""

    client: int
    """Its number."""
    tasks: list[tuple[float, float, float, float]] = field(default_factory=list)
    """When each was dispatched, started, finished and over; NaN = it was not."""
    until: float = np.inf
    """Up to this time all its tasks are here."""

    @property
    def times(self) -> list[float]:
        """All moments of its tasks that are known."""
        return [time for one in self.tasks for time in one if np.isfinite(time)]

    def since(self, begin: float) -> "Lane":
        """Return it with all times counted from `begin` on."""
        tasks = np.array(self.tasks, dtype=np.float64).reshape(-1, len(TIMES)) - begin
        return Lane(self.client, [tuple(one) for one in tasks.tolist()], self.until - begin)

    def add(self, times: Floats) -> None:
        """Add tasks in the order of the trace; beyond the first, only those that were there before these ended."""
        room = max(0, LANE - len(self.tasks))
        self.tasks += [tuple(one) for one in times[:room].tolist()]
        if len(self.tasks) >= LANE and np.isinf(self.until):
            over = [one for one in self.tasks[LANE - 1] if np.isfinite(one)]
            self.until = over[-1] if over else np.inf
        late = times[room:]
        late = late[late[:, 0] < self.until]
        self.tasks += [tuple(one) for one in late[: max(0, LANE + QUEUED - len(self.tasks))].tolist()]


@dataclass
class Digest:
    """A trace, reduced to a fixed number of values per group and per client."""

    label: Integers
    """Group of each client."""
    groups: int
    """Number of groups."""
    lanes: Sequence[Lane] = ()
    """Clients whose first tasks are kept."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Facts about the whole trace."""

    def __post_init__(self) -> None:
        clients = self.label.size
        self.rows = 0
        self.time = TimeBins(5, self.groups)
        self.histogram = np.zeros((self.groups, EDGES.size - 1), np.int64)
        self.fates = np.zeros((clients, len(FATES)), np.int64)
        self.stale, self.oldest = np.zeros(clients, np.int64), np.full(clients, -1, np.int64)
        self.waited, self.started = np.zeros(clients), np.zeros(clients, np.int64)
        self._worked, self._working = np.zeros(clients), np.zeros((2, clients))
        self._lane = np.full(clients, -1, np.int64)
        self._lane[[one.client for one in self.lanes]] = np.arange(len(self.lanes))

    def add(self, piece: Trace) -> None:
        """Add the next rows of the trace."""
        self.metadata = piece.metadata
        client = piece.client.astype(np.int64)
        check_clients(piece, self.label.size, self.rows, False)
        _check_steps(piece, self.rows)
        self.rows += len(piece)
        clients = self.label.size
        self.fates += np.bincount(client * len(FATES) + piece.fate, minlength=self.fates.size).reshape(-1, len(FATES))
        begun = np.isfinite(piece.started_at) & np.isfinite(piece.dispatched_at)
        self.started += np.bincount(client[begun], minlength=clients)
        self.waited += np.bincount(client[begun], (piece.started_at - piece.dispatched_at)[begun], clients)
        self._age(client, piece)
        self._fill(client, piece)
        here = np.flatnonzero(self._lane[client] >= 0)
        for lane in np.unique(self._lane[client[here]]):
            mine = here[self._lane[client[here]] == lane]
            self.lanes[lane].add(np.stack([getattr(piece, key)[mine] for key in TIMES], axis=1))

    def _age(self, client: Integers, piece: Trace) -> None:
        applied = piece.applied
        mine, stale = client[applied], np.maximum(piece.staleness, 0)
        self.stale += np.bincount(mine, stale, self.label.size).astype(np.int64)
        np.maximum.at(self.oldest, mine, stale)
        place = self.label[mine] * (EDGES.size - 1) + np.searchsorted(EDGES, stale, side="right") - 1
        self.histogram += np.bincount(place, minlength=self.histogram.size).reshape(self.histogram.shape)

    def _fill(self, client: Integers, piece: Trace) -> None:
        group, over = self.label[client], piece.fate != IN_FLIGHT
        finished, applied = piece.finished_at, piece.applied_at
        ended = np.where(over, np.where(np.isfinite(applied), applied, finished), np.nan)
        stopped = np.where(np.isfinite(finished), finished, ended)
        returns = np.where(np.isfinite(finished), ended, np.nan)
        known = [one[np.isfinite(one)] for one in (piece.dispatched_at, piece.started_at, finished, ended)]
        self.time.cover(min(one.min(initial=np.inf) for one in known), max(one.max(initial=-np.inf) for one in known))
        there = np.isfinite(piece.dispatched_at)
        begun = there & np.isfinite(piece.started_at)
        self._level(HELD, group, piece.dispatched_at, ended, there)
        self._level(SERVED, group, piece.started_at, stopped, begun)
        self._level(RETURNING, group, finished, returns, begun & np.isfinite(finished))
        known_end = begun & np.isfinite(stopped)
        self._worked += np.bincount(client[known_end], (stopped - piece.started_at)[known_end], self.label.size)
        open_end = begun & ~np.isfinite(stopped) & ~over
        for row, by in enumerate((None, piece.started_at[open_end])):
            self._working[row] += np.bincount(client[open_end], by, self.label.size)
        counted = piece.applied & np.isfinite(applied)
        self.time.add(UPDATES, group[counted], applied[counted])
        stale = np.maximum(piece.applied_step - piece.dispatched_step, 0)[counted].astype(np.float64)
        self.time.add(STALE, group[counted], applied[counted], stale)

    def _level(self, kind: int, group: Integers, begin: Floats, end: Floats, there: Flags) -> None:
        self.time.add(kind, group[there], begin[there])
        gone = there & np.isfinite(end)
        self.time.add(kind, group[gone], end[gone], -1.0)

    @property
    def updates(self) -> Integers:
        """Updates applied, by client."""
        return np.asarray(self.fates[:, FATES.index("applied")])

    @property
    def busy(self) -> Floats:
        """Seconds of service, by client; a service without an end goes on until the trace ends."""
        services, begun = self._working
        return np.asarray(self._worked + np.where(services > 0, services * self.time.last - begun, 0.0))

    @property
    def lasted(self) -> float:
        """Seconds from the first to the last moment of the trace."""
        return max(0.0, self.time.last - self.time.first) if self.rows else 0.0

    def by_group(self, values: Any) -> Any:
        """Return the sum of each client's values by group."""
        return np.bincount(self.label, values, self.groups)

    def waiting(self) -> Floats:
        """Return the mean number of tasks that were not being served and not on their way back, by group and bin."""
        held, served, back = (self.time.levels(kind) for kind in (HELD, SERVED, RETURNING))
        return np.maximum(held - served - back, 0.0)


def _check_steps(piece: Trace, before: int) -> None:
    """Refuse numbers of steps that no server has made; `before` counts the rows of earlier pieces."""
    for key in ("dispatched_step", "applied_step"):
        steps = getattr(piece, key)
        wrong = (steps < -1) | (steps > MOST_STEPS)
        if wrong.any():
            bad = int(np.argmax(wrong))
            raise InvalidInput(
                f"{key} must be from -1 to {MOST_STEPS}, got {steps[bad]} in row {before + bad}; "
                "the trace is damaged: record or write it again"
            )


def digest(pieces: Iterable[Trace], label: Integers, groups: int, shown: Iterable[int] = ()) -> Digest:
    """Read a trace once: `label` is the group of each client, `shown` the clients whose first tasks are kept.

    >>> from sojourn import Fleet, Plan, simulate
    >>> fleet = Fleet.of(fast=(2, 4.0), slow=(2, 1.0))
    >>> found = digest([simulate(fleet, Plan.uniform(fleet, 4), 1000, seed=1)], fleet.group_of_client, 2)
    >>> found.rows, int(found.updates.sum()), int(found.histogram.sum())
    (1004, 1000, 1000)
    """
    found = Digest(np.asarray(label, np.int64), groups, [Lane(int(one)) for one in shown])
    for piece in pieces:
        found.add(piece)
    return found
