"""Availability laid out for compiled code: when a client comes or goes next, what is lost, how fast it is now."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.compiled import bare, inlined
from sojourn.fleet import Fleet
from sojourn.simulation.availability import Availability
from sojourn.simulation.draws import named
from sojourn.simulation.streams import EDGE, HEIGHT, MOVE, exponential, mix, unit

Floats = NDArray[np.float64]
Records = NDArray[Any]

ALWAYS, CHURN, DIURNAL, TABLE = range(4)
_CODES = {"always": ALWAYS, "churn": CHURN, "diurnal": DIURNAL, "table": TABLE}

SCHEDULE = [
    *[("kind", "i8"), ("on", "f8"), ("off", "f8"), ("period", "f8"), ("spread", "f8")],
    *[("toggle_first", "i8"), ("toggle_size", "i8")],  # table: coming, going, coming, ... among the numbers
    *[("lose", "i8"), ("loss", "f8"), ("drift", "f8")],
    *[("change_first", "i8"), ("change_size", "i8")],  # time, factor, time, factor, ... among the numbers
]


def schedule_fields(
    fleet: Fleet, availability: Sequence[Availability], numbers: list[float]
) -> list[tuple[float | int, ...]]:
    """The fields of each group; where several availabilities apply to a group the last one counts."""
    chosen = [Availability()] * fleet.groups
    for item in availability:
        for group in range(fleet.groups) if item.groups is None else [fleet.index(name) for name in item.groups]:
            chosen[group] = item
    rows: list[tuple[float | int, ...]] = []
    for item in chosen:
        toggles = [time for span in item.intervals for time in span if np.isfinite(time)]
        toggle_first = len(numbers)
        numbers.extend(toggles)
        change_first = len(numbers)
        numbers.extend(value for change in sorted(item.changes) for value in change)
        lasting = (item.on, item.off, item.period, item.spread, toggle_first, len(toggles))
        faults = (int(item.leave == "lose"), item.loss, item.drift, change_first, len(item.changes))
        rows.append((_CODES[item.name], *lasting, *faults))
    return rows


@bare
def first_toggle(groups: Records, group: int, client: int, key: np.uint64, numbers: Floats) -> tuple[bool, float]:
    """Whether the client is there at time 0, and when that changes for the first time."""
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
    """When the client changes again after its nth change, now, which made it `there` or not."""
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
    """Time of the index-th entry of a table that repeats with its period."""
    size, first = groups[group].toggle_size, groups[group].toggle_first
    if np.isinf(groups[group].period):
        return numbers[first + index] if index < size else np.inf
    return numbers[first + index % size] + (index // size) * groups[group].period


@bare
def speed(groups: Records, group: int, now: float, numbers: Floats) -> float:
    """Factor of the rate at time `now`."""
    factor = 1.0
    first = groups[group].change_first
    for index in range(groups[group].change_size):
        if numbers[first + 2 * index] > now:
            break
        factor = numbers[first + 2 * index + 1]
    drift = groups[group].drift
    return factor * np.exp(drift * now) if drift != 0.0 else factor
