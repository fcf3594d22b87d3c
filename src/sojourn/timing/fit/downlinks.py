"""Downlinks of a trace: how long tasks were on their way to their clients, and how many tasks were in flight.

Downlink and waiting cannot be told apart in general, but a task that was sent to a client without other tasks did not
wait: its time from dispatch to service is the downlink. If a later task overtakes it, it was still on its way when that
one began, and no more is known.
"""

from typing import NamedTuple

import numpy as np

from sojourn.dispatching import QUEUED
from sojourn.timing.fit.ends import Ends, Scene
from sojourn.timing.fit.gathering import longer
from sojourn.trace import IN_FLIGHT, Trace
from sojourn.types import Flags, Floats, Integers


class Alone(NamedTuple):
    """The tasks of a piece that found their client without other tasks."""

    row: Integers
    """Their rows."""
    until: Floats
    """Until when they were surely on their way."""
    arrived: Flags
    """Whether they arrived then."""


class Flight:
    """Sums over the tasks of a trace: how long those sent alone were on their way, and how many were in flight."""

    def __init__(self, group: Integers | None) -> None:
        self._group = group
        self.arrived, self.on_way = np.zeros(0), np.zeros(0)
        """Tasks sent alone that arrived, and seconds that all sent alone were on their way; by unit."""
        self.ended, self._held = 0, 0.0
        self._open: list[Floats] = []

    def add(self, piece: Trace, alone: Alone, clients: int) -> None:
        """Add the rows of a piece."""
        units = clients if self._group is None else int(self._group[-1]) + 1
        client = piece.client[alone.row].astype(np.int64)
        unit = client if self._group is None else self._group[client]
        self.arrived = longer(self.arrived, units) + np.bincount(unit, alone.arrived, units)
        took = alone.until - piece.dispatched_at[alone.row]
        self.on_way = longer(self.on_way, units) + np.bincount(unit, took, units)
        over = np.isfinite(piece.applied_at)
        self._held += float((piece.applied_at - piece.dispatched_at)[over].sum())
        self.ended += int(over.sum())
        self._open.append(piece.dispatched_at[~over & (piece.fate == IN_FLIGHT)])

    def held(self, last: float) -> float:
        """Return the seconds that all tasks were in flight until the end of the trace, added up."""
        return self._held + sum(float((last - sent).sum()) for sent in self._open)


class Downlinks:
    """Finds the downlinks in the pieces of a trace, one piece after the other."""

    def __init__(self) -> None:
        self._busy = np.zeros(0)
        self._first = np.inf

    def alone(self, piece: Trace, scene: Scene, clients: int) -> Alone:
        """Return the tasks of the next piece that were sent alone; none where tasks wait for a round or a call."""
        self._busy = np.concatenate([self._busy, np.full(clients - self._busy.size, -np.inf)])
        if scene.dispatcher in QUEUED:
            return sent_alone(piece, self._busy)
        return Alone(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.bool_))

    def of(self, piece: Trace, scene: Scene, since: float, alone: Alone) -> Ends:
        """Return the downlinks of a piece, of tasks sent at `since` or later; none where clients leave, since tasks
        then also wait until their client is back. The tasks of the first moment are left out, because a simulation
        puts them straight into its clients' hands.
        """
        seen, cut, running = np.zeros((3, len(piece)), np.bool_)
        at = piece.started_at.copy()
        if not scene.leaves:
            self._first = min(self._first, float(piece.dispatched_at.min(initial=np.inf)))
            seen[alone.row], cut[alone.row], at[alone.row] = alone.arrived, ~alone.arrived, alone.until
            late = (piece.dispatched_at >= since) & (piece.dispatched_at > self._first) & (at >= piece.dispatched_at)
            seen, cut = seen & late, cut & late
        return Ends(seen, cut, running, at, np.full(len(piece), np.inf), np.ones(len(piece)), 0, 0)


def sent_alone(piece: Trace, busy: Floats) -> Alone:
    """Return the tasks that found their client without other tasks, and note in `busy` until when clients work."""
    end = np.where(np.isfinite(piece.finished_at), piece.finished_at, piece.applied_at)
    end = np.where(np.isfinite(end), end, np.inf)
    start = np.where(np.isfinite(piece.started_at), piece.started_at, np.inf)
    order = _by_client(piece)
    client = piece.client[order].astype(np.int64)
    free, rival = np.empty(client.size), np.empty(client.size)
    free[order] = np.maximum(busy[client], _largest_before(end[order], client))
    rival[order] = -_largest_before(-start[order][::-1], client[::-1])[::-1]
    np.maximum.at(busy, client, end[order])
    began = np.minimum(start, rival)
    alone = np.flatnonzero((piece.dispatched_at >= free) & np.isfinite(began))
    return Alone(alone, began[alone], start[alone] <= rival[alone])


def _by_client(piece: Trace) -> Integers:
    """Return the order by client and dispatch; rows of a client mostly have it already, and need not be sorted."""
    small = piece.client.min(initial=0) >= 0 and piece.client.max(initial=0) < 1 << 16
    order = np.argsort(piece.client.astype(np.uint16) if small else piece.client, kind="stable")
    client, sent = piece.client[order], piece.dispatched_at[order]
    if ((sent[1:] >= sent[:-1]) | (client[1:] != client[:-1])).all():
        return order
    return np.lexsort((piece.dispatched_at, piece.client))


def _largest_before(value: Floats, run: Integers) -> Floats:
    """Return the largest of the values before each one in its run, -inf = it is the first; equal runs stand together.

    >>> _largest_before(np.array([2.0, 5.0, 3.0, 1.0, 0.0]), np.array([7, 7, 7, 4, 4]))
    array([-inf,   2.,   5., -inf,   1.])
    """
    same = run[1:] == run[:-1]
    before = np.full(value.size, -np.inf)
    before[1:][same] = value[:-1][same]
    falls = same & ~(value[1:] >= value[:-1])
    if falls.any():  # in most runs values only grow
        number = np.concatenate([[0], np.cumsum(~same)])
        fallen = np.zeros(int(number[-1]) + 1, np.bool_)
        fallen[number[1:][falls]] = True
        mixed = fallen[number]
        before[mixed] = _sorted_before(value[mixed], number[mixed])
    return before


def _sorted_before(value: Floats, run: Integers) -> Floats:
    """Return the same for any runs, numbered in their order."""
    order = np.argsort(value, kind="stable")
    rank = np.empty(value.size, np.int64)
    rank[order] = np.arange(value.size)
    ahead = run * value.size  # so that no value of an earlier run counts
    largest = value[order][np.maximum.accumulate(ahead + rank) - ahead]
    same = run[1:] == run[:-1]
    before = np.full(value.size, -np.inf)
    before[1:][same] = largest[:-1][same]
    return before
