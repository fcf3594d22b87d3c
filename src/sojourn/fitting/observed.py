"""One pass over a trace: durations summed by client, those still running, and a fair sample of the rest.

Sums use every row. A law needs single durations; of these each unit (client or group) keeps those with the smallest
random keys, which is a uniform sample without replacement whatever the length of the trace and of its pieces.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.trace import APPLIED, COLUMNS, IN_FLIGHT, Trace, scan

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

KEPT = 20_000
BUDGET = 2_000_000  # kept durations over all units
FEWEST_KEPT = 20
PIECE = 1_000_000


class Kept(NamedTuple):
    """Single durations, in random order within each unit."""

    unit: Integers
    value: Floats
    began: Floats
    work: Floats
    key: Floats

    def at(self, picked: NDArray[Any]) -> "Kept":
        """Some of them."""
        return Kept(*[column[picked] for column in self])

    def followed_by(self, more: "Kept") -> "Kept":
        """These and others."""
        return Kept(*[np.concatenate(pair) for pair in zip(self, more, strict=True)])


@dataclass(frozen=True)
class Durations:
    """What was observed of one kind of duration (service or uplink), for each client or kept row."""

    finished: Integers
    """Finished durations of each client."""
    total: Floats
    """Their sum, each divided by its work."""
    work: Floats
    """Sum of the work of each client's finished rows."""
    kept: Kept
    """A uniform sample of the finished durations of each unit."""
    running: Integers
    """Clients of the durations that were still running at the end, one entry each."""
    age: Floats
    """How long these had been running, divided by their work."""


@dataclass(frozen=True)
class Observed:
    """A trace, reduced to what a fit needs."""

    clients: int
    last: float
    rows: int
    skipped: int
    """Rows whose service has no beginning or no end and is not running either: lost, dropped or refused on the way."""
    service: Durations
    uplink: Durations


def observe(trace: Trace | str | Path, fleet: Fleet | None, unit_is_group: bool) -> Observed:
    """Read a trace, from memory or piece by piece from a file."""
    pieces = _cut(trace) if isinstance(trace, Trace) else scan(trace, PIECE)
    group = fleet.group_of_client if fleet is not None and unit_is_group else None
    service, uplink = _Gathering(group, 1), _Gathering(group, 2)
    clients = 0 if fleet is None else fleet.clients
    last, rows, skipped = -np.inf, 0, 0
    for piece in pieces:
        _check(piece, fleet, rows)
        known = 0 if fleet is not None else int(piece.metadata.get("clients", 0))
        clients = max(clients, known, int(piece.client.max(initial=-1)) + 1)
        for column in (piece.dispatched_at, piece.started_at, piece.finished_at, piece.applied_at):
            last = max(last, float(np.max(column, initial=-np.inf, where=np.isfinite(column))))
        began, ended = np.isfinite(piece.started_at), np.isfinite(piece.finished_at)
        inside = piece.fate == IN_FLIGHT
        skipped += int((began != ended)[~inside].sum() + (ended & ~began & inside).sum())
        service.add(piece, "started_at", "finished_at", began & ended, began & ~ended & inside, rows, clients)
        applied = ended & np.isfinite(piece.applied_at) & (piece.fate == APPLIED)
        uplink.add(piece, "finished_at", "applied_at", applied, ended & inside, rows, clients)
        rows += len(piece)
    if rows == 0:
        raise InvalidInput("a fit needs a trace with at least one row, got an empty trace; record or simulate one")
    return Observed(clients, last, rows, skipped, service.done(clients, last), uplink.done(clients, last))


def _cut(trace: Trace) -> Iterator[Trace]:
    if len(trace) <= PIECE:
        yield trace
        return
    for begin in range(0, len(trace), PIECE):
        columns = {key: getattr(trace, key)[begin : begin + PIECE] for key in COLUMNS}
        yield Trace(**columns, metadata=trace.metadata)


def _check(piece: Trace, fleet: Fleet | None, before: int) -> None:
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


class _Gathering:
    """Durations of one kind, collected piece by piece."""

    def __init__(self, group: Integers | None, stream: int) -> None:
        self._group = group
        self._rng = np.random.default_rng([0, stream])
        self._finished, self._total, self._work = np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0)
        empty = np.zeros(0)
        self._kept = Kept(np.zeros(0, dtype=np.int64), empty, empty, empty, empty)
        self._edge = np.zeros(0)  # largest key that a unit may still keep
        self._running: list[tuple[Integers, Floats, Floats]] = []

    def add(
        self, piece: Trace, begin: str, end: str, finished: Flags, running: Flags, before: int, clients: int
    ) -> None:
        value = (getattr(piece, end) - getattr(piece, begin))[finished]
        if (value < 0).any():
            row = int(np.flatnonzero(finished)[np.argmax(value < 0)])
            raise InvalidInput(
                f"{end} must not be before {begin}, got {getattr(piece, end)[row]} before {getattr(piece, begin)[row]} "
                f"in row {before + row}; the clock went backwards: correct the trace or drop the row"
            )
        client = piece.client[finished].astype(np.int64)
        steps = np.maximum(piece.work[finished], 1).astype(np.float64) if begin == "started_at" else np.ones(value.size)
        value /= steps
        self._finished = _longer(self._finished, clients) + np.bincount(client, minlength=clients)
        self._total = _longer(self._total, clients) + np.bincount(client, value, clients)
        self._work = _longer(self._work, clients) + np.bincount(client, steps, clients)
        still = piece.work[running].astype(np.float64) if begin == "started_at" else np.ones(int(running.sum()))
        self._running.append((piece.client[running].astype(np.int64), getattr(piece, begin)[running], still))
        unit = client if self._group is None else self._group[client]
        units = clients if self._group is None else int(self._group[-1]) + 1
        rows = Kept(unit, value, getattr(piece, begin)[finished], steps, self._rng.random(value.size))
        self._keep(rows if begin == "started_at" else rows.at(value > 0), units)  # most traces have no uplinks

    def _keep(self, new: Kept, units: int) -> None:
        """Keep the rows with the smallest keys of each unit."""
        most = int(np.clip(BUDGET // max(units, 1), FEWEST_KEPT, KEPT))
        edge = np.ones(units)
        edge[: self._edge.size] = self._edge
        near = new.key < edge[new.unit]
        rows = self._kept.followed_by(new.at(near))
        order = np.argsort(rows.unit + rows.key)
        unit = rows.unit[order]
        rank = np.arange(unit.size) - np.searchsorted(unit, unit, side="left")
        self._kept = rows.at(order[rank < most])
        full = rank == most - 1
        edge[unit[full]] = rows.key[order][full]
        self._edge = edge

    def done(self, clients: int, last: float) -> Durations:
        """The durations; a row that was still running is held to have the mean work, unless it says more than 1."""
        work, finished = _longer(self._work, clients), _longer(self._finished, clients)
        mean_work = work.sum() / max(1, finished.sum())
        running = np.concatenate([client for client, _, _ in self._running])
        began = np.concatenate([moments for _, moments, _ in self._running])
        said = np.concatenate([steps for _, _, steps in self._running])
        age = (last - began) / np.where(said > 1, said, max(1.0, mean_work))
        return Durations(finished, _longer(self._total, clients), work, self._kept, running, age)


def _longer(column: NDArray[Any], size: int) -> NDArray[Any]:
    return np.concatenate([column, np.zeros(size - column.size, dtype=column.dtype)])


def by_group(durations: Durations, group: Integers) -> Durations:
    """The same durations, added up over the clients of each group."""
    size = int(group[-1]) + 1

    def add(column: NDArray[Any]) -> Floats:
        return np.bincount(group, column, size).astype(np.float64)

    return Durations(
        add(durations.finished).astype(np.int64),
        add(durations.total),
        add(durations.work),
        durations.kept,
        group[durations.running],
        durations.age,
    )
