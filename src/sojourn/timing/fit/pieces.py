"""A trace piece by piece, from memory or from its file; the time that it spans; rows that cannot be."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.trace import COLUMNS, Trace, scan


def pieces_of(trace: Trace | str | Path, size: int) -> Iterator[Trace]:
    """Pieces of at most `size` rows."""
    if not isinstance(trace, Trace):
        yield from scan(trace, size)
    elif len(trace) <= size:
        yield trace
    else:
        for begin in range(0, len(trace), size):
            columns = {key: getattr(trace, key)[begin : begin + size] for key in COLUMNS}
            yield Trace(**columns, metadata=trace.metadata)


def span_of(piece: Trace) -> tuple[float, float]:
    """First and last moment; (inf, -inf) where there is none."""
    times = [piece.dispatched_at, piece.started_at, piece.finished_at, piece.applied_at]
    known = [column[np.isfinite(column)] for column in times]
    return min(column.min(initial=np.inf) for column in known), max(column.max(initial=-np.inf) for column in known)


def begin_of(trace: Trace | str | Path, latest: float, size: int) -> float:
    """Where the last part, `latest` of a trace's time, begins; -inf = all of it counts."""
    if latest >= 1:
        return -np.inf
    spans = [span_of(piece) for piece in pieces_of(trace, size)]
    first, last = min(span[0] for span in spans), max(span[1] for span in spans)
    return last - latest * (last - first) if np.isfinite(last) else -np.inf


def check(piece: Trace, fleet: Fleet | None, before: int) -> None:
    """Refuse client numbers and times that cannot be; `before` counts the rows of earlier pieces."""
    limit = np.inf if fleet is None else fleet.clients
    wrong = (piece.client < 0) | (piece.client >= limit)
    if wrong.any():
        bad = int(np.argmax(wrong))
        rule = "at least 0" if fleet is None else f"from 0 to {fleet.clients - 1}, as in the fleet"
        raise InvalidInput(
            f"client numbers must be {rule}, got {piece.client[bad]} in row {before + bad}; "
            "give the fleet that this trace was recorded with, or none"
        )
    for key in ("started_at", "finished_at", "applied_at"):
        endless = np.isinf(getattr(piece, key))
        if endless.any():
            bad = int(np.argmax(endless))
            raise InvalidInput(
                f"{key} must be finite, or NaN for not yet, got {getattr(piece, key)[bad]} in row {before + bad}"
            )
