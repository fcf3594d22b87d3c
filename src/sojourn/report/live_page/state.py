"""State: what a page shows of a run, as messages. It is fed with looks, and remembers a bounded history.

There are two messages: `about` has what does not change, `now` everything else, whole. So a reader who comes late, or
who comes back, needs no more than the two newest.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from sojourn.errors import SojournError
from sojourn.report.live_page.history import Bins, Curve, plain
from sojourn.report.live_page.speeds import Learnt, table
from sojourn.trace import APPLIED
from sojourn.types import Floats
from sojourn.watched import ENDED, PAUSED, RUNNING, STOPPED, Look, Promise, Watched

WINDOW = 30.0  # seconds over which "now" is measured in a live run
LAST = 200  # updates over which "now" is measured in a simulated run; as many as are in flight, if these are more
BEHIND = 0.3  # seconds by which the rows of a live run may lag behind its clock
MOST_RECENT = 50_000  # updates that are remembered one by one, so "now" is never measured over more
MOST_CLIENTS = 2_000  # of which each is shown for itself
EVENTS, PLANS = 60, 20  # newest ones that are shown
WORDS = 300  # characters of each of them
FAR = 8.64e12  # seconds from 1970 to the last moment that a browser knows
JUDGED = ("accuracy", "test_loss", "train_loss")


class State:
    """What there is to show of one run."""

    def __init__(self, watched: Watched) -> None:
        self.watched, self.of = watched, watched.described
        self._names = list(self.of.clients)
        self.renamed = 0
        """How often a client has got another name, or the run another description: then `about` has changed."""
        self._begin()

    def _begin(self) -> None:
        if self.of is not self.watched.described:  # the clients of a run without its fleet are known by its trace
            self.of = self.watched.described
            self._names = list(self.of.clients)
            self.renamed += 1
        clients, groups = self.of.group.size, len(self.of.groups)
        self._bins, self._judged = Bins(), Curve(JUDGED)
        self._learnt = Learnt(clients)
        self._recent = np.zeros((0, 2))  # when updates were applied, and their staleness
        self._updates, self._stale = 0, 0.0
        self._by_group = np.zeros((3, groups))  # updates and staleness since the plan in force; updates in all
        self._plan, self._since = -1, 0.0
        self._events: deque[dict[str, Any]] = deque(maxlen=EVENTS)
        self._promises: list[tuple[float, float | None, float | None]] = []
        self._last: Mapping[str, float] = {}
        self._torn = False  # whether something was taken in by half

    @property
    def about(self) -> dict[str, Any]:
        """The message about what does not change."""
        of, controls = self.of, self.watched.controls
        shown = of.group.size <= MOST_CLIENTS
        found: dict[str, Any] = plain(
            {
                "name": of.name,
                "live": of.live,
                "groups": of.groups,
                "sizes": np.bincount(of.group, minlength=len(of.groups)),
                "group": of.group if shown else None,
                "clients": self._names if shown else None,
                "count": int(of.group.size),
                "ends": {"updates": of.updates, "time": of.time},
                "window": WINDOW if of.live else None,
                "notes": of.notes,
                "controls": controls is not None,
            }
        )
        return found

    def look(self) -> dict[str, Any]:
        """Look at the run until all that is new has been seen, and return the message about now."""
        while (seen := self._taken()).more:
            pass
        found: dict[str, Any] = plain(self._message(seen))
        return found

    # what is new

    def _taken(self) -> Look:
        """Take note of what one look says."""
        seen = self.watched.look()
        if seen.anew:
            self._begin()
        if self._torn:
            raise SojournError("a part of the run could not be taken in, so its numbers are not shown")
        self._torn = True
        self._take_names(seen)
        self._take_plans(seen)
        self._take_tasks(seen)
        for row in seen.metrics:
            self._judged.add(row["time"], row)
            self._last = row
        self._events.extend(map(self._event, seen.log))
        self._torn = False
        return seen

    def _take_names(self, seen: Look) -> None:
        for number, name in seen.names.items():
            if 0 <= number < len(self._names) and self._names[number] != name:
                self._names[number] = name
                self.renamed += 1

    def _take_plans(self, seen: Look) -> None:
        """Begin to count anew when a plan takes effect."""
        if len(seen.plans) - 1 != self._plan:
            self._plan, self._since = len(seen.plans) - 1, seen.plans[-1].time if seen.plans else 0.0
            self._by_group[:2] = 0.0
            self._promises = [(one.time, one.throughput, one.mean_staleness) for one in seen.plans]

    def _take_tasks(self, seen: Look) -> None:
        rows = seen.ended[seen.ended["fate"] == APPLIED]
        client = np.minimum(rows["client"], max(0, self.of.group.size - 1))
        at, stale = rows["applied_at"], (rows["applied_step"] - rows["dispatched_step"]).astype(np.float64)
        self._bins.add(at, stale)
        self._updates += len(rows)
        self._stale += float(stale.sum())
        group, many = self.of.group[client], len(self.of.groups)
        lately = at > self._since
        self._by_group[0] += np.bincount(group[lately], minlength=many)
        self._by_group[1] += np.bincount(group[lately], stale[lately], many)
        self._by_group[2] += np.bincount(group, minlength=many)
        if seen.speeds is None:
            self._learnt.add(client, rows["finished_at"] - rows["started_at"])
        self._recent = np.concatenate([self._recent, np.column_stack([at, stale])])[-MOST_RECENT:]
        if self.of.live:
            self._recent = self._recent[self._recent[:, 0] > seen.time - WINDOW]

    def _event(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return a line of the log as it is shown: when, what, who, why."""
        client = entry.get("client")
        who = self._names[client] if isinstance(client, int) and 0 <= client < len(self._names) else None
        why, received, at = entry.get("reason"), entry.get("received"), entry.get("at")
        if not isinstance(why, str) or not why:
            why = f"after {received} updates" if isinstance(received, int) else ""
        at = round(at) if isinstance(at, int | float) and abs(at) <= FAR else None
        return {"at": at, "what": entry["what"][:WORDS], "who": who, "why": why[:WORDS]}

    # what holds now

    def _message(self, seen: Look) -> dict[str, Any]:
        promise = seen.plans[-1] if seen.plans else None
        until = seen.time - (BEHIND if self.of.live and seen.state in (RUNNING, PAUSED) else 0.0)
        last = min(MOST_RECENT, max(LAST, 0 if promise is None else promise.concurrency))
        flow, stale = self._now(seen.time, last)
        known = seen.updates is None  # whether single tasks are known
        updates = self._updates if seen.updates is None else seen.updates
        whole = updates / seen.time if seen.time > 0 else None
        mean = self._stale / self._updates if self._updates else None
        promised: dict[str, float | None] = {"throughput": None, "staleness": None}
        if promise is not None:
            promised = {"throughput": promise.throughput, "staleness": promise.mean_staleness}
        facts = {
            "state": seen.state,
            "time": seen.time,
            "last": last if known else None,
            "updates": updates,
            "throughput": {"now": flow if known else whole, "promised": promised["throughput"], "whole": whole},
            "staleness": {"now": stale, "promised": promised["staleness"], "whole": mean},
            "judged": {key: self._last.get(key, np.nan) for key in JUDGED},
            "flying": len(seen.flying) if known else None,
            "concurrency": None if promise is None else promise.concurrency,
            "present": self.of.group.size if seen.present is None else int(seen.present.sum()),
            "faults": {key: many for key, many in seen.faults.items() if many},
            "notes": seen.notes,
        }
        speeds = table(seen.speeds or self._learnt.speeds, self.of, self._names)
        return {
            **facts,
            **self._network(seen, promise),
            "speeds": speeds if known else [{**row, "tasks": None} for row in speeds],
            "history": {**(history := self._bins.shown(until)), **self._promised(history["at"])},
            "curves": self._judged.shown(),
            "plans": [self._plan_row(number, seen.plans) for number in range(len(seen.plans))][-PLANS:],
            "plan_count": len(seen.plans),
            "events": list(self._events),
            "controls": self._controls(seen),
        }

    def _now(self, time: float, last: int) -> tuple[float | None, float | None]:
        """Return updates per second and mean staleness of late: of some seconds, or of the last so many updates."""
        recent = self._recent if self.of.live else self._recent[-last:]
        if not len(recent):
            return (0.0, None) if self.of.live and time > 0 else (None, None)
        if self.of.live:  # where more updates count than are remembered, from the oldest of those
            span = min(WINDOW, time) if len(recent) < MOST_RECENT else time - recent[0, 0]
        else:
            span = time - (recent[0, 0] if len(recent) == last else 0.0)
        return len(recent) / span if span > 0 else None, float(recent[:, 1].mean())

    def _network(self, seen: Look, promise: Promise | None) -> dict[str, Any]:
        """Return what each group, and each client where there are not too many, holds."""
        clients, groups = self.of.group.size, len(self.of.groups)
        known, ours = seen.updates is None, seen.flying < clients
        held = np.bincount(seen.flying[ours], minlength=clients)
        begun = np.bincount(seen.flying[seen.began & ours], minlength=clients)
        served = np.minimum(begun, 1)
        there = np.ones(clients, np.bool_) if seen.present is None else seen.present

        def summed(values: Any) -> Any:
            return np.bincount(self.of.group, values, groups).astype(np.int64)

        updates, stale, total = self._by_group
        with np.errstate(divide="ignore", invalid="ignore"):
            share, mean = updates / updates.sum(), stale / updates
        columns: dict[str, Any] = {
            "name": list(self.of.groups),
            "clients": summed(None),
            "present": summed(there),
            "serving": summed(served) if known else [None] * groups,
            "waiting": summed(held - served) if known else [None] * groups,
            "updates": total.astype(np.int64) if known else [None] * groups,
            "share": share,
            "staleness": mean,
            "share_promised": _padded(None if promise is None else promise.share, groups),
            "staleness_promised": _padded(None if promise is None else promise.staleness, groups),
        }
        each = {"held": held, "serving": served, "present": there.astype(np.int64)}
        return {"groups": columns, "clients": each if known and clients <= MOST_CLIENTS else None}

    def _promised(self, at: Any) -> dict[str, list[float | None]]:
        """Return what was promised at each time."""
        found: dict[str, list[float | None]] = {"throughput_promised": [], "staleness_promised": []}
        times = [time for time, _, _ in self._promises]
        for place in np.searchsorted(times, at, side="right") - 1 if times else [-1] * len(at):
            _, flow, stale = self._promises[max(0, int(place))] if times else (0.0, None, None)
            found["throughput_promised"].append(flow)
            found["staleness_promised"].append(stale)
        return found

    def _plan_row(self, number: int, plans: Any) -> dict[str, Any]:
        one: Promise = plans[number]
        facts = {"time": one.time, "step": one.step, "reason": one.reason, "concurrency": one.concurrency}
        return {"number": number, **facts, "throughput": one.throughput, "staleness": one.mean_staleness}

    def _controls(self, seen: Look) -> dict[str, Any] | None:
        controls = self.watched.controls
        if controls is None:
            return None
        over = seen.state in (ENDED, STOPPED)
        return {"paused": controls.paused, "over": over, "never_replans": controls.never_replans}


def _padded(values: Any, many: int) -> Floats | list[Any]:
    """Return a value per group; unknown ones if there are none, or not as many."""
    return list(values) if values is not None and len(values) == many else [None] * many
