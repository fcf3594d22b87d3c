"""What a rule of the server sees of a run: updates in the order of arrival, and how much each counts."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sojourn.types import Flags, Floats, Integers


@dataclass(frozen=True, eq=False)
class Updates:
    """The updates of a run, or of a window of it."""

    client: Integers
    """The client that sent each."""
    sent: Integers
    """Number of updates that had arrived when its model was sent; 0 also if it was sent before the window."""
    stale: Integers
    """Number of updates that arrived in between."""
    time: Floats
    """When it arrived, in seconds."""
    counts: Floats
    """Number of updates of the real fleet that it stands for, times its correction."""
    level: Floats
    """Factor of the step size when it arrived."""
    sent_level: Floats
    """Factor of the step size when its model was sent."""
    many: float
    """Number of updates of the real fleet that one update stands for, on average."""
    concurrency: int
    """Tasks in flight; in rounds, updates that the server waits for."""
    share: Floats
    """Weight of every client in the objective (q)."""
    warm: bool = False
    """Whether the server was running before the first of them."""

    def __len__(self) -> int:
        return int(self.client.size)

    def window(self, begin: int, end: int, level: float) -> "Updates":
        """Return some of them as a separate run at one step size; models sent before it count as the first model."""
        part: dict[str, Any] = {
            key: getattr(self, key)[begin:end] for key in ("client", "stale", "time", "counts", "sent")
        }
        part["sent"] = np.maximum(part["sent"] - begin, 0)
        flat = np.full(part["sent"].size, level)
        return replace(self, **part, level=flat, sent_level=flat, warm=True)


@dataclass(frozen=True, eq=False)
class Rows:
    """A run of a linear server: changes of its model, and the gradients of each."""

    first: Integers
    """First gradient of every change, and the number of all; gradients are in the order of the changes."""
    client: Integers
    """The client of every gradient."""
    sent: Integers
    """Number of changes in the model that it was computed on."""
    weight: Floats
    """How far the server moves by it, at step size 1."""
    time: Floats
    """When each change is made, in seconds."""
    keep: Floats
    """Share of its model that the server keeps at each change; the rest is the model that was sent."""
    step: Floats | None = None
    """For a table: how far the server moves along its mean at each change; None = there is no table."""
    inclusive: bool = True
    """For a table: whether it holds a gradient at the change in which the gradient arrives."""
    entry: Floats | None = None
    """For a table: how much each client counts in its mean."""
    warm: bool = False
    """For a table: whether it is full at the beginning."""

    @property
    def changes(self) -> int:
        """Number of changes of the model."""
        return int(self.time.size)

    @classmethod
    def of(cls, place: Integers, sent: Integers, weight: Floats, updates: Updates, **other: Any) -> "Rows":
        """Make rows of gradients applied at change `place` each, in rising order; a change is made when its last one
        arrives.
        """
        number = int(place[-1]) + 1 if place.size else 0
        first = np.searchsorted(place, np.arange(number + 1)).astype(np.int64)
        used = slice(0, place.size)
        time = updates.time[used][first[1:] - 1] if number else np.empty(0)
        given: dict[str, Any] = {"keep": np.ones(number)} | other
        return cls(first, updates.client[used].copy(), sent.astype(np.int64), weight, time, **given)

    def only(self, mine: Flags) -> "Rows":
        """Return only the gradients of some clients (`mine` is a flag per client); changes without any are left out.

        With a table every change stays, because the table acts at each. If models are mixed every gradient stays,
        without weight, because its model is mixed in.
        """
        rows = mine[self.client]
        if (self.keep < 1).any():
            return replace(self, weight=self.weight * rows)
        if self.step is not None:
            assert self.entry is not None
            counted = np.concatenate([[0], np.cumsum(rows)])
            kept = {key: getattr(self, key)[rows] for key in ("client", "sent", "weight")}
            return replace(self, first=counted[self.first].astype(np.int64), entry=self.entry * mine, **kept)
        place = np.repeat(np.arange(self.changes), np.diff(self.first))[rows]
        used, now = np.unique(place, return_inverse=True)
        return replace(
            self,
            first=np.searchsorted(now, np.arange(used.size + 1)).astype(np.int64),
            client=self.client[rows],
            sent=np.searchsorted(used, self.sent[rows]).astype(np.int64),
            weight=self.weight[rows],
            time=self.time[used],
            keep=self.keep[used],
        )
