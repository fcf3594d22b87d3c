"""Follower: decides when a live run is planned again, and has it done in the background.

A plan is worked out again

- at set intervals;
- when a mean time leaves the interval that it had when the plan was made: a client's own, or that of a group;
- when the speeds of an unknown fleet are known: half of the clients present have sent 3 updates each;
- when the means of a quarter of the clients are known from three times as many tasks as when the plan was made;
- when somebody asks for it.

After a change there is at least one update per client present before the next one. A new plan with the same decisions
and with promises within 2% of those in force is not worth a change: the run keeps its plan, and what it has counted.
"""

import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sojourn.errors import SojournError
from sojourn.learning.storable import check
from sojourn.live.chooser import InForce
from sojourn.live.planner import Found, Planner
from sojourn.live.speeds import Left, Means, Speeds, left
from sojourn.types import Flags, Floats, Integers

FIRST = 3.0  # updates of a client whose speed counts as known
SHARPER, ENOUGH = 3.0, 0.25  # times as many tasks, of such a part of the clients, are worth another plan
SAME = 0.02  # promises that differ by less are the same
PATIENT = 3.0  # pause after a plan, in times of how long it took to work out
LONG = 10 * 365 * 86_400.0  # seconds that a run without an end is planned for
LOOKS = 5  # looks at the means while every client sends one update; each costs as much as there are clients


class Moment(NamedTuple):
    """What the loop knows when it asks."""

    time: float
    """Seconds that the run has been going."""
    step: int
    """Updates received."""
    present: Flags
    """Which clients are there."""
    ages: Callable[[], Floats]
    """How long each client has had the task in its hands; 0 = it has none."""
    left: float
    """Seconds that the run still has; inf = no limit."""
    updates: float = inf
    """Updates that it still has; inf = no limit."""


class Asked(NamedTuple):
    """Why and for what a plan is being worked out."""

    reason: str
    means: Means
    began: float


class Follower:
    """Learns the speeds of a fleet and works out plans for it."""

    def __init__(self, planner: Planner, every: float = 600.0, pool: Executor | None = None) -> None:
        self.planner, self.every = planner, every
        self.speeds = Speeds(planner.told.service.size)
        self.reference: Means = planner.told.means
        self.label: Integers = planner.told.group
        self.planned_at, self.planned_step = 0.0, 0
        self.keep: Callable[[int, Found, dict[str, Any]], None] = lambda number, found, entry: None
        self.kept: Callable[[str, str], None] = lambda what, reason: None
        self._pool = pool or ThreadPoolExecutor(1, "planner")
        self._asked: tuple[Asked, Future[Found]] | None = None
        self._pause, self._noted = 0.0, 0
        self._wanted = False  # whether somebody has asked for a plan
        self._in_force: dict[str, Any] = {}

    def note(self, client: int, service: float, travel: float) -> None:
        """Learn from a task; travel NaN = unknown."""
        self.speeds.note(client, service, travel)
        self._noted += 1

    def ask(self) -> None:
        """Work out a plan at the next look, due or not."""
        self._wanted = True

    def look(self, now: Moment) -> tuple[Found, str] | None:
        """Return a new plan and its reason if there is one to take effect now; begin to work one out if it is due."""
        if self._asked is not None:
            return self._answer(now) if self._asked[1].done() else None
        if self._noted * LOOKS < now.present.sum() and not self._wanted:
            return None
        self._noted = 0
        reason = self._due(now)
        if self._wanted:
            self._wanted, reason = False, self._asked_for()
        if reason is not None:
            means, ages = self.speeds.known, now.ages()
            work = self._pool.submit(self.planner.find, means, ages, now.present.copy(), self._left(now))
            self._asked = Asked(reason, means, time.monotonic()), work
        return None

    def _asked_for(self) -> str | None:
        """Return the reason of a plan that somebody asks for; None = no speed is known yet, which the log says."""
        if self.planner.told.known or self.speeds.known.tasks.any():
            return "asked for"
        self.kept("no plan", "asked for; no client has sent an update yet")
        return None

    def close(self) -> None:
        """End the work in the background."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _left(self, now: Moment) -> float:
        """Return the seconds that are left; for a run of so many updates, as long as these take if all clients work."""
        if isfinite(now.left) or not isfinite(now.updates):
            return min(now.left, LONG)
        known = self.speeds.known
        pace = float((1 / known.turnaround[now.present & (known.tasks > 0)]).sum())
        return min(max(now.updates, 1.0) / pace, LONG) if pace > 0 else LONG

    def _due(self, now: Moment) -> str | None:
        """Return why a plan should be worked out now; None = it should not."""
        self.speeds.forget(self.label)
        if now.time < self.planned_at + self._pause or now.step < self.planned_step + now.present.sum():
            return None
        known = self.speeds.known
        here = now.present & (known.tasks > 0)
        if not self.reference.shape.any():
            ready = 2 * int((known.tasks[now.present] >= 0.9 * FIRST).sum()) >= int(now.present.sum()) > 0
            return "the speeds are known now" if ready else None
        gone = left(known, self.reference, self.label, ages=now.ages())
        if gone.any:
            return self._said(gone)
        if now.time >= self.planned_at + self.every:
            return "interval"
        better = known.tasks[here] >= SHARPER * np.maximum(self.reference.tasks[here], 1.0)
        if here.any() and better.mean() >= ENOUGH:
            return "the speeds are known better"
        return None

    def _said(self, gone: Left) -> str:
        """Return which mean has left its interval, in words: that of a group if there is one, or of a client."""
        if gone.group.any():
            group = int(np.argmax(np.where(gone.group, np.abs(np.log(gone.group_ratio)), -1.0)))
            first = int(np.flatnonzero(self.label == group)[0])
            many = int((self.label == group).sum())
            who = f"client {first}" if many == 1 else f"{many} clients such as {first}"
            return f"drift: tasks of {who} take {gone.group_ratio[group]:.2f} times as long"
        client = int(np.argmax(np.where(gone.client, np.abs(np.log(gone.ratio)), -1.0)))
        return f"drift: tasks of client {client} take {gone.ratio[client]:.2f} times as long"

    def _answer(self, now: Moment) -> tuple[Found, str] | None:
        assert self._asked is not None
        (reason, means, began), work = self._asked
        self._asked = None
        self._pause = PATIENT * (time.monotonic() - began)
        self.planned_at, self.planned_step = now.time, now.step
        try:
            found = work.result()
        except Exception as error:  # a run is not ended by a plan that cannot be worked out
            self._refer(means)
            what = str(error) if isinstance(error, SojournError) else f"a defect of sojourn: {error!r}"
            self.kept("no plan", f"{reason}; {what}")
            return None
        self._refer(means)
        both = self.planner.told.group * (int(found.label.max()) + 1) + found.label
        self.label = np.unique(both, return_inverse=True)[1].reshape(-1)
        facts = _facts(found.force, found.correction, found.promises["throughput"])
        if self._in_force and _same(facts, self._in_force):
            self.kept("plan kept", reason)
            return None
        self._in_force = facts
        return found, reason

    def _refer(self, means: Means) -> None:
        """Compare with these means from now on; with what was told of clients that are not known yet."""
        seen = means.tasks > 0
        self.reference = Means(
            *(np.where(seen, now, told) for now, told in zip(means, self.planner.told.means, strict=True))
        )

    def snapshot(self) -> dict[str, Any]:
        """Return the state, as a tree of tensors and numbers."""
        reference = {key: torch.from_numpy(one.copy()) for key, one in self.reference._asdict().items()}
        return {
            "speeds": self.speeds.snapshot(),
            "reference": reference,
            "label": torch.from_numpy(np.asarray(self.label, np.int64).copy()),
            "planned": (self.planned_at, self.planned_step),
        }

    def restore(self, tree: dict[str, Any], force: InForce | None, entry: dict[str, Any]) -> None:
        """Take over the state of a snapshot; `force` and `entry` are those of the plan in force."""
        check(tree, {"speeds": dict[str, Any], "reference": dict[str, Tensor], "label": Tensor})
        check(tree, {"planned": tuple[float, int]})
        self.speeds.restore(tree["speeds"])
        self.reference = Means(*(tree["reference"][key].numpy().copy() for key in Means._fields))
        self.label = tree["label"].numpy().copy()
        self.planned_at, self.planned_step = tree["planned"]
        self._in_force = {} if force is None else _facts(force, entry["correction"], entry["throughput"])


def _facts(force: InForce, correction: float, throughput: float) -> dict[str, Any]:
    decided = (force.concurrency, correction, force.cap.tolist())
    return {"decided": decided, "sampling": force.sampling, "share": force.share, "throughput": throughput}


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    numbers = all(np.allclose(one[key], other[key], rtol=SAME) for key in ("sampling", "share", "throughput"))
    return numbers and one["decided"] == other["decided"]
