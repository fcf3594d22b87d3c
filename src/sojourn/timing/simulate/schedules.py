"""Availability for compiled code: when a client comes or goes next, which tasks are lost, how its rate changes."""

from collections.abc import Sequence

import numpy as np

from sojourn.availability import Availability, of_groups
from sojourn.compiled import bare, inlined
from sojourn.fleet import Fleet
from sojourn.random import EDGE, HEIGHT, MOVE, exponential, mix, unit
from sojourn.timing.simulate.draws import named
from sojourn.types import Floats, Records

ALWAYS, CHURN, DIURNAL, TABLE = range(4)
_CODES = {"always": ALWAYS, "churn": CHURN, "diurnal": DIURNAL, "table": TABLE}

_NO_DRIFT = 1e-200  # a smaller drift has no effect within any run, and products with it lose their digits

SCHEDULE = [
    *[("kind", "i8"), ("on", "f8"), ("off", "f8"), ("period", "f8"), ("spread", "f8")],
    *[("toggle_first", "i8"), ("toggle_size", "i8")],  # table: coming, going, coming, ... among the numbers
    *[("lose", "i8"), ("loss", "f8"), ("drift", "f8")],
    *[("change_first", "i8"), ("change_size", "i8")],  # time, factor, time, factor, ... among the numbers
]


def schedule_fields(
    fleet: Fleet, availability: Sequence[Availability], numbers: list[float]
) -> list[tuple[float | int, ...]]:
    """Return the fields of each group."""
    rows: list[tuple[float | int, ...]] = []
    for item in of_groups(fleet, availability):
        toggles = [time for span in item.intervals for time in span if np.isfinite(time)]
        toggle_first = len(numbers)
        numbers.extend(toggles)
        change_first = len(numbers)
        numbers.extend(value for change in sorted(item.changes) for value in change)
        lasting = (item.on, item.off, item.period, item.spread, toggle_first, len(toggles))
        drift = item.drift if abs(item.drift) > _NO_DRIFT else 0.0
        faults = (int(item.leave == "lose"), item.loss, drift, change_first, len(item.changes))
        rows.append((_CODES[item.name], *lasting, *faults))
    return rows


@bare
def first_toggle(groups: Records, group: int, client: int, key: np.uint64, numbers: Floats) -> tuple[bool, float]:
    """Return whether the client is online at time 0, and when that changes for the first time."""
    mine = groups[group]
    if mine.kind == ALWAYS:
        return True, np.inf
    if mine.kind == TABLE:
        start = numbers[mine.toggle_first]
        return (False, start) if start > 0.0 else (True, _table_toggle(groups, group, 1, numbers))
    stream = named(key, client, 0)
    u = unit(mix(stream + MOVE))
    if mine.kind == DIURNAL:
        phase = u * mine.spread * mine.period  # comes at phase, phase + period, ...
        leaves = phase + mine.on - mine.period
        return (True, leaves) if leaves > 0.0 else (phase == 0.0, mine.on if phase == 0.0 else phase)
    there = u < mine.on / (mine.on + mine.off)
    x, _ = exponential(stream + MOVE, EDGE, HEIGHT)
    return there, x * (mine.on if there else mine.off)


@bare
def next_toggle(
    groups: Records, group: int, client: int, key: np.uint64, there: bool, now: float, nth: int, numbers: Floats
) -> float:
    """Return when the client changes next after its nth change, which happens now and makes it `there` or not."""
    mine = groups[group]
    if mine.kind == DIURNAL:
        return now + (mine.on if there else mine.period - mine.on)
    if mine.kind == CHURN:
        x, _ = exponential(named(key, client, nth), EDGE, HEIGHT)
        return now + x * (mine.on if there else mine.off)
    begins_there = numbers[mine.toggle_first] <= 0.0
    return _table_toggle(groups, group, nth + 1 if begins_there else nth, numbers)


@inlined
def _table_toggle(groups: Records, group: int, index: int, numbers: Floats) -> float:
    """Return the time of the index-th entry of a table that repeats with its period."""
    size, first = groups[group].toggle_size, groups[group].toggle_first
    if np.isinf(groups[group].period):
        return numbers[first + index] if index < size else np.inf
    return numbers[first + index % size] + (index // size) * groups[group].period


@bare
def finish(groups: Records, group: int, now: float, work: float, numbers: Floats) -> float:
    """Return when a client that begins now has done `work`, in units of time at the fleet's rate; inf = never.

    The rate is integrated: from one jump to the next it is factor * exp(drift * t). With a negative drift the total
    work that a client can do is bounded, and more work than that never ends.
    """
    mine = groups[group]
    first, size = mine.change_first, mine.change_size
    factor = 1.0
    for index in range(size):
        jump = numbers[first + 2 * index]
        if jump > now:
            end = now + _lasting(work, factor, mine.drift, now)
            if end <= jump:
                return end
            work = max(0.0, work - _done(factor, mine.drift, now, jump))
            now = jump
        factor = numbers[first + 2 * index + 1]
    return now + _lasting(work, factor, mine.drift, now)


@bare
def work_until(groups: Records, group: int, now: float, end: float, numbers: Floats) -> float:
    """Return the work that a client does from now until `end`; inf if `end` is infinite."""
    if end == np.inf:
        return np.inf
    mine = groups[group]
    first, size = mine.change_first, mine.change_size
    factor = 1.0
    work = 0.0
    for index in range(size):
        jump = min(numbers[first + 2 * index], end)
        if jump > now:
            work += _done(factor, mine.drift, now, jump)
            now = jump
        factor = numbers[first + 2 * index + 1]
    return work + _done(factor, mine.drift, now, end)


@inlined
def _lasting(work: float, factor: float, drift: float, now: float) -> float:
    """Return how long work takes that begins now, if the rate does not jump."""
    if drift == 0.0:
        return work / factor
    x = work * drift / (factor * np.exp(drift * now))
    return np.log1p(x) / drift if x > -1.0 else np.inf


@inlined
def _done(factor: float, drift: float, now: float, end: float) -> float:
    """Return the work done from now until `end`, if the rate does not jump."""
    if drift == 0.0 or end <= now:
        return factor * (end - now)
    return factor * np.exp(drift * now) * np.expm1(drift * (end - now)) / drift
