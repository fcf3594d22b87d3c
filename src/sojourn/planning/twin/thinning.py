"""Replace a large fleet by a small one: one client stands for many, and one update for many.

An update of a client that stands for K counts K times, with a variance of noise and offset divided by K; tasks in
flight are K times fewer. That keeps drift, noise and delay in proportion. Groups keep at least a few clients: each
then stands for fewer.

A small fleet scatters more than a large one: predictions are those of a fleet of its size. If clients send only a few
updates each, 1000 clients are needed; otherwise 400 are enough (400 clients predict the losses of 1000, with 60 updates
each, within 15% for most policies, which is less than the scatter from trace to trace).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.types import Floats, Integers

CLIENTS = 1000  # most clients of a thinned fleet
FEWER = 400  # most clients if they send many updates each
MANY = 40  # updates per client that count as many
FEW = 10  # fewest clients that a group keeps
TASKS = 10  # fewest tasks in flight that are kept
SPEEDS = 5  # most speed groups


@dataclass(frozen=True, eq=False)
class Thinned:
    """A fleet and a plan, perhaps smaller than the real ones, and how much of them each client stands for."""

    fleet: Fleet
    """The fleet that is simulated."""
    plan: Plan
    """The plan for it."""
    share: Floats
    """Weight of each client in the objective (q)."""
    counts: Floats
    """Number of updates of the real fleet that one update of each client stands for."""
    speed: Integers
    """Speed group of each client."""

    @property
    def many(self) -> float:
        """Number of updates that one update stands for, on average over clients."""
        return float((self.counts * self.share).sum())


def thinned(fleet: Fleet, plan: Plan, most: int = CLIENTS, rounds: bool = False) -> Thinned:
    """Return the fleet as it is if it has at most `most` clients and tasks, otherwise a smaller one.

    Rounds keep their size as far as possible, because the slowest of many clients takes longer.

    >>> fleet = Fleet.of(fast=(9000, 8.0), slow=(1000, 1.0))
    >>> small = thinned(fleet, Plan.uniform(fleet, 10_000, cap=1))
    >>> small.fleet.clients, small.plan.concurrency, small.many
    (1000, 1000, 10.0)
    """
    n, tasks = fleet.clients, plan.concurrency
    if max(n, tasks) <= most:
        return Thinned(fleet, plan, np.full(n, 1 / n), np.ones(n), speed_groups(fleet)[fleet.group_of_client])
    label, count = _members(fleet, most) if n > most else (np.arange(fleet.groups), fleet.count)
    stands = np.bincount(label, fleet.count) / count  # number of clients that one stands for, by group
    small = int(count.sum())
    held = small if tasks == n else max(1, round(tasks * most / max(n, tasks)))
    held = min(tasks, small) if rounds else max(held, min(tasks, TASKS))
    merged = n / small if tasks == n else tasks / held
    smaller, drawn = _smaller(fleet, plan, label, count, min(held, small) if plan.one_each else held)
    group = smaller.group_of_client
    evenly = merged * stands / (n / small)
    return Thinned(smaller, drawn, (stands / n)[group], evenly[group], speed_groups(smaller)[group])


def _members(fleet: Fleet, most: int) -> tuple[Integers, Integers]:
    """Return the new group of every group, and its clients: the groups as they are, or clients in order of speed."""
    if fleet.groups * FEW <= most // 2:
        count = np.maximum(np.minimum(fleet.count, FEW), np.round(fleet.count * (most / fleet.clients)))
        return np.arange(fleet.groups), count.astype(np.int64)
    order = np.argsort(_pace(fleet), kind="stable")
    behind = np.cumsum(fleet.count[order]) - fleet.count[order] / 2
    label = np.empty(fleet.groups, dtype=np.int64)
    label[order] = np.minimum(behind * (most / fleet.clients), most - 1).astype(np.int64)
    _, label = np.unique(label, return_inverse=True)
    held = np.bincount(label, fleet.count)
    return label, np.maximum(1, np.round(held * (most / fleet.clients))).astype(np.int64)


def _smaller(fleet: Fleet, plan: Plan, label: Integers, count: Integers, tasks: int) -> tuple[Fleet, Plan]:
    """Return the smaller fleet and plan; a new group has the mean pace and weight of its clients, and the laws of one.

    If nobody waits, the mean rate preserves the throughput; if tasks queue, the mean time preserves the load.
    """
    weight = np.bincount(label, fleet.count)

    def mean(values: Floats) -> Floats:
        return np.asarray(np.bincount(label, fleet.count * values) / weight)

    one = np.unique(label, return_index=True)[1]
    columns: dict[str, Any] = {
        key: tuple(getattr(fleet, key)[g] for g in one) for key in ("name", "law", "uplink_law", "downlink_law")
    }
    with np.errstate(divide="ignore"):
        columns |= {key: 1 / mean(1 / getattr(fleet, key)) for key in ("rate", "uplink_rate", "downlink_rate")}
    if plan.one_each:
        columns["rate"] = mean(fleet.rate)
    columns |= {key: mean(getattr(fleet, key)) for key in ("data_size", "power", "uplink_power", "downlink_power")}
    smaller = replace(fleet, count=count, **columns)
    drawn = Plan.weighted(smaller, mean(plan.sampling), tasks, cap=plan.cap[one])
    return smaller, replace(drawn, correction=plan.correction, buffer=plan.buffer, schedule=plan.schedule)


def _pace(fleet: Fleet) -> Floats:
    """Return how many tasks per second a client of each group completes if it always has one."""
    return np.asarray(1 / (1 / fleet.rate + fleet.link_time))


def speed_groups(fleet: Fleet, most: int = SPEEDS) -> Integers:
    """Return the speed group of every group: the group itself or, if there are many, one of a few equally large ones.

    >>> speed_groups(Fleet.of_rates([1.0, 5.0, 2.0, 4.0, 3.0, 6.0]), most=3).tolist()
    [0, 2, 0, 1, 1, 2]
    """
    if fleet.groups <= most:
        return np.arange(fleet.groups)
    order = np.argsort(_pace(fleet), kind="stable")
    behind = np.cumsum(fleet.count[order]) - fleet.count[order] / 2
    label = np.empty(fleet.groups, dtype=np.int64)
    label[order] = (behind * (most / fleet.clients)).astype(np.int64)
    return np.asarray(np.unique(label, return_inverse=True)[1])
