"""Timeline: the tasks of a run in the order in which replay needs them, from a Trace or directly from a Clock.

Tasks are named by (client, nth task of that client in the order of dispatch). A timeline tells which tasks are sent
with the server's present model, and which task ends next. A clock computes task by task, which only dispatchers with
queues allow; rounds and periods come as a Trace.
"""

from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sojourn.clock import Clock, Steps
from sojourn.trace import APPLIED, DROPPED, IN_FLIGHT, Trace

BARRIERS = ("rounds", "periodic", "held", "groups")
Name = tuple[int, int]


class Ended(NamedTuple):
    """A task that has come back to the server, or that never will."""

    name: Name
    """Name of the task: (client, nth task of that client)."""
    applied: bool
    """False = it was lost or dropped."""
    step: int
    """Updates received before this one; -1 = not received."""
    dispatched_step: int
    """Number of updates in the model that it carries."""
    time: float
    """Server clock when it was received."""
    dispatched_at: float
    """Server clock when it was dispatched."""
    prob: float
    """Probability with which the client was drawn."""
    work: int
    """Local steps done."""
    closes: bool
    """Whether it is the last task of a round or period of the server."""
    discarded: int = 0
    """Local steps that it had begun and whose results are lost: all if the server gave it up, one if a call came."""
    superseded: bool = False
    """Whether it was given up after it had come back, for a newer one of its client."""


class Timeline(Protocol):
    """What happens, in order: `leaving` is called at the beginning and after each task that ended."""

    def leaving(self, steps: Steps | None = None) -> list[Name]:
        """Return the tasks that are sent with the present model; `steps` tells their local steps, where these are not
        known before.
        """

    def next(self) -> Ended | None:
        """Return the next task that ends; None = nothing more happens."""

    def ahead(self, name: Name, in_turn: bool = False) -> Ended | None:
        """Return how a task in flight will end, if that is known and it will be received; otherwise None. With
        `in_turn` it must be the next of its client's tasks to be received.
        """

    def skip(self, ended: int) -> None:
        """From the beginning, skip the first `ended` tasks that end, and the tasks that were sent by then."""


class Recorded:
    """The timeline of a trace."""

    def __init__(self, trace: Trace) -> None:
        self._applied: list[bool] = trace.applied.tolist()
        in_flight = np.flatnonzero(trace.fate == IN_FLIGHT)
        self._ended = int(in_flight[0]) if in_flight.size else len(trace)
        self._columns: tuple[list[float], ...] = tuple(
            column.tolist()
            for column in (
                *(trace.applied_step, trace.dispatched_step, trace.applied_at, trace.dispatched_at),
                *(trace.prob, trace.work, closing(trace), discarded(trace), superseded(trace)),
            )
        )
        self._names: list[Name] = list(zip(trace.client.tolist(), _nth(trace).tolist(), strict=True))
        order = np.argsort(trace.dispatched_step, kind="stable")
        steps = trace.dispatched_step[order]
        self._order: list[int] = order.tolist()
        self._edges: list[int] = np.searchsorted(steps, np.arange(int(steps[-1]) + 2 if steps.size else 1)).tolist()
        self._rows: dict[Name, int] = {}  # filled on demand
        self._row = 0
        self._sent = -1  # step of the last model that was sent
        self._step = 0

    def leaving(self, steps: Steps | None = None) -> list[Name]:
        """Return the tasks that the trace sends with the model of this step, all at once; it knows their steps."""
        if self._sent == self._step:
            return []
        self._sent = self._step
        if self._step + 1 >= len(self._edges):
            return []
        return [self._names[row] for row in self._order[self._edges[self._step] : self._edges[self._step + 1]]]

    def next(self) -> Ended | None:
        """Return the task of the next row."""
        row = self._row
        if row >= self._ended:
            return None
        self._row += 1
        self._step += self._applied[row]
        return self._at(row)

    def ahead(self, name: Name, in_turn: bool = False) -> Ended | None:
        """Return how the task ends, from its row; the row of the task that ends now counts as not yet received."""
        if not self._rows:
            self._rows = {name: row for row, name in enumerate(self._names)}
        row = self._rows[name]
        if not self._applied[row] or (in_turn and self._earlier[row] >= self._row - 1):
            return None
        return self._at(row)

    @cached_property
    def _earlier(self) -> list[int]:
        """For each row the last one before it that its client's update was received in; -1 = there is none."""
        last: dict[int, int] = {}
        earlier = []
        for row, (client, _) in enumerate(self._names):
            earlier.append(last.get(client, -1))
            if self._applied[row]:
                last[client] = row
        return earlier

    def _at(self, row: int) -> Ended:
        return Ended(self._names[row], self._applied[row], *(column[row] for column in self._columns))  # type: ignore[arg-type]

    def at(self, row: int) -> tuple[int, set[Name]]:
        """Return the updates received before a row, and the tasks in flight then; -1 = there is no such row."""
        if not 0 <= row <= self._ended:
            return -1, set()
        step = sum(self._applied[:row])
        left = self._order[: self._edges[min(step + 1, len(self._edges) - 1)]]
        return step, {self._names[one] for one in left if one >= row}

    def skip(self, ended: int) -> None:
        """Go to a row."""
        self._row = ended
        self._step = self._sent = sum(self._applied[:ended])


class Live:
    """The timeline of a running clock, for runs whose trace is not kept.

    >>> from sojourn import Fleet, Plan
    >>> from sojourn.scenario import Scenario
    >>> from sojourn.random import keys
    >>> from sojourn.timing.simulate.drive import OnlineEngine
    >>> fleet, queues = Fleet.of(all=(2, 1.0)), np.array([1, 1])
    >>> live = Live(OnlineEngine(fleet, Plan.uniform(fleet, 2), Scenario(), queues, keys(1)), queues)
    >>> live.leaving(), live.next().step, len(live.leaving())
    ([(0, 0), (1, 0)], 0, 1)
    """

    def __init__(self, clock: Clock, queues: NDArray[np.int64]) -> None:
        self._clock = clock
        self._sent = queues.astype(np.int64)
        self._first = [(client, nth) for client, many in enumerate(queues.tolist()) for nth in range(many)]
        self._names = dict(enumerate(self._first))  # by slot
        self._initial = {
            slot: client for slot, (client, _) in self._names.items()
        }  # initial tasks that are still in flight
        self._begun: dict[int, list[float]] = {}  # by client: when it began the tasks that have ended
        self._slot = -1

    def leaving(self, steps: Steps | None = None) -> list[Name]:
        """Return the initial tasks first, then one for each task that ended."""
        if self._slot < 0:
            first, self._first = self._first, []
            return first
        client = self._clock.send(work=steps)
        name = (client, int(self._sent[client]))
        self._sent[client] += 1
        self._names[self._slot] = name
        return [name]

    def next(self) -> Ended | None:
        """Return the next task that ends."""
        task = self._clock.arrive()
        self._slot = task.slot
        name = self._names[task.slot]
        if self._initial.pop(task.slot, None) is not None:
            name = (task.client, self._turn(task.client, task.started_at))
        return Ended(
            name=name,
            applied=task.applied,
            step=task.applied_step,
            dispatched_step=task.dispatched_step,
            time=task.applied_at,
            dispatched_at=task.dispatched_at,
            prob=task.prob,
            work=task.work,
            closes=False,
        )

    def ahead(self, name: Name, in_turn: bool = False) -> Ended | None:
        """Return None: the future is not known."""
        return None

    def _turn(self, client: int, started_at: float) -> int:
        """Number a client's initial tasks in the order of service, since they were sent together and links may change
        their order.
        """
        ended = self._begun.setdefault(client, [])
        before = sum(one <= started_at for one in ended)
        ended.append(started_at)
        mine = (slot for slot, owner in self._initial.items() if owner == client)
        return before + sum(self._clock.started_at(slot) < started_at for slot in mine)

    def skip(self, ended: int) -> None:
        """Run the clock to that point."""
        self.leaving()
        for _ in range(ended):
            self.next()
            self.leaving()


def _nth(trace: Trace) -> NDArray[np.int64]:
    """Return how many tasks had been sent to the client before each one."""
    started = np.where(np.isnan(trace.started_at), np.inf, trace.started_at)
    order = np.lexsort((np.arange(len(trace)), started, trace.dispatched_at, trace.dispatched_step, trace.client))
    client = trace.client[order]
    nth = np.empty(len(trace), dtype=np.int64)
    nth[order] = np.arange(len(trace)) - np.searchsorted(client, client, side="left")
    return nth


def discarded(trace: Trace) -> NDArray[np.int64]:
    """Return the local steps that each task had begun and whose results are lost: all of a task that the server gave
    up, and the one that a call of the server interrupted.
    """
    lost = np.where(trace.fate == DROPPED, trace.work, 0)
    if trace.metadata.get("dispatcher") != "periodic":
        return lost
    most = trace.metadata.get("local_steps")
    interrupted = trace.work < most if isinstance(most, int) and most > 0 else trace.finished_at >= trace.applied_at
    return lost + (trace.applied & interrupted)


def superseded(trace: Trace) -> NDArray[np.bool_]:
    """Return whether a task came back and was then given up, for a newer one of its client. Where rounds end early, a
    dropped task may have done its work too, but it was given up on its way back.
    """
    came = np.isfinite(trace.finished_at) & (trace.metadata.get("dispatcher") != "rounds")
    return np.asarray((trace.fate == DROPPED) & (trace.work > 0) & came)


def closing(trace: Trace) -> NDArray[np.bool_]:
    """Return whether a row is the last that the server applies at one time, if it applies several together.

    Two batches that are applied at the same time are told apart by the tasks that were sent in between. In a live run
    every update has its own time, and the trace says how many make a batch.
    """
    closes = np.zeros(len(trace), dtype=np.bool_)
    batch = trace.metadata.get("batch")
    if isinstance(batch, int) and batch > 0:
        return np.asarray(trace.applied & ((trace.applied_step + 1) % batch == 0))
    if trace.metadata.get("dispatcher") not in BARRIERS:
        return closes
    applied = np.flatnonzero(trace.fate == APPLIED)
    at = trace.applied_at[applied]
    sent = np.isin(np.arange(1, applied.size + 1), trace.dispatched_step)
    closes[applied] = np.append((at[1:] != at[:-1]) | sent[:-1], True) if applied.size else False
    return closes
