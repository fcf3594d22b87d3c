"""Periods: what each plan of a live run promised, and what was observed while it was in force.

A live run that follows its fleet lists its plans in the metadata of its trace. A task belongs to the plan that was in
force when it was sent; no two tasks are sent at the same time, so `dispatched_at` tells. Throughput counts all updates
of a period. Shares and staleness count those of tasks sent in it, since the others belong to the plan before.

A period ends when the next one begins, but the last one when the trace does, which shows only when all of it was read.
Of its updates at most 65,536 times are kept, evenly: the counts of a longer one are exact to one in 32,768 updates.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Any

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.timing.fit.ends import until_of
from sojourn.trace import Trace
from sojourn.types import Floats
from sojourn.values import WrongKind, number, text

BATCHES = 8  # of a period, for the standard error of its throughput
FEWEST = 64  # updates of a period that has one


@dataclass(frozen=True)
class Period:
    """The time during which one plan was in force."""

    plan: int
    """Number of the plan, from 0."""
    reason: str
    """Why it was made."""
    begin: float
    """When it took effect, in seconds."""
    end: float
    """When the next one did, or when the trace ends."""
    concurrency: int
    """Tasks in flight."""
    updates: int
    """Updates applied during it."""
    promised: float
    """Throughput as promised; NaN = nothing was promised."""
    observed: float
    """Throughput as observed."""
    error: float
    """Its standard error, from batches of time; NaN = too few updates."""
    promised_share: Floats
    """Share of each group in the updates, as promised."""
    observed_share: Floats
    """As observed, of the tasks sent under this plan."""
    promised_staleness: Floats
    """Mean staleness of each group, as promised."""
    observed_staleness: Floats
    """As observed, of the tasks sent under this plan."""


def plan_of_task(trace: Trace) -> Any:
    """Return the number of the plan under which each task was sent; 0 where the trace lists no plans.

    >>> from sojourn import Plan, simulate
    >>> fleet = Fleet.of(all=(2, 1.0))
    >>> int(plan_of_task(simulate(fleet, Plan.uniform(fleet, 2), 10, seed=1)).max())
    0
    """
    begins = [entry["time"] for entry in _entries(trace.metadata)][1:]
    return np.searchsorted(np.array(begins), trace.dispatched_at, side="left")


class Periods:
    """Collects what was observed under each plan, piece by piece; without a fleet every client is a group."""

    def __init__(self, metadata: Mapping[str, Any], fleet: Fleet | None) -> None:
        self._entries, self._fleet = _entries(metadata), fleet
        self._begins = np.array([entry["time"] for entry in self._entries])
        many = len(self._entries)
        self._updates, self._parts = np.zeros(many, np.int64), np.zeros((many, BATCHES))
        self._seen, self._stale = np.zeros((many, 0)), np.zeros((many, 0))
        self._last, self._thinned = until_of(metadata), Thinned()

    def add(self, piece: Trace) -> None:
        """Add the next rows of the trace."""
        begins, many = self._begins, len(self._entries)
        if many < 2:
            return
        applied = piece.applied
        at, client = piece.applied_at[applied], piece.client[applied].astype(np.int64)
        group = client if self._fleet is None else self._fleet.group_of_client[client]
        groups = max(self._seen.shape[1], int(group.max(initial=-1)) + 1)
        sent = np.searchsorted(begins[1:], piece.dispatched_at[applied], side="left")
        during = np.searchsorted(begins[1:], at, side="right")
        self._updates += np.bincount(during, minlength=many)
        place = sent * groups + group
        seen = np.bincount(place, minlength=many * groups).reshape(many, groups)
        stale = np.bincount(place, piece.staleness, many * groups).reshape(many, groups)
        self._seen, self._stale = _wider(self._seen, groups) + seen, _wider(self._stale, groups) + stale
        for one in np.unique(during[during < many - 1]):
            self._parts[one] += _parts(at[during == one], begins[one], begins[one + 1])
        self._thinned.add(at[during == many - 1])
        self._last = max(self._last, float(at.max(initial=-np.inf)))

    def done(self, groups: int) -> tuple[Period, ...]:
        """Return the periods by group; none if the plan never changed."""
        if len(self._entries) < 2:
            return ()
        begins, ends = self._begins, np.append(self._begins[1:], self._last)
        self._parts[-1] = self._thinned.every * _parts(self._thinned.times, begins[-1], ends[-1])
        seen, stale = _wider(self._seen, groups), _wider(self._stale, groups)
        found = []
        for one, entry in enumerate(self._entries):
            lasted, updates = ends[one] - begins[one], int(self._updates[one])
            with np.errstate(invalid="ignore", divide="ignore"):
                found.append(
                    Period(
                        plan=one,
                        reason=entry["reason"],
                        begin=float(begins[one]),
                        end=float(ends[one]),
                        concurrency=int(entry["concurrency"]),
                        updates=updates,
                        promised=entry["throughput"],
                        observed=updates / lasted if lasted > 0 else np.nan,
                        error=_error(self._parts[one], updates, lasted),
                        promised_share=_each(entry["share"], groups),
                        observed_share=seen[one] / seen[one].sum(),
                        promised_staleness=_each(entry["staleness"], groups),
                        observed_staleness=stale[one] / seen[one],
                    )
                )
        return tuple(found)


class Thinned:
    """Every so many of the times that were added, so that they fit a fixed memory; all of them while they do."""

    MOST = 1 << 16

    def __init__(self) -> None:
        self.every, self.times, self._skip = 1, np.zeros(0), 0

    def add(self, times: Floats) -> None:
        """Add times, in order."""
        picked = times[self._skip :: self.every]
        self._skip = (self._skip - times.size) % self.every
        self.times = np.concatenate([self.times, picked])
        while self.times.size > self.MOST:
            self._skip += self.every * (self.times.size % 2)  # where the next one would be left out
            self.times, self.every = self.times[::2], 2 * self.every


def _wider(table: Floats, groups: int) -> Floats:
    return np.pad(table, ((0, 0), (0, groups - table.shape[1])))


def _parts(times: Floats, begin: float, end: float) -> Any:
    """Return how many of the times lie in each of the equal parts of a period."""
    return np.histogram(times, BATCHES, (begin, end))[0] if end > begin else np.zeros(BATCHES)


def _error(counts: Floats, updates: int, lasted: float) -> float:
    """Return the standard error of a throughput, from the counts in equal parts of the time."""
    if updates < FEWEST or not lasted > 0:
        return np.nan
    return float(counts.std(ddof=1) * sqrt(BATCHES) / lasted)


def _each(values: Any, groups: int) -> Floats:
    """Return one number per group; NaN = none was promised."""
    found = np.array([np.nan if one is None else float(one) for one in values or ()])
    return found if found.size == groups else np.full(groups, np.nan)


def _entries(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Read the list of plans in the metadata of a trace."""
    try:
        found = []
        for entry in metadata.get("plans", ()):
            plain = {key: number(entry[key], key) for key in ("time", "step", "concurrency")}
            flow = entry.get("throughput")
            told = {"throughput": np.nan if flow is None else number(flow, "throughput")}
            lists = {key: entry.get(key) for key in ("share", "staleness")}
            found.append({**plain, **told, **lists, "reason": text(entry["reason"], "reason")})
    except (KeyError, TypeError, AttributeError, WrongKind) as error:
        raise InvalidInput(f"the trace lists its plans in a way that cannot be read: {error}; restore it") from None
    times = [entry["time"] for entry in found]
    if times != sorted(times) or not all(map(isfinite, times)):
        raise InvalidInput(f"the plans of a trace must be in order of time, got {times[:6]}; restore it")
    return found
