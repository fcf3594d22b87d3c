"""Durations as people write them: `90s`, `1h`, `2 days`, `1h 30min`; a plain number is one of seconds.

A fleet's rates are per second, unless its file has a `time_unit`; then they are turned into those when it is read. So a
unit of time is a second everywhere, and whoever means another unit by their rates may leave all units out.
"""

import math
import re

from sojourn.errors import InvalidInput
from sojourn.shown import quoted

SECONDS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
    **dict.fromkeys(("w", "week", "weeks"), 604_800.0),
}
_PART = re.compile(r"\s*([0-9.][0-9._]*(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]+)\s*,?")


def seconds(given: str | float, what: str = "time") -> float:
    """The seconds of a duration.

    >>> seconds("90s"), seconds("1h 30min"), seconds("2 days"), seconds("1e3"), seconds(5)
    (90.0, 5400.0, 172800.0, 1000.0, 5.0)
    """
    if isinstance(given, int | float) and not isinstance(given, bool):
        return float(given)
    text = str(given).strip()
    try:
        return float(text.replace("_", ""))
    except ValueError:
        pass
    total, at = 0.0, 0
    while at < len(text) or not text:
        part = _PART.match(text, at)
        if part is None or part[2].lower() not in SECONDS:
            raise InvalidInput(
                f"{what} must be a number, or a duration such as 90s, 1h, 2 days or 1h 30min, got {quoted(given)}"
            )
        total, at = total + _number(part[1], given, what) * SECONDS[part[2].lower()], part.end()
    return total


def seconds_of_unit(unit: str) -> float:
    """How many seconds a unit of time has.

    >>> seconds_of_unit("h"), seconds_of_unit("minutes")
    (3600.0, 60.0)
    """
    found = SECONDS.get(unit.strip().lower())
    if found is None:
        raise InvalidInput(f"time_unit must be a unit of time such as s, min, h or day, got {quoted(unit)}")
    return found


def shown(value: float) -> str:
    """A duration as a person reads it.

    >>> shown(90.0), shown(5400.0), shown(0.25), shown(200_000.0)
    ('1.5 min', '1.5 h', '0.25 s', '2.31 days')
    """
    for unit, size in (("days", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if math.isfinite(value) and abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} s"


def _number(text: str, given: object, what: str) -> float:
    try:
        return float(text.replace("_", ""))
    except ValueError:
        raise InvalidInput(
            f"{what} must be a number with a unit, got {quoted(given)}; write for example 1.5h"
        ) from None
