"""Read a trace once: sum the durations by client, and keep those not seen to their end and a fair sample of both.

Pieces come from memory or from a file; impossible rows raise an error.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.timing.fit.downlinks import Downlinks, Flight
from sojourn.timing.fit.durations import Counts, Durations
from sojourn.timing.fit.ends import Line, Scene, clients_of, ends_of, later, most_clients, uplinks_of
from sojourn.timing.fit.gathering import Gathering
from sojourn.trace import COLUMNS, Trace, metadata_of, scan

PIECE = 100_000  # rows that are read at a time


@dataclass(frozen=True)
class Observed:
    """A trace, reduced to what a fit needs."""

    clients: int
    since: float
    """Time at which the fitted part of the trace begins."""
    last: float
    rows: int
    skipped: int
    """Rows whose service has no start or no end, and which do not state when they were over."""
    doubtful: int
    """Lost rows of an old trace, which does not state whether they had finished."""
    scene: Scene
    service: Durations
    uplink: Durations
    downlink: Durations
    """Of tasks that were sent to a client without other tasks."""
    flight: Flight
    """Tasks in flight, and all tasks that were sent to a client without other tasks."""
    waits: str
    """What a finished update waits for besides its uplink; empty = nothing."""
    counts: Counts | None
    """Local steps by periodic calls, if a task has several; then `service` is not used."""

    @property
    def excess(self) -> float:
        """Factor by which the variance of counts exceeds that of exponential service; 1 = there are no counts."""
        return 1.0 if self.counts is None else max(1.0, self.counts.dispersion()[0])


class Observing:
    """Reduces a trace to what a fit needs, piece by piece: memory grows with the clients and the tasks in flight."""

    def __init__(self, fleet: Fleet | None, unit_is_group: bool, since: float = -np.inf) -> None:
        self._fleet, self._since = fleet, since
        group = fleet.group_of_client if fleet is not None and unit_is_group else None
        self._service, self._uplink, self._downlink = (Gathering(group, stream) for stream in (1, 2, 3))
        self._downlinks, self._flight = Downlinks(), Flight(group)
        self._counts, self._line, self._scene = Counts.none(), Line(), Scene()
        self._clients = 0 if fleet is None else fleet.clients
        self._first, self._last, self._reached = np.inf, -np.inf, -np.inf
        self._rows = self._skipped = self._doubtful = 0

    def add(self, piece: Trace) -> None:
        """Add the next rows of the trace."""
        check(piece, self._fleet, self._rows)
        known = 0 if self._fleet is not None else clients_of(piece.metadata)
        self._clients = clients = max(self._clients, known, int(piece.client.max(initial=-1)) + 1)
        begin, end = span_of(piece)
        self._first = min(self._first, begin)
        self._scene, late = Scene.of(piece.metadata), piece.started_at >= self._since
        self._last = max(self._last, end, self._scene.until)
        ends = later(ends_of(piece, self._scene, self._reached), late)
        self._skipped, self._doubtful = self._skipped + ends.untold, self._doubtful + ends.doubtful
        self._service.add(piece, "started_at", "finished_at", ends, self._rows, clients)
        self._uplink.add(piece, "finished_at", "applied_at", uplinks_of(piece, late), self._rows, clients)
        alone = self._downlinks.alone(piece, self._scene, clients)
        self._flight.add(piece, alone, clients)
        sent = self._downlinks.of(piece, self._scene, self._since, alone)
        self._downlink.add(piece, "dispatched_at", "started_at", sent, self._rows, clients)
        if self._scene.dispatcher == "periodic":
            self._counts = self._counts.plus(piece, ends, clients, self._scene.local_steps)
        self._line.add(piece)
        known_end = np.isfinite(piece.applied_at)
        self._reached = max(self._reached, float(np.max(piece.applied_at, initial=-np.inf, where=known_end)))
        self._rows += len(piece)

    def done(self) -> Observed:
        """Return what was observed."""
        if self._rows == 0:
            raise InvalidInput("a fit needs a trace with at least one row, got an empty trace; record or simulate one")
        clients, last, scene = self._clients, self._last, self._scene
        links = self._uplink.done(clients, last)
        return Observed(
            *(clients, max(self._first, self._since), last, self._rows, self._skipped, self._doubtful, scene),
            *(self._service.done(clients, last), links),
            downlink=self._downlink.done(clients, last),
            flight=self._flight,
            waits=scene.waits or _line(scene, self._line, links),
            counts=self._counts if self._counts.several else None,
        )


def observe(trace: Trace | str | Path, fleet: Fleet | None, unit_is_group: bool, latest: float = 1.0) -> Observed:
    """Read a trace, from memory or piece by piece from a file; `latest` is the last part of its time that counts."""
    seen = Observing(fleet, unit_is_group, begin_of(trace, latest, PIECE))
    for piece in pieces_of(trace, PIECE):
        seen.add(piece)
    return seen.done()


def _line(scene: Scene, line: Line, links: Durations) -> str:
    """Detect a server queue that a trace does not state: updates differ in time and never overtake each other."""
    differ = np.ptp(links.kept.value) > 1e-6 * links.kept.value.max() if links.kept.value.size else False
    return "a server that applies them one after the other" if line.formed and differ and not scene.says_server else ""


def facts_of(trace: Any) -> Mapping[str, Any]:
    """Return the metadata of a trace, of its file, or of something else with pieces; no rows are read."""
    return metadata_of(trace) if isinstance(trace, str | Path) else trace.metadata


def pieces_of(trace: Trace | str | Path, size: int) -> Iterator[Trace]:
    """Yield pieces of at most `size` rows; something else than a trace or a file has a function `pieces` of its own."""
    if hasattr(trace, "pieces"):
        yield from trace.pieces(size)
    elif not isinstance(trace, Trace):
        yield from scan(trace, size)
    elif len(trace) <= size:
        yield trace
    else:
        for begin in range(0, len(trace), size):
            columns = {key: getattr(trace, key)[begin : begin + size] for key in COLUMNS}
            yield Trace(**columns, metadata=trace.metadata)


def span_of(piece: Trace) -> tuple[float, float]:
    """Return the first and last moment; (inf, -inf) if there is none."""
    times = [piece.dispatched_at, piece.started_at, piece.finished_at, piece.applied_at]
    known = [column[np.isfinite(column)] for column in times]
    return min(column.min(initial=np.inf) for column in known), max(column.max(initial=-np.inf) for column in known)


def begin_of(trace: Trace | str | Path, latest: float, size: int) -> float:
    """Return when the last part, `latest` of a trace's time, begins; -inf = all of it counts."""
    if latest >= 1:
        return -np.inf
    spans = [span_of(piece) for piece in pieces_of(trace, size)]
    first, last = min(span[0] for span in spans), max(span[1] for span in spans)
    return last - latest * (last - first) if np.isfinite(last) else -np.inf


def check(piece: Trace, fleet: Fleet | None, before: int) -> None:
    """Raise an error for impossible client numbers and times; `before` counts the rows of earlier pieces."""
    limit = most_clients(piece.metadata) if fleet is None else fleet.clients
    check_clients(piece, limit, before, fleet is not None)
    for key in ("started_at", "finished_at", "applied_at"):
        endless = np.isinf(getattr(piece, key))
        if endless.any():
            bad = int(np.argmax(endless))
            raise InvalidInput(
                f"{key} must be finite, or NaN for not yet, got {getattr(piece, key)[bad]} in row {before + bad}"
            )


def check_clients(piece: Trace, limit: int, before: int, given: bool) -> None:
    """Raise an error for clients that are not numbered from 0 to below a limit, which a fleet has `given` or not."""
    wrong = (piece.client < 0) | (piece.client >= limit)
    if wrong.any():
        bad = int(np.argmax(wrong))
        rule, other = (", as in the fleet", ", or none") if given else ("", "")
        raise InvalidInput(
            f"client numbers must be from 0 to {limit - 1}{rule}, got {piece.client[bad]} in row {before + bad}; "
            f"give the fleet with which this trace was recorded{other}"
        )
