"""Links as a trace shows them: what a task spends on its way to its client.

Downlink and waiting cannot be told apart in general, but a task that was sent to a client without other tasks did not
wait: its time from dispatch to service is the downlink. If a later task overtakes it, it was still on its way when that
one began, and no more is known: as for exponential times, what was seen counts and the task does not. To the mean is
added what the server itself takes between the end of one task and the dispatch of the next one, when no client works on
the task either.
"""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from sojourn.fleet import Fleet
from sojourn.timing.fit.observed import PIECE, pieces_of, span_of
from sojourn.trace import IN_FLIGHT, Trace
from sojourn.types import Flags, Floats, Integers

NOISE = 1e-9  # part of a service time below which a delay is rounding


def with_downlinks(fleet: Fleet, trace: Trace | str | Path, concurrency: int) -> tuple[Fleet, float]:
    """Return the fleet with the downlinks that a trace shows, and the mean number of tasks in flight.

    A group that never got a task while idle keeps the downlink of the given fleet.
    """
    seen, total = np.zeros(fleet.groups), np.zeros(fleet.groups)
    busy = np.full(fleet.clients, -np.inf)  # until when each client has work, as far as read
    held, ended, first, last = 0.0, 0, np.inf, -np.inf
    open_at: list[Floats] = []
    for piece in pieces_of(trace, PIECE):
        alone, began, whole = _alone(piece, busy)
        group = fleet.group_of_client[piece.client[alone]]
        seen += np.bincount(group, whole, fleet.groups)
        total += np.bincount(group, began - piece.dispatched_at[alone], fleet.groups)
        over = np.isfinite(piece.applied_at)
        held += float((piece.applied_at - piece.dispatched_at)[over].sum())
        ended += int(over.sum())
        open_at.append(piece.dispatched_at[~over & (piece.fate == IN_FLIGHT)])
        begin, end = span_of(piece)
        first, last = min(first, begin), max(last, end, float(piece.metadata.get("recorded_until", -np.inf)))
    held += sum(float((last - began).sum()) for began in open_at)
    lasted = last - first
    pause = max(0.0, concurrency * lasted - held) / max(1, ended)
    with np.errstate(invalid="ignore", divide="ignore"):
        delay = np.where(seen > 0, total / seen, 1 / fleet.downlink_rate) + pause
        least = np.maximum(NOISE / fleet.rate, 8 * np.finfo(np.float64).eps * abs(last))
        rate = np.where(delay > least, 1 / delay, np.inf)
    return replace(fleet, downlink_rate=rate), held / lasted if lasted > 0 else float(concurrency)


def _alone(piece: Trace, busy: Floats) -> tuple[Integers, Floats, Flags]:
    """Return the tasks that found their client without other tasks, until when they were surely on their way, and
    whether they arrived then; note in `busy` until when clients work.
    """
    end = np.where(np.isfinite(piece.finished_at), piece.finished_at, piece.applied_at)
    end = np.where(np.isfinite(end), end, np.inf)
    start = np.where(np.isfinite(piece.started_at), piece.started_at, np.inf)
    order = np.lexsort((piece.dispatched_at, piece.client))
    client = piece.client[order]
    edges = np.flatnonzero(np.diff(client, prepend=-1, append=-1))
    free, rival = np.empty(client.size), np.empty(client.size)
    for begin, stop in pairwise(edges.tolist()):
        mine, who = order[begin:stop], client[begin]
        latest = np.maximum.accumulate(np.append(busy[who], end[mine]))
        free[mine], busy[who] = latest[:-1], latest[-1]
        rival[mine] = np.minimum.accumulate(np.append(start[mine], np.inf)[:0:-1])[::-1]
    began = np.minimum(start, rival)
    alone = np.flatnonzero((piece.dispatched_at >= free) & np.isfinite(began))
    return alone, began[alone], start[alone] <= rival[alone]
