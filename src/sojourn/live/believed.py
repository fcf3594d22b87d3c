"""Believed: the fleet as a live run knows it now, from the times of its tasks.

Clients of about the same turnaround form a group, and a group has the mean of its clients, so that what one client
lacks in tasks the others make up for. Clients of different groups in the fleet file stay apart, unless there are many
groups. A client that has sent nothing yet is taken for a usual one of its own group in
the fleet file. If nobody of that group is known either, the fleet file says how fast it is, or, where the speeds of the
fleet are unknown, all the clients that are known. It is not faster, though, than the task in its hands shows already.
"""

from dataclasses import dataclass

import numpy as np

from sojourn.fleet import Fleet
from sojourn.live.speeds import FLOOR, Means
from sojourn.timing.fit.speed_groups import TELLING, by_means
from sojourn.types import Flags, Floats, Integers

LEAST = 1e-9  # a link that takes a smaller part of the service is none


@dataclass(frozen=True)
class Told:
    """What a run was told of its clients before it began."""

    service: Floats
    """Mean service time of each client's tasks, in seconds."""
    travel: Floats
    """Mean time on its links."""
    group: Integers
    """Group of each client in the fleet."""
    known: bool = True
    """False = the speeds are unknown, and the times above mean nothing."""

    @property
    def means(self) -> Means:
        """These times as means that are known for certain, or not at all."""
        many = self.service.size
        sure = np.full(many, 1 / FLOOR**2 if self.known else 0.0)
        return Means(self.service, self.service + self.travel, np.full(many, np.inf if self.known else 0.0), sure)


@dataclass(frozen=True)
class Believed:
    """A fleet of speed groups, and where its clients are in it."""

    fleet: Fleet
    """The speed groups, the fastest first."""
    label: Integers
    """Group of each client."""


def filled(means: Means, told: Told, ages: Floats) -> Means:
    """Return means of all clients: their own, or what is plausible. `ages` are those of tasks in clients' hands."""
    seen = means.tasks > 0
    service, travel = means.service.copy(), means.travel
    turnaround, shape = means.turnaround.copy(), np.where(seen, means.shape, 1.0)
    usual = _usual(means, seen, np.zeros(seen.size, np.int64)) if seen.any() else (1.0, 0.0)
    for group in np.unique(told.group[~seen]).tolist():
        mine = told.group == group
        some, missing = mine & seen, mine & ~seen
        first = int(np.flatnonzero(mine)[0])
        likely = (told.service[first], told.travel[first]) if told.known else usual
        if some.any():
            likely = _usual(means, some, told.group)
        service[missing] = np.maximum(likely[0], ages[missing])
        travel[missing] = likely[1]
        turnaround[missing] = service[missing] + travel[missing]
    return Means(service, turnaround, means.tasks, shape)


def _usual(means: Means, some: Flags, group: Integers) -> tuple[float, float]:
    """Return the geometric mean of the clients' service times, and the mean of their travel."""
    return float(np.exp(np.log(np.maximum(means.service[some], 1e-9)).mean())), float(means.travel[some].mean())


def believed(means: Means, apart: Integers | None = None) -> Believed:
    """Return the fleet of these means, all of which are known; clients whose `apart` differs never share a group.

    >>> times = np.array([0.1, 1.0, 0.1, 1.0])
    >>> found = believed(Means(times, times, np.full(4, 50.0), np.full(4, 50.0)))
    >>> found.label.tolist(), found.fleet.rate.round(3).tolist()
    ([0, 1, 0, 1], [10.0, 1.0])
    """
    telling = np.full(means.tasks.size, float(TELLING))  # all of them: how little is known of some is in their noise
    label = by_means(telling, means.turnaround, 1 / means.shape).label
    both = label if apart is None else label * (int(apart.max()) + 1) + apart
    _, label = np.unique(both, return_inverse=True)
    label = label.reshape(-1)
    count = np.bincount(label)
    weight = np.bincount(label, means.shape)
    service = np.maximum(np.bincount(label, means.shape * means.service) / weight, 1e-12)
    travel = np.bincount(label, means.shape * means.travel) / weight
    with np.errstate(divide="ignore"):
        link = np.where(travel > LEAST * service, 2 / travel, np.inf)  # half of it each way
    names = tuple(f"speed-{number}" for number in range(1, count.size + 1))
    return Believed(Fleet(names, count, 1 / service, uplink_rate=link, downlink_rate=link), label)
