"""Links as a trace shows them: what a task spends on its way to its client.

Seen are the tasks that were sent to a client without other tasks (see `sojourn.timing.fit.downlinks`). If a later task
overtakes one of them, as for exponential times what was seen counts and the task does not. To the mean is added what
the server itself takes between the end of one task and the dispatch of the next one, when no client works on the task
either.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from sojourn.fleet import Fleet
from sojourn.timing.fit.downlinks import sent_alone
from sojourn.timing.fit.observed import PIECE, pieces_of, span_of
from sojourn.trace import IN_FLIGHT, Trace
from sojourn.types import Floats

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
        alone, began, whole = sent_alone(piece, busy)
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
