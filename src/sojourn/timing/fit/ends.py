"""How the service of every row of a trace ended: finished, cut off, or still running when the trace ends.

A service is cut off when its client leaves (lost), when its round is over (dropped) or when the server calls
(interrupted): it is known to be longer, as one that still runs is. What the times mean depends on who sends the
tasks, which the trace's metadata say; a trace without metadata is taken for one of queues.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sojourn.trace import APPLIED, DROPPED, IN_FLIGHT, LOST, Trace
from sojourn.types import Flags, Floats


@dataclass(frozen=True)
class Scene:
    """What the metadata of a trace say about its times."""

    dispatcher: str = "routed"
    """Who gets the next task."""
    local_steps: int = 0
    """Local steps of a task; 0 = not said."""
    one_draw: bool = False
    """One service time a task, however many local steps."""
    server_rate: float | None = None
    """Updates that the server applies per unit of time; None = at once, or not said."""
    says_server: bool = False
    """Whether the server's rate is said."""
    pauses: bool = False
    """Whether clients leave and go on later with the task in service."""

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> "Scene":
        """Read the metadata; what is missing is not said."""
        return cls(
            dispatcher=str(metadata.get("dispatcher", "routed")),
            local_steps=int(metadata.get("local_steps") or 0),
            one_draw=bool(metadata.get("one_draw", False)),
            server_rate=metadata.get("server_rate"),
            says_server="server_rate" in metadata,
            pauses="pause" in (metadata.get("leave") or ()),
        )

    @property
    def waits(self) -> str:
        """What a finished update waits for besides its uplink; empty = nothing that is said."""
        if self.dispatcher == "rounds":
            return "the end of the round"
        if self.dispatcher == "periodic":
            return "the server's call"
        return "" if self.server_rate is None else "a server that takes time"


class Ends(NamedTuple):
    """How the services of some rows ended."""

    finished: Flags
    """Seen from beginning to end."""
    cut: Flags
    """Cut off before the end of the trace."""
    running: Flags
    """Running when the trace ends."""
    at: Floats
    """End of those that finished or were cut off."""
    until: Floats
    """When it would have been cut off had it been longer; inf = at the end of the trace."""
    steps: Floats
    """Local steps that a duration is divided by; 0 = not known."""
    untold: int
    """Rows whose service has no beginning or no end, and that do not say when they were over."""
    doubtful: int
    """Lost rows of which an old trace does not say whether they had finished; they count as cut off."""


def ends_of(piece: Trace, scene: Scene, reached: float) -> Ends:
    """The ends of a piece's services; `reached` is the last time of application before the piece."""
    began, ended = np.isfinite(piece.started_at), np.isfinite(piece.finished_at)
    inside = piece.fate == IN_FLIGHT
    killed = (piece.fate == LOST) & ended & np.isnan(piece.applied_at)  # as traces were written once
    if scene.dispatcher == "periodic":
        finished, cut, at = _called(piece, scene, began & ended & ~inside)
        running = np.zeros(len(piece), dtype=np.bool_)  # nobody knows whether a client that was not called idles
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
    """Periodic calls: a client that has not done all its local steps is interrupted by the call."""
    stopped = piece.work < scene.local_steps if scene.local_steps else piece.finished_at >= piece.applied_at
    return seen & ~stopped, seen & stopped, piece.finished_at


def _over(piece: Trace, scene: Scene, reached: float) -> Floats:
    """When the server was done with each row; old traces do not say it of what a round dropped, but its others do."""
    if scene.dispatcher != "rounds":
        return piece.applied_at
    before = np.maximum.accumulate(np.concatenate([[reached], np.nan_to_num(piece.applied_at, nan=-np.inf)]))[1:]
    return np.where(np.isfinite(piece.applied_at), piece.applied_at, before)


def _steps(piece: Trace, scene: Scene, finished: Flags) -> Floats:
    if scene.one_draw:
        return np.ones(len(piece))
    planned = np.where(piece.work > 1, piece.work, scene.local_steps)
    return np.where(finished, np.maximum(piece.work, 1), planned).astype(np.float64)


def later(ends: Ends, late: Flags) -> Ends:
    """Only the services that began late enough; `late` is False where nothing is known to have begun."""
    if late.all():
        return ends
    return ends._replace(finished=ends.finished & late, cut=ends.cut & late, running=ends.running & late)


def uplinks_of(piece: Trace, late: Flags) -> Ends:
    """Uplinks of the applied updates, and of those on their way when the trace ends."""
    gone = np.isfinite(piece.finished_at) & (late | ~np.isfinite(piece.started_at))
    applied = gone & np.isfinite(piece.applied_at) & (piece.fate == APPLIED)
    never, always = np.zeros(gone.size, dtype=np.bool_), np.full(gone.size, np.inf)
    on_way = gone & (piece.fate == IN_FLIGHT)
    return Ends(applied, never, on_way, piece.applied_at, always, np.ones(gone.size), 0, 0)


class Line:
    """Whether updates stand in line at the server: none overtakes another, though many are there at once."""

    ENOUGH = 20  # meetings: on links of their own about half would overtake

    def __init__(self) -> None:
        self._met = self._overtook = 0

    def add(self, piece: Trace) -> None:
        """Look at the applied rows of a piece, in the order of application."""
        applied = piece.applied & np.isfinite(piece.finished_at)
        left, came = piece.finished_at[applied], piece.applied_at[applied]
        order = np.lexsort((left, came))
        left, came = left[order], came[order]
        self._met += int((left[1:] < came[:-1]).sum())
        self._overtook += int((left[1:] < left[:-1]).sum())

    @property
    def formed(self) -> bool:
        """Many meetings, and nobody overtook."""
        return self._met >= self.ENOUGH and self._overtook == 0
