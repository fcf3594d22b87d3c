"""Availability: when clients are online, which tasks are lost, and how service rates change.

always     online all the time
churn      online for an exponential time of mean `on`, then away for an exponential time of mean `off`
diurnal    online for `on` out of every `period`; each client has a phase of its own (`spread` of the period)
table      online during given intervals, repeated every `period` where a period is given

A client that leaves stops working. With leave=pause it later goes on where it stopped; with leave=lose the task in
service is lost. Tasks sent to an absent client wait in its queue. A lost task is replaced at once by a new one, so that
C tasks stay in flight.

A rate may drift and jump: a service of w units of work that begins at t ends at the t' at which the integral of the
rate from t to t' is w. With a negative drift the integral is bounded: a service that needs more never ends, and keeps
its client. Once that holds for every task in flight, or 20 million events pass without an applied update, because
clients come and go or tasks are lost, the run stops with an error.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from numbers import Real
from pathlib import Path
from typing import Any

from sojourn.csv_file import read_lines
from sojourn.errors import InvalidInput
from sojourn.files import read_toml
from sojourn.fleet import Fleet
from sojourn.shown import short
from sojourn.text import parse_call
from sojourn.values import items, number, numbers, table, text

KINDS = ("always", "churn", "diurnal", "table")
_OPTIONS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("on", "off", "period", "spread", "loss", "drift"), float),
    "leave": str,
}


@dataclass(frozen=True)
class Availability:
    """When the clients of some groups are online, and what happens to their tasks and rates. Times are in seconds.

    >>> Availability.parse("churn(on=100, off=20, leave=lose)").leave
    'lose'
    """

    name: str = "always"
    """One of `KINDS`."""
    on: float = math.nan
    """churn: mean time online; diurnal: time online in each period."""
    off: float = math.nan
    """churn: mean time away."""
    period: float = math.inf
    """diurnal, table: length of a cycle."""
    spread: float = 1.0
    """diurnal: part of the period over which the clients' phases are spread evenly at random."""
    intervals: tuple[tuple[float, float], ...] = ()
    """table: when the clients are online, as pairs (from, to)."""
    leave: str = "pause"
    """What happens to the task in service when its client leaves: pause or lose."""
    loss: float = 0.0
    """Probability that a finished task is lost on its way back."""
    drift: float = 0.0
    """Relative change of the rate per second: the rate at time t is rate * exp(drift * t),
    integrated over a service.
    """
    changes: tuple[tuple[float, float], ...] = ()
    """Jumps of the rate as pairs (time, factor): from that time on, also within a service, the rate is the fleet's rate
    times the factor."""
    groups: tuple[str, ...] | None = None
    """Groups to which it applies; None = all."""

    def __post_init__(self) -> None:
        if self.name not in KINDS:
            raise InvalidInput(f"availability must be one of {', '.join(KINDS)}, got '{self.name}'")
        if self.leave not in ("pause", "lose"):
            raise InvalidInput(f"availability {self.name}: leave must be pause or lose, got '{self.leave}'")
        if not 0 <= self.loss < 1:
            raise InvalidInput(f"availability {self.name}: loss must be a probability below 1, got {self.loss}")
        if not math.isfinite(self.drift):
            raise InvalidInput(f"availability {self.name}: drift must be finite, got {self.drift}")
        for key in ("intervals", "changes"):
            self._check_pairs(key)
        if any(not (at >= 0 and math.isfinite(at) and 0 < factor < math.inf) for at, factor in self.changes):
            raise InvalidInput(
                f"availability: changes must be pairs (time >= 0, factor > 0), got {short(str(self.changes))}"
            )
        if self.name == "churn" and not (0 < self.on < math.inf and 0 < self.off < math.inf):
            raise InvalidInput(f"availability churn needs mean times on and off > 0, got {self.on} and {self.off}")
        if self.name == "diurnal":
            if not 0 < self.on < self.period < math.inf:
                raise InvalidInput(f"availability diurnal needs 0 < on < period, got {self.on} and {self.period}")
            if not 0 <= self.spread <= 1:
                raise InvalidInput(f"availability diurnal: spread must be between 0 and 1, got {self.spread}")
        if self.name == "table":
            self._check_intervals()

    def _check_pairs(self, key: str) -> None:
        for pair in getattr(self, key):
            whole = isinstance(pair, list | tuple) and len(pair) == 2
            if not (whole and all(isinstance(number, Real) for number in pair)):
                words = "(from, to)" if key == "intervals" else "(time, factor)"
                raise InvalidInput(f"availability {self.name}: {key} must be pairs {words}, got {short(str(pair))}")

    def _check_intervals(self) -> None:
        flat = [time for interval in self.intervals for time in interval]
        if not flat or flat[0] < 0 or any(not a < b for a, b in pairwise(flat)):
            got = short(str(self.intervals))
            raise InvalidInput(f"availability table needs increasing, disjoint (from, to), got {got}")
        if flat[-1] > self.period:
            raise InvalidInput(f"availability table: intervals must end by the period {self.period}, got {flat[-1]}")

    @classmethod
    def parse(cls, text: str) -> "Availability":
        """Read the text form of an availability, which then applies to all groups."""
        name, options = parse_call("availability", text, _OPTIONS)
        return cls(name, **options)

    @classmethod
    def load(cls, path: str | Path) -> tuple["Availability", ...]:
        """Read a TOML file of [[availability]] tables, or a CSV of intervals with the columns group,from,to."""
        source = Path(path)
        if source.suffix == ".csv":
            return _from_csv(source)
        tables = read_toml(source, "availability file").get("availability", [])
        if not isinstance(tables, list) or not tables:
            raise InvalidInput(f"{path}: availability must be a list of [[availability]] tables, got none")
        return tuple(_from_table(source, one) for one in tables)


def of_groups(fleet: Fleet, availability: Sequence[Availability]) -> list[Availability]:
    """Return what applies to each group; if several do, the last one counts.

    >>> fleet = Fleet.of(fast=(2, 4.0), slow=(2, 1.0))
    >>> [one.loss for one in of_groups(fleet, [Availability(loss=0.1), Availability(loss=0.2, groups=("slow",))])]
    [0.1, 0.2]
    """
    chosen = [Availability()] * fleet.groups
    for item in availability:
        for group in range(fleet.groups) if item.groups is None else [fleet.index(name) for name in item.groups]:
            chosen[group] = item
    return chosen


_Reader = Callable[[Any, str], Any]
"""A reader: a function of a value and its name."""


def _from_table(path: Path, given: Any) -> Availability:
    known: dict[str, _Reader] = {item.name: _READERS.get(item.name, number) for item in fields(Availability)}
    try:
        found = table(given, "[[availability]]")
        for key in found:
            if key not in known:
                raise InvalidInput(f"unknown key '{key}' in [[availability]]; the keys are {', '.join(sorted(known))}")
        return Availability(**{key: known[key](value, key) for key, value in found.items()})
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None


def _pairs(value: Any, what: str) -> tuple[tuple[float, float], ...]:
    found = [numbers(pair, f"a pair of {what}") for pair in items(value, what)]
    if any(len(pair) != 2 for pair in found):
        raise InvalidInput(f"{what} must hold pairs of numbers, got {found}")
    return tuple((one, other) for one, other in found)


def _names(value: Any, what: str) -> tuple[str, ...]:
    return tuple(text(one, f"a name of {what}") for one in items(value, what))


_READERS: dict[str, _Reader] = {
    "name": text,
    "leave": text,
    "groups": _names,
    "intervals": _pairs,
    "changes": _pairs,
}


def _from_csv(path: Path) -> tuple[Availability, ...]:
    intervals: dict[str, list[tuple[float, float]]] = {}
    lines = read_lines(path, "availability file")
    head = next(lines, (0, []))[1]
    if sorted(head) != ["from", "group", "to"]:
        raise InvalidInput(f"{path}: columns must be group,from,to, got {','.join(head)}")
    for line, cells in lines:
        if not cells:
            continue
        if len(cells) != len(head):
            raise InvalidInput(f"{path}, line {line}: an interval is group,from,to, got {len(cells)} cells")
        try:
            row = dict(zip(head, cells, strict=True))
            intervals.setdefault(row["group"], []).append((float(row["from"]), float(row["to"])))
        except ValueError:
            raise InvalidInput(f"{path}, line {line}: from and to must be numbers, got {', '.join(cells)}") from None
    if not intervals:
        raise InvalidInput(f"{path}: an availability needs at least one interval, got none; add a row group,from,to")
    try:
        return tuple(
            Availability("table", intervals=tuple(sorted(spans)), groups=(group,) if group else None)
            for group, spans in intervals.items()
        )
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None
