"""Periods: what each plan of a live run promised, and what was observed while it was in force.

A live run that follows its fleet lists its plans in the metadata of its trace. A task belongs to the plan that was in
force when it was sent; no two tasks are sent at the same time, so `dispatched_at` tells. Throughput counts all updates
of a period. Shares and staleness count those of tasks sent in it, since the others belong to the plan before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Any

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.timing.fit.observed import PIECE, pieces_of
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


def periods_of(trace: Any, metadata: Mapping[str, Any], fleet: Fleet) -> tuple[Period, ...]:
    """Return the periods of a trace by the groups of its fleet; none if the plan never changed."""
    entries = _entries(metadata)
    if len(entries) < 2:
        return ()
    begins = np.array([entry["time"] for entry in entries])
    groups, many = fleet.groups, len(entries)
    updates = np.zeros(many, np.int64)
    seen, stale = np.zeros((many, groups)), np.zeros((many, groups))
    times: list[list[Floats]] = [[] for _ in entries]
    last = float(metadata.get("recorded_until", -np.inf))
    for piece in pieces_of(trace, PIECE):
        applied = piece.applied
        at, group = piece.applied_at[applied], fleet.group_of_client[piece.client[applied]]
        sent = np.searchsorted(begins[1:], piece.dispatched_at[applied], side="left")
        during = np.searchsorted(begins[1:], at, side="right")
        updates += np.bincount(during, minlength=many)
        place = sent * groups + group
        seen += np.bincount(place, minlength=many * groups).reshape(many, groups)
        stale += np.bincount(place, piece.staleness, many * groups).reshape(many, groups)
        for one in np.unique(during):
            times[one].append(at[during == one])
        last = max(last, float(at.max(initial=-np.inf)))
    ends = np.append(begins[1:], last)
    found = []
    for one, entry in enumerate(entries):
        lasted = ends[one] - begins[one]
        mine = np.concatenate(times[one]) if times[one] else np.empty(0)
        with np.errstate(invalid="ignore", divide="ignore"):
            found.append(
                Period(
                    plan=one,
                    reason=entry["reason"],
                    begin=float(begins[one]),
                    end=float(ends[one]),
                    concurrency=int(entry["concurrency"]),
                    updates=int(updates[one]),
                    promised=entry["throughput"],
                    observed=updates[one] / lasted if lasted > 0 else np.nan,
                    error=_error(mine, begins[one], ends[one]),
                    promised_share=_each(entry["share"], groups),
                    observed_share=seen[one] / seen[one].sum(),
                    promised_staleness=_each(entry["staleness"], groups),
                    observed_staleness=stale[one] / seen[one],
                )
            )
    return tuple(found)


def _error(times: Floats, begin: float, end: float) -> float:
    """Return the standard error of a throughput, from the counts in equal pieces of the time."""
    if times.size < FEWEST or not end > begin:
        return np.nan
    counts = np.histogram(times, BATCHES, (begin, end))[0]
    return float(counts.std(ddof=1) * sqrt(BATCHES) / (end - begin))


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
