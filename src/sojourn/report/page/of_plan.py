"""The part of a page about a plan: the policy, what it promises, other policies beside it, and why."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.durations import shown
from sojourn.errors import SojournError
from sojourn.files import read_json
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.planning.advice import Advice
from sojourn.planning.bound.advice import advice as sentences_of
from sojourn.planning.bound.comparison import compare
from sojourn.planning.bound.search import Planned
from sojourn.report.page import drawings
from sojourn.report.page.made_by import say_command
from sojourn.report.page.parts import Part, Section, Shown, called, listed, number, percent, plural, table
from sojourn.scenario import Scenario
from sojourn.timing.exact.analysis import Analysis
from sojourn.timing.expected import expected

POLICY = {
    "updates": "updates",
    "steps": "server steps",
    "staleness": "mean staleness",
    "slowest": "staleness of the stalest",
    "idle": "idle clients",
    "waiting": "tasks that wait",
    "loss": "expected loss",
}


def plan_in(path: Path, fleet: Fleet | None = None) -> Part:
    """Return the part about the plan in a file, with the command that made it."""
    part = part_of_plan(Plan.load(path), str(path), fleet)
    say_command(part.sections[-1], read_json(path, "plan file"))
    return part


def part_of_plan(plan: Plan, name: str, fleet: Fleet | None = None) -> Part:
    """Return the part about a plan; with its fleet, what exact theory says of it now."""
    told = dict(plan.promises)
    rows = [row for row in _listed(told.get("policies")) if isinstance(row, Mapping)]
    why = [str(one) for one in _listed(told.get("why"))]
    part = Part(name, "plan", _answer(plan, told, rows))
    part.facts = _facts(plan, told)
    part.sections = [_policy(plan, told), *_policies(rows, told.get("time"))]
    if fleet is not None:
        part.sections += _now(plan, fleet)
    if why:
        part.sections.append(Section("Why", said=why))
    part.sections.append(_provenance(plan))
    return part


def part_of_advice(advice: Advice) -> Part:
    """Return the part about the advice of `make_plan`."""
    told = {**advice.plan.promises, "policies": [row.facts() for row in advice.rows], "why": list(advice.why)}
    from dataclasses import replace

    return part_of_plan(replace(advice.plan, promises=told), "plan", advice.fleet)


def part_of_planned(planned: Planned) -> Part:
    """Return the part about a plan by the bound."""
    part = part_of_plan(planned.plan, "plan", planned.fleet)
    rows = compare(planned)
    heads = ["plan", "tasks in flight", "value", "bound", "step size", "updates per second", "largest staleness"]
    lines = [
        [
            name,
            row.plan.concurrency,
            row.value,
            row.scored.bound,
            row.scored.step_size,
            row.analysis.throughput,
            float(row.analysis.staleness().max()),
        ]
        for name, row in rows.items()
    ]
    section = Section("Other plans beside it", said=[f"{one}." for one in sentences_of(planned, rows)])
    section.tables.append(table(f"Plans compared by {planned.objective.name}", heads, lines))
    part.sections.insert(1, section)
    return part


def part_of_analysis(found: Analysis) -> Part:
    """Return the part about the exact analysis of a plan."""
    stale = found.staleness()
    low, high = int(np.argmin(stale)), int(np.argmax(stale))
    names = [called(name) for name in found.fleet.name]
    return Part(
        "analysis",
        "exact analysis",
        [
            f"{plural(found.fleet.clients, 'client')} with {plural(found.plan.concurrency, 'task')} in flight bring "
            f"{number(found.throughput, 4)} updates per second in the long run, with a mean staleness of "
            f"{number(found.plan.concurrency - 1, 4)} updates.",
            f"It ranges from {number(stale[low], 4)} ({names[low]}) to {number(stale[high], 4)} ({names[high]})."
            if len(names) > 1
            else "",
        ],
        [(number(found.throughput, 5), "updates per second"), (f"{found.plan.concurrency:,}", "tasks in flight")],
        [_exact(found), _provenance(found.plan)],
    )


def _answer(plan: Plan, told: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    clients = int(plan.count.sum())
    most = (
        "at most one task per client"
        if plan.one_each
        else "a cap on the tasks of a client"
        if plan.capped
        else "queues at clients"
    )
    first = f"The plan keeps {plural(plan.concurrency, 'task')} in flight on {plural(clients, 'client')}, with {most}"
    flow = told.get("throughput")
    if flow is None:
        return [f"{first}.", "It was written by hand: it promises nothing."]
    time, steps = told.get("time"), told.get("steps")
    second = f"It promises {number(flow, 4)} updates per second"
    if isinstance(time, int | float) and isinstance(steps, int | float):
        second += f", {number(steps, 4)} in {shown(float(time))}"
    other = next((row for row in rows[1:] if _float(row.get("updates")) > 0), None)
    if other is not None:
        times = _float(rows[0].get("updates")) / _float(other["updates"])
        second += f", {number(times, 3)} times as many as {called(other.get('policy'))}"
    return [f"{first}.", f"{second}."]


def _facts(plan: Plan, told: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = [(f"{plan.concurrency:,}", "tasks in flight"), (f"{int(plan.count.sum()):,}", "clients")]
    if told.get("throughput") is not None:
        found.append((number(told["throughput"], 5), "updates per second, promised"))
    if plan.step_size is not None:
        found.append((number(plan.step_size, 4), "step size"))
    return found


def _policy(plan: Plan, told: Mapping[str, Any]) -> Section:
    """Return the section with what the plan decides, and what it promises for each group."""
    decided = {
        "tasks in flight": plan.concurrency,
        **plan._policy(),
        "step_size": plan.step_size,
        "tuned_for": plan.tuned_for,
    }
    section = Section("The plan")
    rows = [
        [
            key.replace("_", " "),
            "not stated" if value is None and key != "cap" else "none" if value is None else value,
        ]
        for key, value in decided.items()
    ]
    section.tables.append(
        table(
            "What it decides",
            ["what", "value"],
            [[key, str(value) if isinstance(value, list) else value] for key, value in rows],
        )
    )
    each = {key: _each(told.get(key), len(plan.name)) for key in ("staleness", "queue", "share")}
    mass = plan.count * plan.sampling
    columns = [
        plan.name,
        plan.count.tolist(),
        plan.sampling.tolist(),
        [percent(one) for one in mass / mass.sum()],
        *each.values(),
    ]
    heads = ["group", "clients", "sampling of each", "sampling of the group", "staleness", "queue", "share of each"]
    section.tables.append(
        table("By group; staleness, queue and share as promised", heads, list(zip(*columns, strict=True)))
    )
    if len(plan.name) <= 12 and np.isfinite(each["staleness"]).all():
        words = listed(
            [f"{called(name)} {number(value, 4)}" for name, value in zip(plan.name, each["staleness"], strict=True)], 12
        )
        section.figures.append(
            Shown(
                "staleness",
                drawings.bars(plan.name, each["staleness"], "promised mean staleness (updates)"),
                f"Promised mean staleness by group: {words}.",
                f"Promised mean staleness: {words}.",
            )
        )
    return section


def _policies(rows: Sequence[Mapping[str, Any]], time: Any) -> list[Section]:
    """Return the section with the other policies."""
    if not rows:
        return []
    keys = [key for key in POLICY if any(row.get(key) is not None for row in rows)]
    lines = [[str(row.get("policy")), row.get("concurrency"), *(_float(row.get(key)) for key in keys)] for row in rows]
    heads = ["policy", "tasks in flight", *(POLICY[key] for key in keys)]
    during = f" in {shown(float(time))}" if isinstance(time, int | float) else ""
    section = Section("Other policies beside it", tables=[table(f"What each policy achieves{during}", heads, lines)])
    names = [str(row.get("policy")) for row in rows]
    for key in ("updates", "slowest", "loss"):
        values = [_float(row.get(key)) for row in rows]
        if np.isfinite(values).all():
            words = listed([f"{called(name)} {number(value, 4)}" for name, value in zip(names, values, strict=True)], 8)
            section.figures.append(
                Shown(
                    f"policies-{key}",
                    drawings.bars(names, values, POLICY[key]),
                    f"{POLICY[key].capitalize()} of each policy: {words}.",
                    f"{POLICY[key].capitalize()}{during}: {words}.",
                )
            )
    return [section]


def _now(plan: Plan, fleet: Fleet) -> list[Section]:
    """Return what exact theory says of the plan on its fleet."""
    try:
        plan.check(fleet)
        return [_exact(expected(fleet, plan, Scenario()))]
    except SojournError as error:
        return [Section("Exact theory", notes=[f"Theory was not asked: {error}."])]


def _exact(found: Any) -> Section:
    stale, fleet = found.staleness(), found.fleet
    rows = [
        [
            fleet.name[at],
            int(fleet.count[at]),
            fleet.rate[at],
            found.share[at],
            stale[at],
            found.queue[at],
            percent(float(found.utilisation[at])),
            found.sojourn[at],
            found.waiting[at],
        ]
        for at in range(fleet.groups)
    ]
    heads = [
        "group",
        "clients",
        "tasks per second",
        "share of each",
        "staleness",
        "queue",
        "busy",
        "sojourn (s)",
        "waiting (s)",
    ]
    section = Section(
        "Exact theory",
        tables=[table(f"In the long run: {number(found.throughput, 6)} updates per second", heads, rows)],
    )
    if fleet.groups <= 12:
        count = np.asarray(fleet.count, float)
        working = count * found.utilisation
        waiting = np.maximum(count * found.queue - working, 0).round(9)
        words = listed(
            [
                f"{called(name)} {number(one, 3)} in service, {number(other, 3)} waiting"
                for name, one, other in zip(fleet.name, working, waiting, strict=True)
            ],
            12,
        )
        section.figures.append(
            Shown(
                "tasks",
                drawings.shares(fleet.name, [("in service", working), ("waiting", waiting)], "tasks of the group"),
                f"Where the tasks are on average: {words}.",
                f"Where the tasks are on average: {words}.",
            )
        )
    return section


def _provenance(plan: Plan) -> Section:
    told: list[list[Any]] = [
        ["hash of the plan", plan.hash],
        ["hash of its fleet", plan.fleet_hash],
        ["minimises", plan.objective],
    ]
    plain = {key: value for key, value in plan.promises.items() if isinstance(value, str | int | float)}
    told += [[f"promise: {key}", value] for key, value in plain.items()]
    facts = table("Facts of the plan", ["what", "value"], [row for row in told if row[1] is not None])
    return Section("Where it comes from", tables=[facts])


def _listed(values: Any) -> list[Any]:
    """Return what a file lists; nothing if it is no list."""
    return list(values) if isinstance(values, tuple | list) else []


def _each(values: Any, groups: int) -> Any:
    found = np.array([_float(one) for one in values]) if isinstance(values, tuple | list) else np.empty(0)
    return found if found.size == groups else np.full(groups, np.nan)


def _float(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")
