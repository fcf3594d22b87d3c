"""Durations as people write them: `90s`, `1h`, `2 days`, `1h 30min`; a plain number counts seconds.

A fleet's rates are per second. Rates in a file with a `time_unit` are converted when it is read, so that the unit of
time is a second everywhere. If you think of your rates in another unit, leave out all units and read times in yours.
"""

import difflib
import math
import re

from sojourn.errors import InvalidInput
from sojourn.shown import quoted, short

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
    """Return a duration in seconds.

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
            kind = "positive number" if text.startswith("-") else "number"
            raise InvalidInput(
                f"{what} must be a {kind}, or a duration such as 90s, 1h, 2 days or 1h 30min, got {quoted(given)}"
                f"{_meant(text, part)}"
            )
        total, at = total + _number(part[1], given, what) * SECONDS[part[2].lower()], part.end()
    return total


def seconds_of_unit(unit: str) -> float:
    """Return how many seconds a unit of time has.

    >>> seconds_of_unit("h"), seconds_of_unit("minutes")
    (3600.0, 60.0)
    """
    found = SECONDS.get(unit.strip().lower())
    if found is None:
        raise InvalidInput(f"time_unit must be a unit of time such as s, min, h or day, got {quoted(unit)}")
    return found


def shown(value: float) -> str:
    """Return a duration as text for a person.

    >>> shown(90.0), shown(5400.0), shown(0.25), shown(200_000.0)
    ('1.5 min', '1.5 h', '0.25 s', '2.31 days')
    """
    for unit, size in (("days", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if math.isfinite(value) and abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} s"


def _meant(text: str, part: re.Match[str] | None) -> str:
    """Return the duration that was probably meant, as the end of a sentence; empty if there is none."""
    unit = "" if part is None else part[2].lower()
    near = ["min"] if unit == "m" else difflib.get_close_matches(unit, SECONDS, n=1)
    if part is None or not near:
        return ""
    return f"; did you mean {short(text[: part.start(2)] + near[0] + text[part.end(2) :])}?"


def _number(text: str, given: object, what: str) -> float:
    try:
        return float(text.replace("_", ""))
    except ValueError:
        raise InvalidInput(
            f"{what} must be a number with a unit, got {quoted(given)}; write for example 1.5h"
        ) from None
