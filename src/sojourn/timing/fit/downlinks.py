"""Downlinks of a trace: how long tasks were on their way to their clients.

Downlink and waiting cannot be told apart in general, but a task that was sent to a client without other tasks did not
wait: its time from dispatch to service is the downlink. If a later task overtakes it, it was still on its way when that
one began, and no more is known.
"""

import numpy as np

from sojourn.dispatching import QUEUED
from sojourn.timing.fit.ends import Ends, Scene
from sojourn.trace import Trace
from sojourn.types import Flags, Floats, Integers


class Downlinks:
    """Finds the downlinks in the pieces of a trace, one piece after the other."""

    def __init__(self) -> None:
        self._busy = np.zeros(0)
        self._first = np.inf

    def of(self, piece: Trace, scene: Scene, since: float, clients: int) -> Ends:
        """Return the downlinks of a piece, of tasks sent at `since` or later; none where tasks wait for other things:
        for a round or a call, or until their client is back. The tasks of the first moment are left out, because a
        simulation puts them straight into its clients' hands.
        """
        self._busy = np.concatenate([self._busy, np.full(clients - self._busy.size, -np.inf)])
        seen, cut, running = np.zeros((3, len(piece)), np.bool_)
        at = piece.started_at.copy()
        if scene.dispatcher in QUEUED and not scene.leaves:
            self._first = min(self._first, float(piece.dispatched_at.min(initial=np.inf)))
            alone, until, whole = sent_alone(piece, self._busy)
            seen[alone], cut[alone], at[alone] = whole, ~whole, until
            late = (piece.dispatched_at >= since) & (piece.dispatched_at > self._first) & (at >= piece.dispatched_at)
            seen, cut = seen & late, cut & late
        return Ends(seen, cut, running, at, np.full(len(piece), np.inf), np.ones(len(piece)), 0, 0)


def sent_alone(piece: Trace, busy: Floats) -> tuple[Integers, Floats, Flags]:
    """Return the tasks that found their client without other tasks, until when they were surely on their way, and
    whether they arrived then; note in `busy` until when clients work.
    """
    end = np.where(np.isfinite(piece.finished_at), piece.finished_at, piece.applied_at)
    end = np.where(np.isfinite(end), end, np.inf)
    start = np.where(np.isfinite(piece.started_at), piece.started_at, np.inf)
    order = np.lexsort((piece.dispatched_at, piece.client))
    client = piece.client[order].astype(np.int64)
    free, rival = np.empty(client.size), np.empty(client.size)
    free[order] = np.maximum(busy[client], _largest_before(end[order], client))
    rival[order] = -_largest_before(-start[order][::-1], client[::-1])[::-1]
    np.maximum.at(busy, client, end[order])
    began = np.minimum(start, rival)
    alone = np.flatnonzero((piece.dispatched_at >= free) & np.isfinite(began))
    return alone, began[alone], start[alone] <= rival[alone]


def _largest_before(value: Floats, run: Integers) -> Floats:
    """Return the largest of the values before each one in its run, -inf = it is the first; equal runs stand together.

    >>> _largest_before(np.array([2.0, 5.0, 3.0, 1.0, 0.0]), np.array([7, 7, 7, 4, 4]))
    array([-inf,   2.,   5., -inf,   1.])
    """
    same = run[1:] == run[:-1]
    number = np.concatenate([[0], np.cumsum(~same)])[: value.size]
    order = np.argsort(value, kind="stable")
    rank = np.empty(value.size, np.int64)
    rank[order] = np.arange(value.size)
    ahead = number * value.size  # so that no value of an earlier run counts
    largest = value[order][np.maximum.accumulate(ahead + rank) - ahead]
    before = np.full(value.size, -np.inf)
    before[1:][same] = largest[:-1][same]
    return before
