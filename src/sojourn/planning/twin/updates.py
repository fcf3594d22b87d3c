"""What a rule of the server sees of a run: updates in the order in which they come, and how much each counts."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sojourn.types import Flags, Floats, Integers


@dataclass(frozen=True, eq=False)
class Updates:
    """The updates of a run, or of a window of it."""

    client: Integers
    """Who sent it."""
    sent: Integers
    """Updates that had come when its model was sent; 0 also for what was sent before a window."""
    stale: Integers
    """Updates that came in between."""
    time: Floats
    """When it came."""
    counts: Floats
    """Updates of the real fleet that it stands for, times its correction."""
    level: Floats
    """Factor of the step size when it came."""
    sent_level: Floats
    """Factor of the step size when its model was sent."""
    many: float
    """Updates of the real fleet that one stands for, on average."""
    concurrency: int
    """Tasks in flight; in rounds, updates that the server waits for."""
    share: Floats
    """Weight of every client in the objective (q)."""
    warm: bool = False
    """Whether the server has been at work before the first of them."""

    def __len__(self) -> int:
        return int(self.client.size)

    def window(self, begin: int, end: int, level: float) -> "Updates":
        """Some of them as a run of their own at one step size; what was sent before begins with the first model."""
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
    """Client of every gradient."""
    sent: Integers
    """Changes before the model that it was computed on."""
    weight: Floats
    """How much the server moves by it, at step size 1."""
    time: Floats
    """When each change is made."""
    keep: Floats
    """What the server keeps of its model at each change; the rest is the model that was sent."""
    step: Floats | None = None
    """A table: how much the server moves along its mean at each change; None = there is no table."""
    inclusive: bool = True
    """A table: whether it holds a gradient at the change where it comes."""
    entry: Floats | None = None
    """A table: how much each client counts in its mean."""
    warm: bool = False
    """A table: whether it is full at the beginning."""

    @property
    def changes(self) -> int:
        """Changes of the model."""
        return int(self.time.size)

    @classmethod
    def of(cls, place: Integers, sent: Integers, weight: Floats, updates: Updates, **other: Any) -> "Rows":
        """Gradients applied at change `place` each, in rising order; the change is made when its last one comes."""
        number = int(place[-1]) + 1 if place.size else 0
        first = np.searchsorted(place, np.arange(number + 1)).astype(np.int64)
        used = slice(0, place.size)
        time = updates.time[used][first[1:] - 1] if number else np.empty(0)
        given: dict[str, Any] = {"keep": np.ones(number)} | other
        return cls(first, updates.client[used].copy(), sent.astype(np.int64), weight, time, **given)

    def only(self, mine: Flags) -> "Rows":
        """The gradients of some clients alone, `mine` a flag for each client; changes without any are left out.

        Along a table every change stays, because the table acts at each; where models are mixed every gradient stays,
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
