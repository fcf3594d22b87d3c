"""The part of a page about what `sojourn simulate` wrote: its trace, and what theory says beside the simulation."""

from pathlib import Path
from typing import Any

import numpy as np

from sojourn.errors import SojournError, UnreadableFile
from sojourn.files import read_json
from sojourn.fleet import Fleet
from sojourn.fleet_file import COLUMNS
from sojourn.plan import Plan
from sojourn.report.page import drawings, of_trace
from sojourn.report.page.made_by import say_command
from sojourn.report.page.parts import Cell, Part, Section, Shown, called, number, plural, plus_minus, table, were
from sojourn.report.page.timing import timing_of
from sojourn.values import WrongKind, items, optional_number, text, whole
from sojourn.values import table as table_of

FIGURES = ("staleness", "queue", "utilisation", "sojourn", "waiting")
UNITS = {"staleness": "updates", "queue": "tasks", "utilisation": "part of time", "sojourn": "s", "waiting": "s"}
KEPT = 3.0


def part_of_simulation(folder: Path, fleet: Any = None, plan: Any = None) -> Part:
    """Return the part about a folder of `simulate --out`."""
    content = read_summary(folder / "summary.json")
    own, chosen = given(content)
    groups = _groups(content) if own is None and fleet is None else None
    timing = timing_of(folder / "trace.parquet", fleet or own, plan or chosen, groups)
    part = Part(str(folder), "simulation", of_trace.answer(timing, "simulated"), of_trace.facts(timing))
    part.compared = of_trace.compared(timing)
    part.sections = of_trace.sections(timing, _simulated(content))
    part.sections.append(_provenance(content, of_trace.provenance(timing, folder / "trace.parquet")))
    return part


def part_of_summary(path: Path) -> Part:
    """Return the part about the summary of a simulation, whose trace was not kept."""
    content = read_summary(path)
    flow = content["throughput"]
    z = _z(flow)
    kept = "as theory says" if abs(z) <= KEPT else f"{number(abs(z), 3)} standard errors from what theory says"
    part = Part(
        str(path),
        "summary of a simulation",
        [
            f"{plural(content['steps'], 'update')} of {plural(content['clients'], 'client')} with "
            f"{plural(content['concurrency'], 'task')} in flight {were(content['steps'])} simulated: "
            f"{number(_float(flow['value']), 4)} per second, with a mean staleness of "
            f"{number(_float(content['mean_staleness']), 4)}.",
            f"The throughput is {kept}, {number(_float(flow['exact']), 4)} per second."
            if np.isfinite(z)
            else "There are too few updates to say whether theory holds.",
        ],
    )
    part.sections = [*_simulated(content), _provenance(content, Section("Where it comes from"))]
    return part


def read_summary(path: Path) -> dict[str, Any]:
    """Read a summary of `sojourn simulate`, and refuse one with missing or wrong values."""
    content = table_of(read_json(path, "summary"), "summary")
    if content.get("command") != "simulate":
        raise UnreadableFile(f"summary {path} is not one of sojourn simulate; name the folder that it wrote")
    try:
        for key in ("steps", "clients", "concurrency"):
            whole(content[key], key)
        optional_number(content["mean_staleness"], "mean_staleness")
        _three(content["throughput"], "throughput")
        for group in items(content["groups"], "groups"):
            one = table_of(group, "a group")
            text(one["name"], "name of a group")
            whole(one["count"], "count of a group")
            for key in FIGURES:
                _three(one[key], key)
        for promise in items(content.get("promises", []), "promises"):
            one = table_of(promise, "a promise")
            text(one["promise"], "promise")
            for key in ("promised", "simulated", "standard_error", "z"):
                optional_number(one[key], key)
    except KeyError as error:
        raise UnreadableFile(f"summary {path}: key {error} is required and missing; simulate again") from None
    except WrongKind as error:
        raise UnreadableFile(f"summary {path} has a value of the wrong kind: {error}") from None
    return content


def _three(value: Any, what: str) -> None:
    for key in ("value", "standard_error", "exact"):
        optional_number(table_of(value, what)[key], f"{key} of {what}")


def given(content: dict[str, Any]) -> tuple[Fleet | None, Plan | None]:
    """Return the fleet and the plan that were simulated; older summaries do not have them."""
    rows = content["groups"]
    if not all("rate" in row and "sampling" in row for row in rows):
        return None, None
    try:
        columns: dict[str, Any] = {
            key: [read(row[key]) for row in rows] for key, (read, *_) in COLUMNS.items() if key in rows[0]
        }
        fleet = Fleet(**{**columns, "name": tuple(columns["name"])})
        cap = np.array([np.inf if row.get("cap") is None else row["cap"] for row in rows])
        sampling = np.array([row["sampling"] for row in rows])
        plan = Plan(fleet.name, fleet.count, sampling, content["concurrency"], fleet_hash=fleet.hash, cap=cap)
    except (SojournError, KeyError, TypeError, ValueError):
        return None, None
    return fleet, plan


def _groups(content: dict[str, Any]) -> Fleet:
    """Return the names and sizes of the groups; their rates are not known."""
    rows = content["groups"]
    return Fleet(tuple(str(one["name"]) for one in rows), np.array([one["count"] for one in rows]), np.ones(len(rows)))


def _simulated(content: dict[str, Any]) -> list[Section]:
    rows = []
    for one in content["groups"]:
        for key in FIGURES:
            value = one[key]
            cells = (plus_minus(_float(value["value"]), _float(value["standard_error"])), _float(value["exact"]))
            rows.append([one["name"], key, UNITS[key], *cells, Cell(number(_z(value), 3), True)])
    runs = plural(content.get("replications", 1), "replication")
    heads = ["group", "figure", "unit", "simulated", "exact", "z"]
    section = Section(
        "Theory and simulation", tables=[table(f"Means of {runs}, ± one standard error", heads, rows, 60)]
    )
    names = [str(one["name"]) for one in content["groups"]]
    if len(names) <= 12:
        series = [
            (key, np.array([_float(one["staleness"][key]) for one in content["groups"]])) for key in ("value", "exact")
        ]
        shown = [("simulated" if key == "value" else key, values) for key, values in series]
        words = "; ".join(
            f"{called(name)} {number(shown[0][1][at], 4)}, exact {number(shown[1][1][at], 4)}"
            for at, name in enumerate(names)
        )
        section.figures.append(
            Shown(
                "theory",
                drawings.shares(names, shown, "mean staleness (updates)"),
                f"Mean staleness by group, simulated and exact: {words}.",
                f"Mean staleness by group, simulated and exact: {words}.",
            )
        )
    promises = content.get("promises")
    if isinstance(promises, list) and promises:
        told = [
            [
                one["promise"],
                _float(one["promised"]),
                plus_minus(_float(one["simulated"]), _float(one["standard_error"])),
                number(_float(one["z"]), 3),
            ]
            for one in promises
        ]
        section.tables.append(table("The promises of the plan", ["promise", "promised", "simulated", "z"], told))
    return [section]


def _provenance(content: dict[str, Any], section: Section) -> Section:
    told = [[key, value] for key, value in content.items() if isinstance(value, str | int | float) and key != "made_by"]
    section.tables.append(table("Facts of the simulation", ["key", "value"], told))
    say_command(section, content)
    return section


def _z(value: dict[str, Any]) -> float:
    error = _float(value.get("standard_error"))
    return (_float(value["value"]) - _float(value["exact"])) / error if error > 0 else float("nan")


def _float(value: Any) -> float:
    return float("nan") if value is None else float(value)
