"""A plan from text: a plan file, or sampling given as a name, `speed^0.5`, `name=weight,...` or a CSV file."""

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.csv_file import read_csv
from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.fleet import Fleet
from sojourn.own_code import object_or
from sojourn.plan import SUM_TOLERANCE, Plan
from sojourn.shown import short
from sojourn.text import nearest

NAMES = {"uniform": 0.0, "root-speed": 0.5, "speed": 1.0}
"""Samplings that have a name, each with its power of the speed."""
FORMS = "uniform, speed, root-speed, speed^0.5, name=weight,... or a CSV file"
FEW = 4  # a message lists the probabilities of at most this many groups


def plan_of(
    fleet: Fleet,
    sampling: str | None,
    plan: str | Path | None,
    tasks: int | None,
    cap: str | None = None,
    correction: float | None = None,
) -> Plan:
    """Return the plan that these texts describe; by default uniform with as many tasks as clients.

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
        changes: dict[str, Any] = {
            "objective": None,
            "promises": {},
        }  # a changed plan no longer has the predictions of the old one
        changes |= {} if tasks is None else {"concurrency": tasks}
        changes |= {} if cap is None else {"cap": cap}
        return replace(made, **changes)
    if tasks is None:
        tasks = fleet.clients
    text = "uniform" if sampling is None else sampling.strip()
    power = _power(text)
    if power is not None:
        return Plan.weighted(fleet, _powers(fleet, power), tasks, cap=cap)
    given = _weights(text)
    if cap is None and _unnormalised(fleet, given):
        return Plan.weighted(fleet, [given[name] for name in fleet.name], tasks, cap=cap)
    return Plan.of(fleet, given, tasks, cap=cap)


def by_power(sampling: str | None) -> bool:
    """Whether a sampling is a power of the speed, so that it can be worked out for any fleet.

    >>> by_power("root-speed"), by_power(None), by_power("fast=3,slow=1")
    (True, True, False)
    """
    return sampling is None or _power(sampling.strip()) is not None


def sampling_note(fleet: Fleet, sampling: str | None, cap: str | None = None) -> str | None:
    """Return a note about weights that were turned into probabilities; None if there is nothing to note."""
    if sampling is None or cap is not None or _power(sampling.strip()) is not None:
        return None
    given = _weights(sampling.strip())
    if not _unnormalised(fleet, given):
        return None
    total = _total(fleet, given)
    shown = ", ".join(f"'{name}' {given[name] / total:.4g}" for name in fleet.name[:FEW])
    more = "" if fleet.groups <= FEW else ", ..."
    clients = f"over all {fleet.clients:,} clients"
    return f"the weights of --sampling sum to {total:.9g} {clients} and were divided by it: {shown}{more} per client"


def _power(text: str) -> float | None:
    """Return the power of speed that a text names; None if it has another form."""
    if text in NAMES:
        return NAMES[text]
    name, hat, power = (part.strip() for part in text.partition("^"))
    if not hat or name != "speed":
        return None
    try:
        found = float(power)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise InvalidInput(f"sampling speed^E must have a number E, got '{short(text)}'; write for example speed^0.5")
    return found


def _powers(fleet: Fleet, power: float) -> np.ndarray:
    if power in (0, 1):
        return fleet.rate**power
    logs = power * np.log(fleet.rate)
    weights: np.ndarray = np.exp(logs - logs.max())
    if not (weights > 0).all():
        raise InvalidInput(
            f"sampling speed^{power:g} must leave every client a probability above 0, got 0 for some; "
            "use a power nearer to 0"
        )
    return weights


def _unnormalised(fleet: Fleet, given: dict[str, float]) -> bool:
    """Whether these are weights of all groups that are not probabilities."""
    if set(given) != set(fleet.name) or not all(math.isfinite(one) and one > 0 for one in given.values()):
        return False
    return abs(_total(fleet, given) - 1) > SUM_TOLERANCE


def _total(fleet: Fleet, given: dict[str, float]) -> float:
    with np.errstate(over="ignore"):  # then it is infinite, and not 1
        return float((fleet.count * np.array([given[name] for name in fleet.name])).sum())


def cap_of(fleet: Fleet, text: str | None) -> list[float | None] | None:
    """Return the most tasks per client of each group, from `1`, `none`, or `name=2,name=none`; None
    if no cap is given.
    """
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


def _weights(text: str) -> dict[str, float]:
    if "=" not in text:
        return _from_file(Path(text))
    pairs: dict[str, float] = {}
    for part in text.split(","):
        name, separator, value = part.partition("=")
        if not separator or name.strip() in pairs:
            raise InvalidInput(f"sampling must read name=weight,... with each group once, got '{short(text)}'")
        pairs[name.strip()] = _probability(name.strip(), value)
    return pairs


def _from_file(path: Path) -> dict[str, float]:
    name = short(str(path))
    if not os.path.exists(path):
        raise UnreadableFile(f"sampling must be {FORMS}; there is no file '{name}'{nearest(name, NAMES)}")
    rows = read_csv(path, "sampling file")
    column = "weight" if rows and "weight" in rows[0] else "probability"
    if not rows or set(rows[0]) != {"name", column}:
        found = ", ".join(rows[0]) if rows else "no rows"
        raise InvalidInput(
            f"sampling file {path} must have the columns name,probability (or name,weight) and a row per group, "
            f"got {found}"
        )
    pairs: dict[str, float] = {}
    for row in rows:
        name = row["name"].strip()
        if name in pairs:
            raise InvalidInput(f"sampling file {path} must name each group once, got '{name}' twice; keep one row")
        pairs[name] = _probability(name, row[column])
    return pairs


def _probability(name: str, text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise InvalidInput(f"sampling of '{name}' must be a number, got '{short(str(text))}'") from None
