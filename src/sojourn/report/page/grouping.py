"""Groups of clients for a page: those of the fleet, or classes by speed where there are too many, or none is known.

Theory and digests need groups whose clients are numbered one after the other. Classes by speed are not, so the clients
of a trace are renumbered as it is read.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.cut import cut
from sojourn.errors import InvalidInput
from sojourn.experiments.observe import Known, NoConcurrency, fleet_of, known_of, place_of
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.report.page.parts import MOST_NAMES
from sojourn.scenario import Scenario
from sojourn.timing.fit.ends import MOST_UNTOLD, clients_of
from sojourn.timing.fit.observed import PIECE, check_clients, facts_of, pieces_of
from sojourn.timing.fit.speed_groups import by_means
from sojourn.trace import COLUMNS, Trace
from sojourn.types import Floats, Integers
from sojourn.values import WrongKind

PEEK = 200_000  # rows at the beginning that tell how fast clients are, if nobody says
CLASSES = 5
MOST_LANES = 12
NOT_KNOWN = "the fleet of this trace is not known, so its clients are shown as classes by speed; --fleet names them"


class Renumbered:
    """A trace whose clients have other numbers, in pieces."""

    def __init__(self, trace: Trace | Path, number: Integers) -> None:
        self._trace, self._number = trace, number
        self.metadata = facts_of(trace)

    def pieces(self, size: int) -> Iterator[Trace]:
        """Yield pieces of at most `size` rows."""
        for piece in pieces_of(self._trace, size):
            columns = {key: getattr(piece, key) for key in COLUMNS}
            wrong = (piece.client < 0) | (piece.client >= self._number.size)
            columns["client"] = np.where(wrong, piece.client, self._number[np.where(wrong, 0, piece.client)])
            yield Trace(**columns, metadata=piece.metadata)


@dataclass
class Grouped:
    """A trace, and the groups of its clients."""

    source: Any
    """The trace, its file, or a renumbered one."""
    fleet: Fleet
    """The groups; the rates are those that the run was given, if `given`."""
    plan: Plan | None = None
    """The plan of the run, if it is known."""
    scenario: Scenario | None = None
    """The rest of its timing; None = as the trace says."""
    given: Fleet | None = None
    """The fleet that the run was given."""
    named: Callable[[int], str] = str
    """The name of a client by its number."""
    notes: list[str] = field(default_factory=list)
    """What a reader should know."""

    def pieces(self, size: int = PIECE) -> Iterator[Trace]:
        """Yield the trace in pieces."""
        return pieces_of(self.source, size)

    def lanes(self) -> list[int]:
        """Return a few clients of every group, as many of each as there is room for."""
        room = max(1, MOST_LANES // self.fleet.groups)
        firsts = zip(self.fleet.first_client.tolist(), self.fleet.count.tolist(), strict=True)
        return [client for first, count in firsts for client in range(first, first + min(room, count))][:MOST_LANES]


def grouped(
    trace: Any, fleet: Any = None, plan: Any = None, groups: Fleet | None = None, folder: Path | None = None
) -> Grouped:
    """Find the groups of a trace, of its file, or of the folder of a run.

    `fleet` and `plan` are those of the run, or their files. `groups` has the names and sizes of the groups, if nothing
    else is known of the fleet. `folder` is that of the run, if the trace is not in it.
    """
    try:
        source, known, notes = known_of(trace, fleet if groups is None else groups, plan, folder=folder)
    except NoConcurrency:  # the comparison with theory is left out, and says so
        source = trace if isinstance(trace, Trace) else place_of(trace)[0]
        known, notes = Known(fleet_of(fleet)), []
    except InvalidInput as error:
        if fleet is not None or plan is not None:
            raise
        source, known, notes = trace, Known(), [str(error)]
    if groups is not None:
        known = known._replace(given=None)
    metadata = facts_of(source)
    if known.fleet is not None and known.fleet.groups <= MOST_NAMES:
        return Grouped(
            source, known.fleet, known.plan, known.scenario, known.given, _named(metadata, known.fleet), notes
        )
    if known.fleet is not None:
        label, rate = _by_rate(known.fleet)
        many = f"the {known.fleet.groups:,} groups of the fleet are shown as {label.max() + 1} classes by speed"
        notes.append(f"{many}; class 1 is the fastest, and theory takes the clients of a class as equal")
    else:
        label, rate = _by_looking(source, _clients(source, metadata))
        notes = [note for note in notes if "uniform sampling is assumed" not in note]
        notes.append(f"{NOT_KNOWN}, and uniform sampling without a cap is assumed")
    return _classes(source, known, label, rate, _named(metadata, known.fleet), notes)


def _classes(source: Any, known: Known, label: Integers, rate: Floats, named: Any, notes: list[str]) -> Grouped:
    order = np.argsort(label, kind="stable")
    number = np.empty(label.size, np.int64)
    number[order] = np.arange(label.size)
    count = np.bincount(label)
    one_by_one = count.size == label.size
    names = (
        [named(int(order[at])) for at in range(count.size)]
        if one_by_one
        else [f"class {at + 1}" for at in range(count.size)]
    )
    if len(set(names)) < len(names):
        names = [f"client {one}" for one in order.tolist()]
    data = np.full(count.size, np.nan)
    if known.fleet is not None:
        data = np.bincount(label, np.repeat(known.fleet.data_size, known.fleet.count)) / count
    fleet = Fleet(tuple(names), count, rate, data_size=data)
    plan = None if known.plan is None else _plan(known, fleet, label)
    return Grouped(
        Renumbered(source, number), fleet, plan, known.scenario, None, lambda client: named(int(order[client])), notes
    )


def _plan(known: Known, fleet: Fleet, label: Integers) -> Plan:
    """Return the plan for classes: the mean sampling of their clients, and the cap if it is the same for all."""
    plan = known.plan
    assert plan is not None
    each = np.repeat(plan.sampling, plan.count)
    weights = np.bincount(label, each) / fleet.count if each.size == label.size else np.ones(fleet.groups)
    cap = float(plan.cap[0]) if np.unique(plan.cap).size == 1 and np.isfinite(plan.cap[0]) else None
    return Plan.weighted(fleet, weights, plan.concurrency, cap=cap)


def _by_rate(fleet: Fleet) -> tuple[Integers, Floats]:
    speed = np.log(fleet.rate)
    label = cut(-speed, fleet.count.astype(float), min(CLASSES, np.unique(speed).size))
    each = np.repeat(label, fleet.count)
    rate = np.exp(np.bincount(label, fleet.count * speed) / np.bincount(label, fleet.count))
    return each, rate


def _by_looking(source: Any, clients: int) -> tuple[Integers, Floats]:
    """Return the classes that the first rows show; a client that finished nothing there joins the slowest."""
    piece = next(pieces_of(source, PEEK))
    took = piece.finished_at - piece.started_at
    seen = np.isfinite(took) & (took > 0) & (piece.client >= 0) & (piece.client < clients)
    tasks = np.bincount(piece.client[seen], minlength=clients).astype(float)
    mean = np.bincount(piece.client[seen], took[seen], clients) / np.maximum(tasks, 1)
    known = np.flatnonzero(tasks)
    if not known.size:
        return np.zeros(clients, np.int64), np.ones(1)
    if clients <= MOST_NAMES:
        slow = mean[known].max()
        return np.arange(clients), 1 / np.where(tasks > 0, mean, slow)
    found = by_means(tasks[known], mean[known], 1 / tasks[known]).label
    label = np.full(clients, int(found.max()), np.int64)
    label[known] = found
    total = np.bincount(found, mean[known] * tasks[known])
    return label, np.bincount(found, tasks[known]) / total


def _clients(source: Any, metadata: Any) -> int:
    try:
        told = clients_of(metadata)
    except WrongKind:
        told = 0
    if told:
        return told
    largest = before = 0
    for piece in pieces_of(source, 1_000_000):
        check_clients(piece, MOST_UNTOLD, before, False)
        largest, before = max(largest, int(piece.client.max(initial=0))), before + len(piece)
    return largest + 1


def _named(metadata: Any, fleet: Fleet | None) -> Callable[[int], str]:
    """Return what names a client: its own name in a live run, its group and number, or its number."""
    told = metadata.get("names")
    pairs = told.items() if isinstance(told, Mapping) else ()
    names = {number: str(name) for name, number in pairs if isinstance(number, int)}

    def named(client: int) -> str:
        if client in names:
            return names[client]
        return f"client {client}" if fleet is None else fleet.client_name(client)

    return named
