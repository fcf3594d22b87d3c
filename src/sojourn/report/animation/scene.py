"""A scene: where every task of a trace is at every moment of a while, for pictures that move.

Everything comes from the times in the trace: a task is at its client from `dispatched_at` until `finished_at`, is
served from `started_at`, and waits before that behind those that the client serves first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.trace import Trace

SERVED = 0  # the place of the task that a client works on; those that wait have places 1, 2, ...
Steps = list[tuple[float, int]]  # (since when, value), from time 0


@dataclass(frozen=True)
class Task:
    """A task as it is drawn."""

    client: int
    dispatched: float
    places: Steps
    """Its places at the client."""
    left: float
    """When it left the client."""
    ended: float
    """When the server applied it, or when it ended in another way; infinite: not within the trace."""


@dataclass(frozen=True)
class Scene:
    """The first `time` seconds of a trace."""

    time: float
    slots: list[list[Task]]
    """The tasks, one after the other: a slot's next task is sent when the one before it has ended, or later."""
    services: list[list[tuple[float, float]]]
    """For each client, from when until when it worked on a task."""
    updates: Steps
    """How many updates had been applied."""
    idle: Steps
    """How many clients had nothing to work on."""
    waiting: Steps
    """How many tasks waited at clients."""

    @property
    def applied(self) -> int:
        """Number of updates applied in this time."""
        return self.updates[-1][1]

    @property
    def longest(self) -> int:
        """Length of the longest queue, without the task in service."""
        return max((place for slot in self.slots for task in slot for _, place in task.places), default=0)

    def mean(self, steps: Steps) -> float:
        """Mean of a number over the time of the scene."""
        since, values = np.array(steps, dtype=float).T
        return float(np.diff(np.append(since, self.time)) @ values / self.time)


def scene_of(trace: Trace, clients: int, time: float) -> Scene:
    """Return what a trace shows from its start until `time`."""
    end = float(np.nanmax(trace.applied_at, initial=0.0))
    if not 0 < time <= end:
        raise InvalidInput(f"time must be positive and within the trace, which ends at {end:g}, got {time:g}")
    left = np.where(np.isnan(trace.finished_at), trace.applied_at, trace.finished_at)
    sent, started, left, ended = (
        np.nan_to_num(column, nan=np.inf) for column in (trace.dispatched_at, trace.started_at, left, trace.applied_at)
    )
    served = np.minimum(started, left)  # some leave without service
    tasks: list[Task] = []
    services: list[list[tuple[float, float]]] = []
    for client in range(clients):
        rows = np.flatnonzero((trace.client == client) & (sent < time))
        rows = rows[np.lexsort((sent[rows], served[rows]))]  # in order of service
        services.append([(float(started[row]), float(left[row])) for row in rows if started[row] < time])
        for nth, row in enumerate(rows):
            before = [(float(sent[other]), float(served[other])) for other in rows[:nth] if served[other] > sent[row]]
            places = _places(float(sent[row]), float(started[row]), before, time)
            tasks.append(Task(client, float(sent[row]), places, float(left[row]), float(ended[row])))
    busy = [change for spans in services for start, stop in spans for change in ((start, -1), (stop, 1))]
    waits = [change for begin, end in zip(sent, served, strict=True) for change in ((begin, 1), (end, -1))]
    updates = [(at, 1) for at in ended[trace.applied]]
    numbers = (_steps(first, each, time) for first, each in ((0, updates), (clients, busy), (0, waits)))
    return Scene(time, _slots(tasks), services, *numbers)


def _places(sent: float, started: float, before: Sequence[tuple[float, float]], time: float) -> Steps:
    """Return the places of a task behind others that are served first, each of which waits from when until when."""
    changes = {sent, started, *(at for waits in before for at in waits)}
    found: Steps = []
    for at in sorted(at for at in changes if sent <= at <= started and at < time):
        place = SERVED if at == started else 1 + sum(begin <= at < end for begin, end in before)
        if not found or found[-1][1] != place:
            found.append((at, place))
    return found


def _slots(tasks: list[Task]) -> list[list[Task]]:
    """Put tasks one after the other, each where one ended last before it was sent."""
    slots: list[list[Task]] = []
    for task in sorted(tasks, key=lambda each: (each.dispatched, each.client)):
        free = [slot for slot in slots if slot[-1].ended <= task.dispatched]
        if free:
            max(free, key=lambda slot: slot[-1].ended).append(task)
        else:
            slots.append([task])
    return slots


def _steps(first: int, changes: list[tuple[float, int]], time: float) -> Steps:
    """Return a number over time, which is `first` before the changes."""
    times, by = np.array(changes or [(0.0, 0)], dtype=float).T
    inside = times <= time
    since, which = np.unique(np.maximum(times[inside], 0.0), return_inverse=True)
    values = first + np.cumsum(np.bincount(which, weights=by[inside], minlength=since.size))
    steps = [(float(at), round(value)) for at, value in zip(since, values, strict=True)]
    steps = steps if steps and steps[0][0] == 0 else [(0.0, first), *steps]
    return [step for nth, step in enumerate(steps) if nth == 0 or step[1] != steps[nth - 1][1]]
