"""A plan in words: a plan file, or sampling as `uniform`, `speed`, `name=probability,...` or a CSV file."""

import os
from pathlib import Path

from sojourn.csv_file import read_csv
from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.fleet import Fleet
from sojourn.own_code import object_or
from sojourn.plan import Plan
from sojourn.shown import short


def plan_of(fleet: Fleet, sampling: str | None, plan: str | Path | None, tasks: int | None) -> Plan:
    """The plan that these words describe; by default uniform with as many tasks as clients."""
    if plan is not None:
        if sampling is not None:
            raise InvalidInput("plan and sampling exclude each other, got both; a plan has its own sampling")
        made: Plan = object_or(plan, Plan.load)
        made.check(fleet)
        if tasks is None:
            return made
        return Plan(made.name, made.count, made.sampling, tasks, made.step_size, fleet_hash=made.fleet_hash)
    if tasks is None:
        tasks = fleet.clients
    if sampling in (None, "uniform"):
        return Plan.uniform(fleet, tasks)
    if sampling == "speed":
        return Plan.by_speed(fleet, tasks)
    return Plan.of(fleet, _probabilities(str(sampling)), tasks)


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
