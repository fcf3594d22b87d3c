r"""Speeds: how long each client's tasks take, learnt from one task after another, with intervals and forgetting.

    x          time of a task: its service, and its turnaround (service and travel)
    m          mean of a client's times, weighted by lambda^age, with a memory of 100 tasks; and of its last 10 tasks
    n          effective number of tasks, (sum w)^2 / sum w^2; it grows to the memory
    c^2        squared coefficient of variation, from squared differences of successive times, so that a jump of the
               mean spoils one of them alone; shrunk towards that of all clients, which begins at 1, as for exponential
    k          n / c^2: the mean is taken as gamma distributed with this shape, exact for exponential times

So the interval of a mean is m k / g, where g are quantiles of the gamma distribution with shape k, and two means are
compared by the F distribution. Weighted means of durations, not of their logarithms, are kept, because throughput and
shares depend on means of durations. A change is believed if chance gives it less than once in 3,000 looks at the whole
fleet, and if it is larger than 5%:

    forgetting     the mean of the last 10 tasks of a client, or of its group together, leaves the interval of the long
                   one. What came before the change is forgotten: as many of the last tasks are kept as are in keeping
                   with a change. If a group has changed, a member that does not show it yet is believed to have changed
                   with it, worth one task.
    leaving        the long mean leaves the interval that it had when the plan was made. Short tasks come back first,
                   so at the start of a run, or of a client, the mean of those that are back is too small. Tasks
                   are believed to have become shorter only if they have when the time that clients have spent on
                   the tasks in their hands is counted too: time spent by tasks done, exact for exponential times.

A group of five exponential clients that becomes half or twice as fast is noticed after 10 to 20 tasks of each; a single
exponential one only after some 60, since its times vary as much as they changed; clients that vary by 30% after 3 to 8,
steady ones after 2 to 4. While nothing changes, a fleet of ten exponential clients has a false alarm about
once in 5,800 looks, or 1,150 updates of each client, one of a hundred once in 3,300 looks. It costs a plan that is
made of fewer tasks, and often another one that takes it back.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import fdtr, fdtrc, gammaincinv
from torch import Tensor

from sojourn.learning.storable import check
from sojourn.types import Flags, Floats, Integers

MEMORY, RECENT = 100, 10  # tasks that the mean remembers, and that it is compared with
FIRST = 8  # differences of successive times until their mean is good enough to compare others with
EVIDENCE = 1.0  # log-likelihood ratio above which a client of a changed group shows the change itself
SHRUNK = 10.0  # worth of the variation of all clients, in tasks
FLOOR = 0.02  # no mean is believed to be known better than this
SMALL = 0.05  # changes below this are of no interest
CHANCE = 3e-4  # of a false alarm at one look, over all clients and over all groups
STATE = ("weight", "square", "service", "turnaround")  # sums of w, w^2, w x


class Means(NamedTuple):
    """Means of all clients, and how well they are known."""

    service: Floats
    """Mean service time in seconds; NaN = the client has sent no update yet."""
    turnaround: Floats
    """The same with travel."""
    tasks: Floats
    """Effective number of tasks."""
    shape: Floats
    """Shape k of the turnaround; 0 = nothing is known."""

    @property
    def travel(self) -> Floats:
        """Mean time on the links, both ways together."""
        return np.maximum(self.turnaround - self.service, 0.0)

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return the ends of the intervals of the mean turnarounds.

        >>> low, high = Means(*(np.array([value]) for value in (1.0, 1.0, 20.0, 20.0))).interval()
        >>> round(float(low[0]), 3), round(float(high[0]), 3)
        (0.674, 1.637)
        """
        rest = (1 - level) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = (self.turnaround * self.shape / gammaincinv(self.shape, at) for at in (1 - rest, rest))
        return np.asarray(low), np.asarray(high)


class Left(NamedTuple):
    """Which means have left their intervals."""

    client: Flags
    """Each client's own."""
    group: Flags
    """That of each group together."""
    ratio: Floats
    """By what factor each client's mean has changed; 1 = unknown."""
    group_ratio: Floats
    """By what factor that of each group has changed."""

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return bool(self.client.any() or self.group.any())


class Speeds:
    """The times of every client's tasks.

    >>> speeds = Speeds(2)
    >>> for _ in range(30): speeds.note(0, 2.0, 0.5)
    >>> known = speeds.known
    >>> float(known.service[0]), float(known.travel[0]), bool(np.isnan(known.service[1]))
    (2.0, 0.5, True)
    """

    def __init__(self, clients: int) -> None:
        self.clients = clients
        self._sums = {key: np.zeros(clients) for key in STATE}
        self._last = np.full((clients, RECENT, 2), np.nan)  # service and turnaround of the last tasks, the newest first
        self._varied, self._compared = np.zeros(clients), np.zeros(clients)  # sums of squared differences, of weights

    def note(self, client: int, service: float, travel: float) -> None:
        """Learn from a task; travel NaN = it is not known, and taken as on average."""
        sums, last = self._sums, self._last[client]
        if np.isnan(travel):
            known = sums["weight"][client] > 0
            travel = (sums["turnaround"][client] - sums["service"][client]) / sums["weight"][client] if known else 0.0
        time = max(service + travel, 1e-9)
        keep = 1 - 2 / (MEMORY + 1)  # then the effective number of tasks grows to the memory
        before = last[0, 1]
        last[1:] = last[:-1].copy()
        last[0] = min(service, time), time
        if before >= 0:
            self._compare(client, (time - before) ** 2 / 2, keep)
        for key, worth in zip(STATE, (1.0, 1.0, last[0, 0], last[0, 1]), strict=True):
            sums[key][client] = (keep**2 if key == "square" else keep) * sums[key][client] + worth

    def _compare(self, client: int, square: float, keep: float) -> None:
        """Learn how much a client's times vary, relative to their mean; of the first few it is taken afterwards."""
        if self._compared[client] < FIRST:
            times = self._last[client, :, 1]
            times = times[~np.isnan(times)]
            self._compared[client] = times.size - 1
            self._varied[client] = (np.diff(times) ** 2).sum() / 2 / times.mean() ** 2
            return
        mean = self._sums["turnaround"][client] / self._sums["weight"][client]
        self._varied[client] = keep * self._varied[client] + square / mean**2
        self._compared[client] = keep * self._compared[client] + 1

    @property
    def variation(self) -> Floats:
        """Squared coefficient of variation of each client's turnaround."""
        everyone = (self._varied.sum() + SHRUNK) / (self._compared.sum() + SHRUNK)
        return np.asarray((self._varied + SHRUNK * everyone) / (self._compared + SHRUNK))

    @property
    def known(self) -> Means:
        """What is known of each client."""
        return self._means(self._sums)

    @property
    def recent(self) -> Means:
        """The same from the last tasks alone."""
        there = ~np.isnan(self._last[:, :, 1])
        many = there.sum(axis=1).astype(np.float64)
        service, turnaround = np.where(there[:, :, None], self._last, 0.0).sum(axis=1).T
        return self._means(dict(zip(STATE, (many, many, service, turnaround), strict=True)))

    def _means(self, sums: dict[str, Floats]) -> Means:
        with np.errstate(divide="ignore", invalid="ignore"):
            tasks = np.where(sums["weight"] > 0, sums["weight"] ** 2 / sums["square"], 0.0)
            service, turnaround = (sums[key] / sums["weight"] for key in ("service", "turnaround"))
            shape = np.where(tasks > 0, 1 / (self.variation / tasks + FLOOR**2), 0.0)
        return Means(service, turnaround, tasks, shape)

    def forget(self, label: Integers) -> Left:
        """Forget what came before a change, of single clients and of whole groups; return which.

        `label` is the group of each client.
        """
        now, before = self.recent, self.known
        told = before.tasks > 1.5 * now.tasks  # otherwise both means are of the same tasks
        found = left(now, before, label, told)
        changed = np.flatnonzero(found.client | (found.group[label] & told)).tolist()
        ratio = np.where(found.client, found.ratio, found.group_ratio[label])
        silent = [client for client in changed if not self._cut(client, before.turnaround[client], ratio[client])]
        shown = [client for client in changed if client not in silent]
        for client in silent:
            others = [one for one in shown if label[one] == label[client]]
            factor = np.mean(self.known.turnaround[others] / before.turnaround[others]) if others else ratio[client]
            self._scale(client, float(factor))
        return found

    def _cut(self, client: int, before: float, ratio: float) -> bool:
        """Forget the tasks of a client from before a change in the direction of `ratio`; return whether it shows one.

        `before` is its mean until then.
        """
        scatter = float(self.variation[client]) + FLOOR**2
        times = self._last[client, :, 1]
        many = np.arange(1, int((~np.isnan(times)).sum()) + 1)
        quotient = np.cumsum(times[: many.size]) / many / before
        evidence = (
            many / scatter * (quotient - 1 - np.log(quotient)) * np.where((quotient > 1) == (ratio > 1), 1.0, -1.0)
        )
        evidence[: min(int(4 * scatter), many.size - 1)] = -1.0  # so few tasks of varying length show little
        best = int(np.flatnonzero(evidence >= evidence.max() - EVIDENCE)[-1])  # the longest of those that are as good
        sums, mine = self._sums, self._last[client]
        if not evidence.max() > EVIDENCE:
            return False
        mine[best + 1 :] = np.nan
        new = (best + 1.0, best + 1.0, *mine[: best + 1].sum(axis=0))
        for key, value in zip(STATE, new, strict=True):
            sums[key][client] = value
        return True

    def _scale(self, client: int, factor: float) -> None:
        """Believe that a client has changed by a factor, worth one task."""
        sums = self._sums
        self._last[client] = np.nan
        for key in STATE[2:]:
            sums[key][client] *= factor / sums["weight"][client]
        sums["weight"][client] = sums["square"][client] = 1.0

    def snapshot(self) -> dict[str, Any]:
        """Return the state, as a tree of tensors."""
        return {key: torch.from_numpy(one.copy()) for key, one in self._arrays().items()}

    def restore(self, tree: dict[str, Any]) -> None:
        """Take over the state of a snapshot."""
        check(tree, dict.fromkeys(self._arrays(), Tensor))
        self.take({key: one.numpy() for key, one in tree.items()})

    def take(self, arrays: Mapping[str, NDArray[np.float64]]) -> None:
        """Take over a state that was read as arrays."""
        for key, one in self._arrays().items():
            one[:] = arrays[key]

    def _arrays(self) -> dict[str, NDArray[np.float64]]:
        return {**self._sums, "last": self._last, "varied": self._varied, "compared": self._compared}


def left(
    now: Means, then: Means, label: Sequence[int] | Integers, told: Flags | None = None, ages: Floats | None = None
) -> Left:
    """Return which means have left the intervals that they had then.

    `told` = clients of which enough is known; `ages` = how long each client has had the task in its hands, 0 = none.
    """
    label = np.asarray(label)
    groups = int(label.max()) + 1
    both = (now.shape > 0) & (then.shape > 0) & (True if told is None else told)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(both, now.turnaround / then.turnaround, 1.0)
    mine, before = np.where(both, now.shape, 0.0), np.where(both, then.shape, 0.0)
    weight, tasks = np.bincount(label, mine, groups), np.bincount(label, np.where(both, now.tasks, 0.0), groups)
    pooled = np.bincount(label, mine * ratio, groups) / np.where(weight > 0, weight, 1.0)
    pooled = np.where(weight > 0, pooled, 1.0)
    if ages is not None:
        hands = np.where(then.shape > 0, ages / np.where(then.shape > 0, then.turnaround, 1.0), 0.0)
        worth = np.where(both, mine / np.where(both, now.tasks, 1.0), (weight / np.maximum(tasks, 1.0))[label])
        ratio = _at_least(ratio, hands / np.where(both, now.tasks, np.inf))
        pooled = _at_least(pooled, np.bincount(label, worth * hands, groups) / np.where(weight > 0, weight, np.inf))
    client = _beyond(ratio, mine, before, CHANCE / max(1, int(both.sum())))
    now_sure, then_sure = (np.minimum(one, 1 / FLOOR**2) for one in (weight, np.bincount(label, before, groups)))
    return Left(client, _beyond(pooled, now_sure, then_sure, CHANCE / groups), ratio, pooled)


def _at_least(ratio: Floats, hands: Floats) -> Floats:
    """Return ratios of means, of which those below 1 count what is in hand, and come no closer than to 1."""
    return np.where(ratio < 1, np.minimum(ratio + hands, 1.0), ratio)


def _beyond(ratio: Floats, shape: Floats, before: Floats, chance: float) -> Flags:
    """Return which ratios of means are too far from 1 for chance, and for being small."""
    known = (shape > 0) & (before > 0)
    k, b = np.where(known, 2 * shape, 1.0), np.where(known, 2 * before, 1.0)
    tail = 2 * np.minimum(fdtr(k, b, ratio), fdtrc(k, b, ratio))
    return np.asarray(known & (tail < chance) & (np.abs(np.log(np.maximum(ratio, 1e-300))) > np.log1p(SMALL)))
