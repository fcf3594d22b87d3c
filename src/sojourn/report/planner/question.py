"""Questions to the planner page: what a page may send, with limits, and which field a refusal belongs to.

A question is a table of plain values, as a page sends it: `groups` (rows as in a fleet file), `cap`, `concurrency`,
`sampling`, `correction` and `time`. What is missing has the value of the recommended policy.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isfinite
from typing import Any

from sojourn.errors import InvalidInput, SojournError
from sojourn.fleet import Fleet
from sojourn.fleet_file import COLUMNS, columns_of
from sojourn.laws.law import Law
from sojourn.plan import Plan
from sojourn.plan_text import NAMES, by_power, plan_of
from sojourn.planning.advice import budget
from sojourn.planning.policy import CORRECTION, SCHEDULE
from sojourn.report.planner.steps import MOST_TASKS, first_time
from sojourn.scenario import Scenario
from sojourn.shown import quoted
from sojourn.timing.exact.analysis import Analysis
from sojourn.timing.expected import expected
from sojourn.values import items, number, table, text

MOST_CLIENTS = 100_000
MOST_GROUPS = 2_000
MOST_CAP = 20
LONGEST = 1e10  # seconds: three hundred years
RATES = 1e-12, 1e12  # per second; beyond them answers stop being numbers
MOST_TEXT = 200  # characters of a cell
MOST_LAW = 131_072  # characters of a law, as in a cell of a CSV file: it may list 2,000 measured durations
MOST_ROWS = 15_000_000  # bytes of a fleet's rows: 100 groups with three such laws each
KEYS = ("groups", "cap", "concurrency", "sampling", "correction", "time", "which")
KEPT = 64  # plans and answers that are kept, so that going back costs nothing
KEPT_ROWS = 16  # fleets that are found again by their rows, which may be long
KEPT_LAWS = 1000


class Refused(InvalidInput):
    """A question that is not answered, and the field of the page that it is about."""

    def __init__(self, message: object, field: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class Knobs:
    """A policy as the page sets it."""

    cap: int | None
    """Most tasks that a client may hold; None = any number."""
    tasks: int
    """Tasks in flight."""
    sampling: str = "uniform"
    """A power of the speed, in words."""
    correction: float = CORRECTION
    """Exponent of an update's weight."""

    def plan(self, fleet: Fleet) -> Plan:
        """Return the policy as a plan for a fleet."""
        made = plan_of(fleet, self.sampling, None, self.tasks, cap=None if self.cap is None else str(self.cap))
        return replace(made, correction=self.correction, schedule=SCHEDULE)


@dataclass(frozen=True, eq=False)
class Question:
    """A fleet, a policy and a budget of time."""

    fleet: Fleet
    knobs: Knobs
    """The policy: cap, tasks in flight, sampling and correction."""
    time: float
    """The budget in seconds."""
    recommended: bool = False
    """Whether the plan to hand out is the recommended one."""

    @classmethod
    def of(cls, asked: Any) -> "Question":
        """Read a question; whatever is wrong with it is refused in one sentence.

        >>> row = {"name": "fast", "count": 9, "rate": 8.0}
        >>> Question.of({"groups": [row], "cap": 1, "concurrency": "4"}).knobs.tasks
        4
        """
        with _about("question"):
            told = table(asked, "a question")
            for key in told:
                if key not in KEYS:
                    raise InvalidInput(f"a question has no '{key}'; it has {', '.join(KEYS)}")
        with _about("fleet"):
            fleet = fleet_from(told.get("groups"))
        knobs = _knobs(fleet, told)
        with _about("time"):
            time = _time(told["time"]) if "time" in told else first_time(fleet, analysis(fleet, knobs).throughput)
        return cls(fleet, knobs, time, told.get("which") == "recommended")


def fleet_from(rows: Any) -> Fleet:
    """Return the fleet of these rows, each a table with the columns of a fleet file."""
    listed = items(rows, "groups")
    if len(listed) > MOST_GROUPS:
        raise InvalidInput(
            f"the page takes at most {MOST_GROUPS:,} groups, got {len(listed):,}; the command sojourn plan takes more"
        )
    fleet = _made(json.dumps(listed))
    check_fleet(fleet)
    return fleet


def check_fleet(fleet: Fleet) -> None:
    """Refuse a fleet for which the page could not answer at once, or not in numbers."""
    if fleet.groups > MOST_GROUPS or fleet.clients > MOST_CLIENTS:
        raise InvalidInput(
            f"the page takes at most {MOST_GROUPS:,} groups and {MOST_CLIENTS:,} clients, got {fleet.groups:,} and "
            f"{fleet.clients:,}; the command sojourn plan takes more"
        )
    least, most = RATES
    for column in ("rate", "uplink_rate", "downlink_rate"):
        for name, rate in zip(fleet.name, getattr(fleet, column), strict=True):
            if isfinite(rate) and not least <= rate <= most:  # no link has an infinite rate
                raise InvalidInput(
                    f"{column} of group {quoted(name)} must be from {least:g} to {most:g} per second, got {rate:g}; "
                    "is it in another unit?"
                )


@lru_cache(KEPT_ROWS)
def _made(rows: str) -> Fleet:
    """Return the fleet of rows that are written as JSON; the last ones are kept, since a page asks about one often."""
    columns: dict[str, Any] = dict(columns_of(_rows(json.loads(rows))))
    columns.update({key: list(map(_shared, columns[key])) for key in COLUMNS if key.endswith("law")})
    return Fleet(**columns)


@lru_cache(KEPT_LAWS)
def _shared(law: Law) -> Law:
    """Return one object for equal laws, so that a fleet that is typed into does not hold long laws many times."""
    return law


def rows_for(fleet: Fleet) -> list[dict[str, Any]]:
    """Return a fleet as rows; one whose rows the page could not send back is refused."""
    check_fleet(fleet)
    rows = rows_of(fleet)
    size = len(json.dumps(rows, ensure_ascii=False).encode(errors="replace"))
    if size > MOST_ROWS:
        raise InvalidInput(
            f"the page takes fleets of at most {MOST_ROWS / 1e6:g} MB, with the durations that their laws list, got "
            f"{size / 1e6:.3g} MB; the command sojourn plan takes more"
        )
    for _ in _rows(rows):  # cells of a file may be longer than those of a page
        pass
    return rows


def rows_of(fleet: Fleet) -> list[dict[str, Any]]:
    """Return a fleet as rows that `fleet_from` takes; columns that hold only defaults are left out."""
    bare = Fleet(fleet.name, fleet.count, fleet.rate)._columns()
    columns = fleet._columns()
    kept = [key for key in COLUMNS if key in ("name", "count", "rate") or str(columns[key]) != str(bare[key])]
    cells = {key: [_plain(value) for value in columns[key]] for key in kept}
    return [{key: cells[key][row] for key in kept if cells[key][row] != ""} for row in range(fleet.groups)]


def _plain(value: Any) -> Any:
    """Return a cell as JSON holds it; what is not stated, or no link, is an empty cell."""
    if isinstance(value, float):
        return value if value not in (float("inf"),) and value == value else ""
    return value if isinstance(value, int) else str(value)


def _rows(listed: list[Any]) -> Iterator[tuple[str, dict[str, object]]]:
    for number_, one in enumerate(listed, start=1):
        where = f"row {number_}"
        row = table(one, where)
        for key, value in row.items():
            if key not in COLUMNS:
                raise InvalidInput(f"{where}: unknown column {quoted(key)}; the columns are {', '.join(COLUMNS)}")
            most = MOST_LAW if key.endswith("law") else MOST_TEXT
            if not isinstance(value, str | int | float) or isinstance(value, bool) or len(str(value)) > most:
                raise InvalidInput(
                    f"{where}: {key} must be a number or a text of at most {most:,} characters, got {quoted(value)}; "
                    "shorten it"
                )
        yield where, {key: _cell(value) for key, value in row.items() if _cell(value) != ""}


def _cell(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


def _time(given: Any) -> float:
    if not isinstance(given, str | int | float) or isinstance(given, bool):
        raise InvalidInput(f"time must be a number of seconds or a duration such as 1h, got {quoted(given)}")
    time = budget(given[:MOST_TEXT] if isinstance(given, str) else given)
    if time > LONGEST:
        raise InvalidInput(f"time must be at most {LONGEST:g} seconds, got {time:g}; give a shorter one")
    return time


def _knobs(fleet: Fleet, told: dict[str, Any]) -> Knobs:
    """Return the policy that a question describes, after a plan could be made of it."""
    with _about("cap"):
        cap = _cap(told.get("cap", 1))
    with _about("correction"):
        correction = number(told.get("correction", CORRECTION), "correction")
        if not 0 <= correction <= 1:
            raise InvalidInput(f"correction must be a number from 0 (none) to 1 (unbiased), got {correction:g}")
    with _about("sampling"):
        sampling = text(told.get("sampling", "uniform"), "sampling").strip()[:MOST_TEXT]
        if not by_power(sampling):  # a text of another form may name a file
            raise InvalidInput(f"sampling must be {', '.join(NAMES)} or speed^0.5, got {quoted(sampling)}")
        plan_of(fleet, sampling, None, 1)
    with _about("concurrency"):
        knobs = Knobs(cap, _tasks(told.get("concurrency", fleet.clients)), sampling, correction)
        made_plan(fleet, knobs)
    return knobs


@lru_cache(KEPT)
def made_plan(fleet: Fleet, knobs: Knobs) -> Plan:
    """Return a policy as a plan; the last ones are kept."""
    return knobs.plan(fleet)


@lru_cache(KEPT)
def analysis(fleet: Fleet, knobs: Knobs) -> Analysis:
    """Return the exact analysis of a policy; the correction has no part in it."""
    return expected(fleet, made_plan(fleet, replace(knobs, correction=0.0)), Scenario())


def _cap(given: Any) -> int | None:
    if given is None or given == "none":
        return None
    found = _whole(given)
    if found is None or not 1 <= found <= MOST_CAP:
        raise InvalidInput(
            f"cap must be none, or a whole number from 1 (nobody waits) to {MOST_CAP}, got {quoted(given)}"
        )
    return found


def _tasks(given: Any) -> int:
    found = _whole(given)
    if found is None or not 1 <= found <= MOST_TASKS:
        raise InvalidInput(f"concurrency must be a whole number from 1 to {MOST_TASKS:,}, got {quoted(given)}")
    return found


def _whole(given: Any) -> int | None:
    """Return a whole number that may have been typed; None if it is none."""
    if isinstance(given, str):
        typed = given.strip().replace(",", "")
        return int(typed) if typed.isdecimal() and len(typed) < 12 else None
    return given if isinstance(given, int) and not isinstance(given, bool) else None


@contextmanager
def _about(field: str) -> Iterator[None]:
    """Say of a refusal in the block which field it is about."""
    try:
        yield
    except SojournError as error:
        raise Refused(error, field) from None
