"""A large fleet as a small one: one client for many, one update for many.

An update of a client that stands for K counts K times, with a variance of noise and offset divided by K; tasks in
flight are K times fewer. That keeps drift, noise and delay in proportion. Groups keep at least a few clients: each
then stands for fewer.

A small fleet scatters more than a large one: predictions are those of a fleet of its size. Where clients send only a
few updates each, it takes 1000 clients; else 400 do (losses of 1000 clients by 400 of them, 60 updates each: within 15%
for most policies, less than chance from trace to trace).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.types import Floats, Integers

CLIENTS = 1000  # of a thinned fleet
FEWER = 400  # of one whose clients send many updates each
MANY = 40  # updates
FEW = 10  # clients that a group keeps at least
TASKS = 10  # tasks in flight that are kept at least
SPEEDS = 5  # speed groups at most


@dataclass(frozen=True, eq=False)
class Thinned:
    """A fleet and a plan, perhaps smaller ones, and what they stand for."""

    fleet: Fleet
    """The fleet that is simulated."""
    plan: Plan
    """The plan for it."""
    share: Floats
    """Weight of each client in the objective (q)."""
    counts: Floats
    """Updates of the real fleet that one of each client stands for."""
    speed: Integers
    """Speed group of each client."""

    @property
    def many(self) -> float:
        """Updates that one stands for, on average over clients."""
        return float((self.counts * self.share).sum())


def thinned(fleet: Fleet, plan: Plan, most: int = CLIENTS, rounds: bool = False) -> Thinned:
    """The fleet as it is up to `most` clients and tasks, a smaller one beyond.

    Rounds keep their size as far as it goes, because the slowest of many takes longer.

    >>> fleet = Fleet.of(fast=(9000, 8.0), slow=(1000, 1.0))
    >>> small = thinned(fleet, Plan.uniform(fleet, 10_000, cap=1))
    >>> small.fleet.clients, small.plan.concurrency, small.many
    (1000, 1000, 10.0)
    """
    n, tasks = fleet.clients, plan.concurrency
    if max(n, tasks) <= most:
        return Thinned(fleet, plan, np.full(n, 1 / n), np.ones(n), speed_groups(fleet)[fleet.group_of_client])
    label, count = _members(fleet, most) if n > most else (np.arange(fleet.groups), fleet.count)
    stands = np.bincount(label, fleet.count) / count  # clients that one stands for, by group
    small = int(count.sum())
    held = small if tasks == n else max(1, round(tasks * most / max(n, tasks)))
    held = min(tasks, small) if rounds else max(held, min(tasks, TASKS))
    merged = n / small if tasks == n else tasks / held
    smaller, drawn = _smaller(fleet, plan, label, count, min(held, small) if plan.one_each else held)
    group = smaller.group_of_client
    evenly = merged * stands / (n / small)
    return Thinned(smaller, drawn, (stands / n)[group], evenly[group], speed_groups(smaller)[group])


def _members(fleet: Fleet, most: int) -> tuple[Integers, Integers]:
    """New group of every group, and the clients of each: groups as they are, or clients in the order of their speed."""
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
    """Each new group has the mean pace and weight of its clients, and the laws of one of them.

    Where nobody waits the mean rate keeps the throughput; where tasks queue the mean time keeps the load.
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
    """Tasks that a client of each group gets through per unit of time, when it always has one."""
    return np.asarray(1 / (1 / fleet.rate + fleet.link_time))


def speed_groups(fleet: Fleet, most: int = SPEEDS) -> Integers:
    """Speed group of every group of the fleet: its own, or, where there are many, one of a few with as many clients.

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
