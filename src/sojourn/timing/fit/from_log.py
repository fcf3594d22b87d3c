"""Fit a log: devices are put into groups by speed, and the groups are fitted like those of a trace.

The tasks of a log become a trace: devices are clients, numbered group by group, and every task is applied when it is
finished. So everything about fitting traces also holds for logs: laws, intervals, tests, drift.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from sojourn.csv_file import write_csv
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.laws.law import Law
from sojourn.shown import quoted, short
from sojourn.timing.fit.from_trace import Fit, fit_trace
from sojourn.timing.fit.notes import of_few
from sojourn.timing.fit.speed_groups import CLEAR, SpeedGroups, speed_groups
from sojourn.timing.log.log import Log, LogOptions, read_log
from sojourn.types import Integers

NAMES = {1: ("all",), 2: ("fast", "slow"), 3: ("fast", "medium", "slow")}
DOUBTED = 0.03  # a note is made if more than this part of the devices may be in a wrong group
ONE_EACH = 20  # from this many devices on it is suspicious if each has only one task
WAY_OUT = "so that one rate is a mean of several (more groups, or groups = device, --groups device, tell them apart)"


@dataclass(frozen=True, eq=False)
class Devices:
    """The devices of a log, in the order of the fleet's clients."""

    log: Log
    group: Integers
    """Group of each device in the fleet."""
    criterion: dict[int, float]
    """BIC by number of groups; empty if the number was given."""

    def rows(self, fleet: Fleet) -> list[dict[str, Any]]:
        """Return one row per device: its name, its group and number in the fleet, and what was observed."""
        columns = zip(
            self.log.device, self.group.tolist(), self.log.tasks.tolist(), self.log.mean.tolist(), strict=True
        )
        return [
            {"device": name, "group": fleet.name[group], "client": client, "tasks": tasks, "mean_seconds": mean}
            for client, (name, group, tasks, mean) in enumerate(columns)
        ]

    def save(self, path: str | Path, fleet: Fleet) -> None:
        """Write the rows as CSV."""
        write_csv(Path(path), self.rows(fleet))


def fit_log(
    source: Any,
    *,
    groups: int | str = "auto",
    law: Law | str | None = None,
    confidence: float = 0.95,
    latest: float = 1.0,
    **options: Unpack[LogOptions],
) -> Fit:
    """Fit a fleet to a log: a CSV or Parquet file, a DataFrame or a dict of columns.

    `groups` is `auto` (as many as the devices' speeds show), a number of groups, or `device`: one group per device,
    with the device's name. `options` are those of `read_log`: the names of columns, words of success, the unit of time.

    >>> times = {"device": ["a", "a", "b", "b"] * 50, "seconds": [1.0, 1.2, 9.0, 10.0] * 50}
    >>> found = fit_log(times)
    >>> found.fleet.name, (1 / found.fleet.rate).round(2).tolist()
    (('a', 'b'), [1.1, 9.5])
    """
    wanted = _wanted(groups)
    log = read_log(source, **options)
    if latest < 1 and not log.timed:
        raise InvalidInput(f"latest needs a log that says when tasks began, got {latest} for a log of durations only")
    if not log.duration.any():
        where = f"log file {source}" if isinstance(source, str | Path) else "the log"
        many = "its only task takes" if log.duration.size == 1 else f"all its {log.duration.size:,} tasks take"
        raise InvalidInput(f"{where} must have tasks that take time, {many} 0 s; record times with a finer clock")
    said = [*log.notes, *_strange(log)]
    if wanted == "device":
        found = SpeedGroups(np.arange(len(log.device)), {})
        fleet = _fleet(_own_names(log.device), found)
        result = fit_trace(log.trace(), fleet, "client", law, confidence, latest)
    else:
        found = speed_groups(log.client, log.duration, wanted if isinstance(wanted, int) else None)
        order = np.argsort(found.label, kind="stable")
        log, found = log.renumbered(order), replace(found, label=found.label[order])
        fleet = _fleet(_group_names(log, found), found)
        result = fit_trace(log.trace(), fleet, "group", law, confidence, latest, WAY_OUT)
    said += [*_chosen(found), *of_few(result.observations, result.fleet.name)]
    return replace(result, notes=(*said, *result.notes), devices=Devices(log, found.label, found.criterion))


def _wanted(groups: int | str) -> int | str:
    text = str(groups).strip()
    if text in ("auto", "device"):
        return text
    if text.isdecimal() and len(text) < 10 and int(text) >= 1:
        return int(text)
    raise InvalidInput(f"groups must be auto, device or a number of groups, got {quoted(groups)}")


def _fleet(names: tuple[str, ...], found: SpeedGroups) -> Fleet:
    """Return the groups as a fleet, with rates that are not used."""
    return Fleet(names, np.bincount(found.label), np.ones(found.groups))


def _group_names(log: Log, found: SpeedGroups) -> tuple[str, ...]:
    """Return words such as fast and slow, or numbers by speed; a group of one device gets the name of the device."""
    many = found.groups
    usual = NAMES.get(many) or tuple(f"speed-{number + 1}" for number in range(many))
    size = np.bincount(found.label)
    alone = {int(group): name for name, group in zip(log.device, found.label, strict=True) if size[group] == 1}
    return _own_names([alone.get(group, usual[group]) for group in range(many)])


def _own_names(devices: Any) -> tuple[str, ...]:
    """Return names of devices that a fleet accepts: marks that it does not allow become dashes, and
    no two are equal.
    """
    taken: dict[str, int] = {}
    names = []
    for device in devices:
        text = "".join("-" if mark in "=," or not mark.isprintable() else mark for mark in device).strip() or "device"
        name = text
        while name in taken:
            taken[text] += 1
            name = f"{text}-{taken[text]}"
        taken[name] = 1
        names.append(name)
    return tuple(names)


def _strange(log: Log) -> list[str]:
    """Return notes on signs that a wrong column was taken for the devices."""
    if len(log.device) == 1:
        return [f"the log has only one device, {short(log.device[0])}: the fleet is a single client"]
    if len(log.device) >= ONE_EACH and log.client.size == len(log.device):
        return ["every device has only one task: is the column of devices really the column of tasks (--device NAME)?"]
    return []


def _chosen(found: SpeedGroups) -> list[str]:
    """Return notes on how the number of groups was chosen, and how certain the groups are."""
    if len(found.criterion) < 2:
        return []
    by_number = ", ".join(f"{number}: {value:.1f}" for number, value in found.criterion.items())
    said = [
        f"the number of groups is the smallest with a BIC (misfit plus a penalty per group) within {CLEAR:g} of the "
        f"least ({by_number})"
    ]
    if found.doubt > DOUBTED:
        said.append(
            f"about {found.doubt:.0%} of the devices have too few tasks to tell their group, and may be in the wrong "
            "one; the groups then look farther apart than they are; a longer log tells more"
        )
    return said
