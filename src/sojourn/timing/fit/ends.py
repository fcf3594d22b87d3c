"""How the service of every row of a trace ended: finished, cut off, or still running when the trace ends.

A service is cut off when its client leaves (lost), when its round is over (dropped) or when the server calls
(interrupted). Like a service that is still running, it is known to be longer than what was seen. What the times mean
depends on the dispatcher, which the metadata name; a trace without metadata is read as one with queues.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np

from sojourn.trace import APPLIED, DROPPED, IN_FLIGHT, LOST, Trace
from sojourn.types import Flags, Floats
from sojourn.values import WrongKind, items, optional_number, whole

MOST_CLIENTS = 10_000_000  # that a trace can state; arrays are made for them
MOST_UNTOLD = 1_000_000  # that its rows may number if it states fewer: one damaged number must not fill the memory
LEAVE = "leave in the metadata of the trace"


@dataclass(frozen=True)
class Scene:
    """What the metadata of a trace say about its times."""

    dispatcher: str = "routed"
    """The dispatcher."""
    local_steps: int = 0
    """Local steps per task; 0 = not stated."""
    one_draw: bool = False
    """Whether a task takes one service time, however many local steps it has."""
    server_rate: float | None = None
    """Updates that the server applies per second; None = at once, or not stated."""
    says_server: bool = False
    """Whether the metadata state the server's rate."""
    pauses: bool = False
    """Whether clients leave and later go on with the task in service."""
    leaves: bool = False
    """Whether clients are away at times."""
    until: float = -inf
    """When recording ended; -inf = not stated."""

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> "Scene":
        """Read the metadata; what is missing counts as not stated."""
        leave = metadata.get("leave") or ()
        leave = (leave,) if isinstance(leave, str) else items(list(leave) if isinstance(leave, tuple) else leave, LEAVE)
        return cls(
            dispatcher=str(metadata.get("dispatcher", "routed")),
            local_steps=whole(metadata.get("local_steps") or 0, "local_steps in the metadata of the trace"),
            one_draw=bool(metadata.get("one_draw", False)),
            server_rate=_positive(metadata, "server_rate"),
            says_server="server_rate" in metadata,
            pauses="pause" in leave,
            leaves=bool(leave),
            until=until_of(metadata),
        )

    @property
    def waits(self) -> str:
        """What a finished update waits for besides its uplink; empty = nothing is stated."""
        if self.dispatcher == "rounds":
            return "the end of the round"
        if self.dispatcher == "periodic":
            return "the server's call"
        if self.dispatcher in ("held", "groups"):
            return "the updates that are applied with it"
        return "" if self.server_rate is None else "a server that takes time"


def until_of(metadata: Mapping[str, Any]) -> float:
    """Return when recording ended; -inf = the metadata do not state it."""
    told = optional_number(metadata.get("recorded_until"), "recorded_until in the metadata of the trace")
    if told is None:
        return -inf
    if not isfinite(told):
        raise WrongKind(f"recorded_until in the metadata of the trace must be finite, got {told}")
    return told


def clients_of(metadata: Mapping[str, Any]) -> int:
    """Return the number of clients; 0 = the metadata do not state it.

    >>> clients_of({"clients": 10}), clients_of({})
    (10, 0)
    """
    return whole(metadata.get("clients") or 0, "clients in the metadata of the trace", 0, MOST_CLIENTS)


def most_clients(metadata: Mapping[str, Any]) -> int:
    """Return how many clients the rows of a trace may number if nobody gives its fleet.

    >>> most_clients({"clients": 10}), most_clients({"clients": 2_000_000})
    (1000000, 2000000)
    """
    return max(clients_of(metadata), MOST_UNTOLD)


def _positive(metadata: Mapping[str, Any], key: str) -> float | None:
    told = optional_number(metadata.get(key), f"{key} in the metadata of the trace")
    if told is not None and not told > 0:
        raise WrongKind(f"{key} in the metadata of the trace must be above 0, got {told}")
    return told


class Ends(NamedTuple):
    """How the services of some rows ended."""

    finished: Flags
    """Services seen from beginning to end."""
    cut: Flags
    """Services cut off before the end of the trace."""
    running: Flags
    """Services running when the trace ends."""
    at: Floats
    """End of the services that finished or were cut off."""
    until: Floats
    """When a longer service would have been cut off; inf = at the end of the trace."""
    steps: Floats
    """Local steps by which a duration is divided; 0 = not known."""
    untold: int
    """Rows whose service has no start or no end, and which do not state when they were over."""
    doubtful: int
    """Lost rows of an old trace, which does not state whether they had finished; they count as cut off."""


def ends_of(piece: Trace, scene: Scene, reached: float) -> Ends:
    """Return how the services of a piece ended; `reached` is the last time of application before the piece."""
    began, ended = np.isfinite(piece.started_at), np.isfinite(piece.finished_at)
    inside = piece.fate == IN_FLIGHT
    killed = (piece.fate == LOST) & ended & np.isnan(piece.applied_at)  # as older versions wrote traces
    if scene.dispatcher == "periodic":
        finished, cut, at = _called(piece, scene, began & ended & ~inside)
        running = np.zeros(len(piece), dtype=np.bool_)  # it is unknown whether a client that was not called is idle
    else:
        over = _over(piece, scene, reached)
        finished, running = began & ended & ~killed, began & ~ended & inside
        cut = began & ~finished & np.isin(piece.fate, (LOST, DROPPED)) & (killed | np.isfinite(over))
        at = np.where(ended, piece.finished_at, over)
    known = finished | cut | running
    untold = int(((began | ended) & ~known & (~inside | ~began)).sum())
    barrier = scene.dispatcher in ("rounds", "periodic")
    until = np.where(np.isfinite(piece.applied_at), piece.applied_at, np.inf) if barrier else np.full(at.size, np.inf)
    return Ends(finished, cut, running, at, until, _steps(piece, scene, finished), untold, int(killed.sum()))


def _called(piece: Trace, scene: Scene, seen: Flags) -> tuple[Flags, Flags, Floats]:
    """Handle periodic calls: the call interrupts a client that has not done all its local steps."""
    stopped = piece.work < scene.local_steps if scene.local_steps else piece.finished_at >= piece.applied_at
    return seen & ~stopped, seen & stopped, piece.finished_at


def _over(piece: Trace, scene: Scene, reached: float) -> Floats:
    """Return when each row was over for the server; in old traces a dropped row gets the time of
    the rest of its round.
    """
    if scene.dispatcher != "rounds":
        return piece.applied_at
    before = np.maximum.accumulate(np.concatenate([[reached], np.nan_to_num(piece.applied_at, nan=-np.inf)]))[1:]
    return np.where(np.isfinite(piece.applied_at), piece.applied_at, before)


def _steps(piece: Trace, scene: Scene, finished: Flags) -> Floats:
    if scene.one_draw:
        return np.ones(len(piece))
    begun = piece.fate == DROPPED  # their work is what they had begun, and not what was planned
    planned = np.where((piece.work > 1) & ~begun, piece.work, scene.local_steps)
    return np.where(finished, np.maximum(piece.work, 1), planned).astype(np.float64)


def later(ends: Ends, late: Flags) -> Ends:
    """Keep only the services that began late enough; `late` is False where no service is known to have begun."""
    if late.all():
        return ends
    return ends._replace(finished=ends.finished & late, cut=ends.cut & late, running=ends.running & late)


def uplinks_of(piece: Trace, late: Flags) -> Ends:
    """Return the uplinks of the applied updates, and of those under way when the trace ends."""
    gone = np.isfinite(piece.finished_at) & (late | ~np.isfinite(piece.started_at))
    applied = gone & np.isfinite(piece.applied_at) & (piece.fate == APPLIED)
    never, always = np.zeros(gone.size, dtype=np.bool_), np.full(gone.size, np.inf)
    on_way = gone & (piece.fate == IN_FLIGHT)
    return Ends(applied, never, on_way, piece.applied_at, always, np.ones(gone.size), 0, 0)


class Line:
    """Detects whether updates queue at the server: none overtakes another, although many are there at once."""

    ENOUGH = 20  # meetings of two updates: on separate links about half would overtake

    def __init__(self) -> None:
        self._met = self._overtook = 0

    def add(self, piece: Trace) -> None:
        """Add the applied rows of a piece, in the order of application."""
        applied = piece.applied & np.isfinite(piece.finished_at)
        left, came = piece.finished_at[applied], piece.applied_at[applied]
        if not ((came[1:] > came[:-1]) | ((came[1:] == came[:-1]) & (left[1:] >= left[:-1]))).all():
            order = np.lexsort((left, came))
            left, came = left[order], came[order]
        self._met += int((left[1:] < came[:-1]).sum())
        self._overtook += int((left[1:] < left[:-1]).sum())

    @property
    def formed(self) -> bool:
        """Whether there were many meetings and no update overtook another."""
        return self._met >= self.ENOUGH and self._overtook == 0
