"""Read a trace once: sum the durations by client, and keep those not seen to their end and a fair sample of both.

Sums use every row. A law needs single durations; of these each unit (client or group) keeps those with the smallest
random keys, which is a uniform sample without replacement whatever the length of the trace and of its pieces.
Pieces come from memory or from a file; impossible rows raise an error.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.timing.fit.downlinks import Downlinks
from sojourn.timing.fit.durations import Counts, Durations, Kept
from sojourn.timing.fit.ends import Ends, Line, Scene, ends_of, later, uplinks_of
from sojourn.trace import COLUMNS, Trace, scan
from sojourn.types import Flags, Floats, Integers

KEPT = 20_000
BUDGET = 2_000_000  # kept durations over all units
FEWEST_KEPT = 20
PIECE = 1_000_000


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
    waits: str
    """What a finished update waits for besides its uplink; empty = nothing."""
    counts: Counts | None
    """Local steps by periodic calls, if a task has several; then `service` is not used."""

    @property
    def excess(self) -> float:
        """Factor by which the variance of counts exceeds that of exponential service; 1 = there are no counts."""
        return 1.0 if self.counts is None else max(1.0, self.counts.dispersion()[0])


def observe(trace: Trace | str | Path, fleet: Fleet | None, unit_is_group: bool, latest: float = 1.0) -> Observed:
    """Read a trace, from memory or piece by piece from a file; `latest` is the last part of its time that counts."""
    since = begin_of(trace, latest, PIECE)
    group = fleet.group_of_client if fleet is not None and unit_is_group else None
    service, uplink, counts, line = _Gathering(group, 1), _Gathering(group, 2), Counts.none(), Line()
    downlink, downlinks = _Gathering(group, 3), Downlinks()
    clients = 0 if fleet is None else fleet.clients
    first, last, rows, skipped, doubtful, reached, scene = np.inf, -np.inf, 0, 0, 0, -np.inf, Scene()
    for piece in pieces_of(trace, PIECE):
        check(piece, fleet, rows)
        known = 0 if fleet is not None else int(piece.metadata.get("clients", 0))
        clients = max(clients, known, int(piece.client.max(initial=-1)) + 1)
        begin, end = span_of(piece)
        first, last = min(first, begin), max(last, end, float(piece.metadata.get("recorded_until", -np.inf)))
        scene, late = Scene.of(piece.metadata), piece.started_at >= since
        ends = later(ends_of(piece, scene, reached), late)
        skipped, doubtful = skipped + ends.untold, doubtful + ends.doubtful
        service.add(piece, "started_at", "finished_at", ends, rows, clients)
        uplink.add(piece, "finished_at", "applied_at", uplinks_of(piece, late), rows, clients)
        sent = downlinks.of(piece, scene, since, clients)
        downlink.add(piece, "dispatched_at", "started_at", sent, rows, clients)
        if scene.dispatcher == "periodic":
            counts = counts.plus(piece, ends, clients, scene.local_steps)
        line.add(piece)
        reached = max(reached, float(np.max(piece.applied_at, initial=-np.inf, where=np.isfinite(piece.applied_at))))
        rows += len(piece)
    if rows == 0:
        raise InvalidInput("a fit needs a trace with at least one row, got an empty trace; record or simulate one")
    links = uplink.done(clients, last)
    return Observed(
        *(clients, max(first, since), last, rows, skipped, doubtful, scene, service.done(clients, last), links),
        downlink=downlink.done(clients, last),
        waits=scene.waits or _line(scene, line, links),
        counts=counts if counts.several else None,
    )


def _line(scene: Scene, line: Line, links: Durations) -> str:
    """Detect a server queue that a trace does not state: updates differ in time and never overtake each other."""
    differ = np.ptp(links.kept.value) > 1e-6 * links.kept.value.max() if links.kept.value.size else False
    return "a server that applies them one after the other" if line.formed and differ and not scene.says_server else ""


class _Gathering:
    """Durations of one kind, collected piece by piece."""

    def __init__(self, group: Integers | None, stream: int) -> None:
        self._group = group
        self._rng = np.random.default_rng([0, stream])
        self._finished, self._total, self._work = np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0)
        self._kept, self._cut = _Sample(), _Sample()
        self._cuts, self._cut_age = np.zeros(0, dtype=np.int64), np.zeros(0)  # sums over all of them, by unit
        self._running: list[tuple[Integers, Floats, Floats]] = []
        self._unfinished = np.zeros(0, dtype=np.int64)

    def add(self, piece: Trace, begin: str, end: str, ends: Ends, before: int, clients: int) -> None:
        """Add the rows of a piece."""
        started = getattr(piece, begin)
        whole = ends.finished | ends.cut
        early = whole & (ends.at < started)
        if early.any():
            row = int(np.argmax(early))
            raise InvalidInput(
                f"{end} must not be before {begin}, got {ends.at[row]} before {started[row]} in row {before + row}; "
                "the clock went backwards: correct the trace or drop the row"
            )
        units = clients if self._group is None else int(self._group[-1]) + 1
        rows = self._rows(piece, started, ends, ends.finished)
        client = piece.client[ends.finished]
        self._finished = _longer(self._finished, clients) + np.bincount(client, minlength=clients)
        self._total = _longer(self._total, clients) + np.bincount(client, rows.value, clients)
        self._work = _longer(self._work, clients) + np.bincount(client, rows.work, clients)
        self._kept.add(rows if begin == "started_at" else rows.at(rows.value > 0), units)  # most traces have no uplinks
        unseen = piece.client[ends.cut | ends.running]
        self._unfinished = _longer(self._unfinished, clients) + np.bincount(unseen, minlength=clients)
        if ends.cut.any():
            cut = self._rows(piece, started, ends, ends.cut)
            self._cuts = _longer(self._cuts, units) + np.bincount(cut.unit, minlength=units)
            self._cut_age = _longer(self._cut_age, units) + np.bincount(cut.unit, cut.value, units)
            self._cut.add(cut, units)
        self._running.append((self._unit(piece, ends.running), started[ends.running], ends.steps[ends.running]))

    def _unit(self, piece: Trace, picked: Flags) -> Integers:
        client = piece.client[picked].astype(np.int64)
        return client if self._group is None else self._group[client]

    def _rows(self, piece: Trace, started: Floats, ends: Ends, picked: Flags) -> Kept:
        steps = np.maximum(ends.steps[picked], 1)
        value = (ends.at - started)[picked] / steps
        unit = self._unit(piece, picked)
        return Kept(unit, value, started[picked], ends.until[picked], steps, self._rng.random(value.size))

    def done(self, clients: int, last: float) -> Durations:
        """Return the durations; a row that was still running is assumed to have the mean work, unless it has more."""
        work, finished = _longer(self._work, clients), _longer(self._finished, clients)
        mean_work = max(1.0, work.sum() / max(1, finished.sum()))
        unit, began, steps = (np.concatenate(column) for column in zip(*self._running, strict=True))
        age = (last - began) / np.where(steps > 0, steps, mean_work)
        cut = self._cut.rows
        size = int(cut.unit.max(initial=-1)) + 1
        share = self._cuts[:size] / np.maximum(np.bincount(cut.unit, minlength=size), 1)
        mean = np.bincount(cut.unit, cut.value, size) * share
        right = np.where(
            mean > 0, self._cut_age[:size] / np.where(mean > 0, mean, 1.0), 1.0
        )  # scales the kept ages to the known sum
        return Durations(
            *(finished, _longer(self._total, clients), work, self._kept.rows, _longer(self._unfinished, clients)),
            running=np.concatenate([unit, cut.unit]),
            age=np.concatenate([age, cut.value * right[cut.unit]]),
            began=np.concatenate([began, cut.began]),
            weight=np.concatenate([np.ones(age.size), share[cut.unit]]),
            cut=np.arange(age.size + cut.unit.size) >= age.size,
        )


class _Sample:
    """A uniform sample of rows for each unit: those with the smallest keys."""

    def __init__(self) -> None:
        empty = np.zeros(0)
        self.rows = Kept(np.zeros(0, dtype=np.int64), empty, empty, empty, empty, empty)
        self._edge = np.zeros(0)  # largest key that a unit may still keep

    def add(self, new: Kept, units: int) -> None:
        """Keep the rows with the smallest keys of each unit."""
        most = int(np.clip(BUDGET // max(units, 1), FEWEST_KEPT, KEPT))
        edge = np.ones(units)
        edge[: self._edge.size] = self._edge
        near = new.key < edge[new.unit]
        rows = self.rows.followed_by(new.at(near))
        order = np.argsort(rows.unit + rows.key)
        unit = rows.unit[order]
        rank = np.arange(unit.size) - np.searchsorted(unit, unit, side="left")
        self.rows = rows.at(order[rank < most])
        full = rank == most - 1
        edge[unit[full]] = rows.key[order][full]
        self._edge = edge


def _longer(column: NDArray[Any], size: int) -> NDArray[Any]:
    return np.concatenate([column, np.zeros(size - column.size, dtype=column.dtype)])


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
    limit = np.inf if fleet is None else fleet.clients
    wrong = (piece.client < 0) | (piece.client >= limit)
    if wrong.any():
        bad = int(np.argmax(wrong))
        rule = "at least 0" if fleet is None else f"from 0 to {fleet.clients - 1}, as in the fleet"
        raise InvalidInput(
            f"client numbers must be {rule}, got {piece.client[bad]} in row {before + bad}; "
            "give the fleet with which this trace was recorded, or none"
        )
    for key in ("started_at", "finished_at", "applied_at"):
        endless = np.isinf(getattr(piece, key))
        if endless.any():
            bad = int(np.argmax(endless))
            raise InvalidInput(
                f"{key} must be finite, or NaN for not yet, got {getattr(piece, key)[bad]} in row {before + bad}"
            )
