"""A plan in words: a plan file, or sampling as `uniform`, `speed`, `name=probability,...` or a CSV file."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from sojourn.csv_file import read_csv
from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.fleet import Fleet
from sojourn.own_code import object_or
from sojourn.plan import Plan
from sojourn.shown import short


def plan_of(
    fleet: Fleet,
    sampling: str | None,
    plan: str | Path | None,
    tasks: int | None,
    cap: str | None = None,
    correction: float | None = None,
) -> Plan:
    """The plan that these words describe; by default uniform with as many tasks as clients.

    >>> fleet = Fleet.of(fast=(2, 4.0), slow=(2, 1.0))
    >>> plan_of(fleet, None, None, None, cap="1").one_each
    True
    >>> plan_of(fleet, "fast=3,slow=1", None, 3, cap="fast=2,slow=none").cap
    array([ 2., inf])
    """
    made = _plan_of(fleet, sampling, plan, tasks, cap_of(fleet, cap))
    return made if correction is None else replace(made, correction=correction)


def _plan_of(
    fleet: Fleet, sampling: str | None, plan: str | Path | None, tasks: int | None, cap: list[float | None] | None
) -> Plan:
    if plan is not None:
        if sampling is not None:
            raise InvalidInput("plan and sampling exclude each other, got both; a plan has its own sampling")
        made: Plan = object_or(plan, Plan.load)
        made.check(fleet)
        if tasks is None and cap is None:
            return made
        changes: dict[str, Any] = {"objective": None, "promises": {}}  # another plan than the one that promises
        changes |= {} if tasks is None else {"concurrency": tasks}
        changes |= {} if cap is None else {"cap": cap}
        return replace(made, **changes)
    if tasks is None:
        tasks = fleet.clients
    if sampling in (None, "uniform"):
        return Plan.uniform(fleet, tasks, cap=cap)
    if sampling == "speed":
        return Plan.by_speed(fleet, tasks, cap=cap)
    return Plan.of(fleet, _probabilities(str(sampling)), tasks, cap=cap)


def cap_of(fleet: Fleet, text: str | None) -> list[float | None] | None:
    """Most tasks of a client of each group, from `1`, `none`, or `name=2,name=none`; None = nothing is said."""
    if text is None:
        return None
    if "=" not in text:
        return [_most(text)] * fleet.groups
    found: dict[int, float | None] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        group = fleet.index(name.strip())
        if group in found:
            raise InvalidInput(f"cap must name each group once, got '{name.strip()}' twice; keep one")
        found[group] = _most(value)
    return [found.get(group) for group in range(fleet.groups)]


def _most(text: str) -> float | None:
    word = text.strip()
    if word == "none":
        return None
    if not word.isdecimal():
        raise InvalidInput(
            f"cap must be a whole number, none, or name=number,..., got '{short(text)}'; 1 = nobody waits"
        )
    return float(word)


def _probabilities(text: str) -> dict[str, float]:
    if "=" not in text:
        return _from_file(Path(text))
    pairs: dict[str, float] = {}
    for part in text.split(","):
        name, separator, value = part.partition("=")
        if not separator or name.strip() in pairs:
            raise InvalidInput(f"sampling must read name=probability,... with each group once, got '{short(text)}'")
        pairs[name.strip()] = _probability(name.strip(), value)
    return pairs


def _from_file(path: Path) -> dict[str, float]:
    name = short(str(path))
    if not os.path.exists(path):
        raise UnreadableFile(
            f"sampling must be uniform, speed, name=probability,... or a CSV file; there is no file '{name}'"
        )
    rows = read_csv(path, "sampling file")
    if not rows or set(rows[0]) != {"name", "probability"}:
        found = ", ".join(rows[0]) if rows else "no rows"
        raise InvalidInput(
            f"sampling file {path} must have the columns name,probability and a row a group, got {found}"
        )
    pairs: dict[str, float] = {}
    for row in rows:
        name = row["name"].strip()
        if name in pairs:
            raise InvalidInput(f"sampling file {path} must name each group once, got '{name}' twice; keep one row")
        pairs[name] = _probability(name, row["probability"])
    return pairs


def _probability(name: str, text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise InvalidInput(f"sampling of '{name}' must be a number, got '{short(str(text))}'") from None
