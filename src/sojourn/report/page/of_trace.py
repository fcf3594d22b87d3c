"""The part of a page about a trace: who was busy when, staleness, promised and observed, shares, clients, losses."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.durations import shown
from sojourn.plan import MOST_TASKS
from sojourn.report.page import drawings, of_theory
from sojourn.report.page.digest import EDGES, RETURNING, SERVED, UPDATES
from sojourn.report.page.parts import Part, Section, Shown, called, listed, number, percent, plural, table
from sojourn.report.page.timing import Timing, timing_of
from sojourn.shown import short
from sojourn.trace import FATES
from sojourn.types import Floats

MOST_PANELS = 6  # groups that have figures of their own
IN_A_BIN = 20  # updates in a bin of time, so that chance does not hide what changes
WORST = 10  # clients in the table of the worst
UNKNOWN = ("kind", "names", "plans", "faults", "refusals")  # facts that have a place of their own


def part_of_trace(trace: Any, name: str, fleet: Any = None, plan: Any = None) -> Part:
    """Return the part of a page about a trace, in memory or in a file."""
    timing = timing_of(trace, fleet, plan)
    origin = str(timing.digest.metadata.get("origin", "recorded"))
    part = Part(name, f"{origin} trace", answer(timing, origin), facts(timing), compared=compared(timing))
    part.sections = [*sections(timing), provenance(timing, trace if isinstance(trace, str | Path) else None)]
    return part


def answer(timing: Timing, what: str) -> list[str]:
    """Return two sentences: what ran and what came out, and whether the promise was kept."""
    clients, read = timing.digest.label.size, timing.digest
    tasks = read.metadata.get("concurrency")
    flying = f" with {plural(tasks, 'task')} in flight" if isinstance(tasks, int) and 0 < tasks <= MOST_TASKS else ""
    if not timing.updates:
        return [f"{what.capitalize()}: {plural(clients, 'client')}{flying}, and no update was applied.", ""]
    stale = timing.staleness
    groups = [at for at in range(timing.fleet.groups) if np.isfinite(stale[at])]
    spread = ""
    if len(groups) > 1:
        low, high = min(groups, key=lambda at: stale[at]), max(groups, key=lambda at: stale[at])
        spread = (
            f", from {number(stale[low], 4)} ({called(timing.fleet.name[low])}) to {number(stale[high], 4)} "
            f"({called(timing.fleet.name[high])})"
        )
    return [
        f"{plural(clients, 'client')}{flying} brought {plural(timing.updates, 'update')} in {shown(read.lasted)} "
        f"({what}): {number(timing.throughput, 4)} per second, with a mean staleness of "
        f"{number(timing.mean_staleness, 4)} updates{spread}.",
        of_theory.verdict(timing.observed),
    ]


def facts(timing: Timing) -> list[tuple[str, str]]:
    """Return the main numbers."""
    lost = int(timing.digest.fates[:, [FATES.index(one) for one in ("lost", "dropped", "refused")]].sum())
    return [
        (f"{timing.updates:,}", "updates"),
        (f"{timing.digest.label.size:,}", "clients"),
        (shown(timing.digest.lasted), "from the first task to the last"),
        (number(timing.throughput, 5), "updates per second"),
        (number(timing.mean_staleness, 5), "mean staleness"),
        (f"{lost:,}", "tasks lost, dropped or refused"),
    ]


def compared(timing: Timing) -> dict[str, Any]:
    """Return the numbers that stand beside those of other traces."""
    worst = float(np.nanmax(timing.staleness)) if timing.updates else float("nan")
    return {
        "clients": timing.digest.label.size,
        "updates": timing.updates,
        "seconds": timing.digest.lasted,
        "updates per second": timing.throughput,
        "mean staleness": timing.mean_staleness,
        "staleness of the stalest group": worst,
    }


def sections(timing: Timing, more: Sequence[Section] = ()) -> list[Section]:
    """Return the sections about the timing, with others after what was promised."""
    read = timing.digest
    found = [who_was_busy(timing)]
    if timing.updates:
        found.append(how_stale(timing))
    if timing.observed is not None:
        found += [of_theory.promised(timing.observed, timing.fleet.groups)]
    found += list(more)
    if timing.observed is not None and timing.observed.periods:
        found.append(of_theory.plans(timing.observed))
    if timing.updates:
        found += [who_counts(timing), worst_clients(timing)]
    found.append(what_became(timing, read.metadata))
    if timing.notes:
        found[-1].notes += [f"{note[0].upper()}{note[1:]}." for note in dict.fromkeys(timing.notes)]
    return found


def who_was_busy(timing: Timing) -> Section:
    """Return the section with the timeline of some clients, and tasks over time."""
    read, fleet = timing.digest, timing.fleet
    section = Section("Who was busy when")
    lanes = [lane.since(read.time.first) for lane in read.lanes if lane.times]
    if lanes:
        names = [timing.grouped.named(lane.client) for lane in lanes]
        figure, end = drawings.timeline(lanes, names, [int(read.label[lane.client]) for lane in lanes])
        some = "all" if len(lanes) == read.label.size else f"{len(lanes)} of {read.label.size:,}"
        section.figures.append(
            Shown(
                "timeline",
                figure,
                f"Timeline of {some} clients, the first {shown(end)}: when each worked, and how many tasks waited.",
                f"The first tasks of {some} clients, in the first {shown(end)}. A solid bar is a task in service; the "
                "pale area above it is the number of tasks that wait there.",
                wide=True,
            )
        )
    edges = _edges(timing)
    if edges.size > 1:
        section.figures += _over_time(timing, edges)
        busy = read.busy.sum() / max(1e-300, read.lasted * read.label.size)
        each = f": {_busy_by_group(timing)}" if fleet.groups > 1 else ""
        section.said.append(f"Over the whole run a client worked {percent(busy)} of the time{each}.")
    return section


def _edges(timing: Timing) -> Floats:
    """Return the bins of time, counted from the first task on: the clock of a trace may begin anywhere."""
    time = timing.digest.time
    return time.edges() - time.first


def _busy_by_group(timing: Timing) -> str:
    read = timing.digest
    busy = read.by_group(read.busy) / np.maximum(1e-300, read.lasted * timing.fleet.count)
    places = range(timing.fleet.groups)
    return listed([f"{called(timing.fleet.name[at])} {percent(float(busy[at]))}" for at in places], 4)


def _over_time(timing: Timing, edges: Floats) -> list[Shown]:
    """Return the tasks of each group over time, and the updates per second."""
    read, fleet = timing.digest, timing.fleet
    if fleet.groups > MOST_PANELS:
        found = [all_over_time(timing, "tasks", "all clients")]
    else:
        found = [_levels(timing, [at], f"tasks-{at + 1}", fleet.name[at]) for at in range(fleet.groups)]
    wide = np.maximum(np.diff(edges), 1e-300)
    flow = read.time.sums(UPDATES).sum(axis=0) / wide
    inner = float(flow[1:-1].max(initial=0.0))
    if inner > 0:
        flow[[0, -1]] = np.minimum(flow[[0, -1]], inner)  # only these bins may be very short
    words = f"{number(timing.throughput, 4)} on average over the whole run"
    most = int(np.clip(timing.updates // IN_A_BIN, 8, drawings.MOST_BINS))
    found.append(
        Shown(
            "updates-over-time",
            drawings.over_time(edges, [("updates per second", flow, 3)], "updates per second", most),
            f"Updates per second over time: {words}.",
            f"Updates per second: {words}.",
        )
    )
    return found


def all_over_time(timing: Timing, name: str, who: str) -> Shown:
    """Return the tasks of all groups together over time."""
    return _levels(timing, list(range(timing.fleet.groups)), name, who)


def _levels(timing: Timing, groups: Sequence[int], name: str, who: str) -> Shown:
    read = timing.digest
    edges = _edges(timing)
    levels = (read.time.levels(SERVED), read.waiting(), read.time.levels(RETURNING))
    served, waiting, back = (np.nan_to_num(one[list(groups)].sum(axis=0)) for one in levels)
    parts = [("in service", served, 0), ("waiting or on the way", waiting, 1)]
    parts += [("on the way back", back, 2)] if back.max() > 0.005 * served.max() else []
    wide = np.maximum(np.diff(edges), 1e-300)
    means = [float(np.average(one, weights=wide)) for one in (served, waiting)]
    words = f"on average {number(means[0], 3)} in service and {number(means[1], 3)} waiting or on the way there"
    return Shown(
        name,
        drawings.over_time(edges, parts, f"tasks of {short(who, 24)}"),
        f"Tasks of {called(who)} over time: {words}.",
        f"{called(who)}: {words}.",
    )


def how_stale(timing: Timing) -> Section:
    """Return the section with the histograms of the staleness."""
    read, fleet, seen = timing.digest, timing.fleet, timing.observed
    section = Section("How stale updates were")
    exact = seen.promised.staleness() if seen is not None else np.full(fleet.groups, np.nan)
    mean, total = timing.staleness, read.by_group(read.updates)
    oldest = [int(read.oldest[read.label == at].max()) for at in range(fleet.groups)]
    at_most = [min(_quantile(read.histogram[at], 0.95), oldest[at]) for at in range(fleet.groups)]
    for at in range(fleet.groups) if fleet.groups <= MOST_PANELS else ():
        if not total[at]:
            continue
        behind = None if timing.simulated is None else timing.simulated[at]
        words = f"mean {number(mean[at], 5)}" + (
            f", exact mean {number(exact[at], 5)}" if np.isfinite(exact[at]) else ""
        )
        words += f", 95% are at most {number(at_most[at], 4)}, the oldest is {oldest[at]:,}"
        drawn = " Grey behind it: a simulation of the fleet fitted to this trace." if behind is not None else ""
        section.figures.append(
            Shown(
                f"staleness-{at + 1}",
                drawings.histogram(read.histogram[at], behind, float(mean[at]), float(exact[at]), at),
                f"Histogram of the staleness of {called(fleet.name[at])}: {words}.",
                f"{called(fleet.name[at])}: {words}.{drawn}",
            )
        )
    if fleet.groups > MOST_PANELS:
        whole = read.histogram.sum(axis=0)
        behind = None if timing.simulated is None else timing.simulated.sum(axis=0)
        tasks = float("nan") if seen is None else seen.plan.concurrency - 1.0
        section.figures.append(
            Shown(
                "staleness",
                drawings.histogram(whole, behind, timing.mean_staleness, tasks, 0),
                f"Histogram of the staleness of all updates: mean {number(timing.mean_staleness, 5)}.",
                f"All updates: mean {number(timing.mean_staleness, 5)}, exact mean {number(tasks, 5)}.",
            )
        )
    rows = [
        [
            fleet.name[at],
            int(fleet.count[at]),
            int(total[at]),
            mean[at],
            exact[at],
            at_most[at],
            oldest[at],
        ]
        for at in range(fleet.groups)
    ]
    heads = ["group", "clients", "updates", "mean staleness", "exact mean", "95%", "oldest"]
    section.tables.append(table("Staleness by group, in updates, over the whole trace", heads, rows))
    section.said.append(
        "Staleness is the number of updates that the server applied between sending a task and applying its update. "
        "The exact mean is what theory gives for the fleet fitted to this trace."
    )
    return section


def _quantile(counts: Any, share: float) -> float:
    """Return a staleness that this share of the updates does not exceed: the largest one of a bin."""
    total = np.cumsum(counts)
    return float(EDGES[int(np.searchsorted(total, share * total[-1])) + 1] - 1) if total[-1] else float("nan")


def who_counts(timing: Timing) -> Section:
    """Return the section with each group's share of the updates beside its share of the data."""
    read, fleet = timing.digest, timing.fleet
    updates = read.by_group(read.updates) / timing.updates
    known = bool(np.isfinite(fleet.data_size).all())
    weight = fleet.count * (fleet.data_size if known else 1.0)
    share = weight / weight.sum()
    what = "share of data" if known else "share of clients"
    rows = [
        [fleet.name[at], percent(updates[at]), percent(share[at]), number(updates[at] / share[at], 3)]
        for at in range(fleet.groups)
    ]
    most = max(range(fleet.groups), key=lambda at: updates[at] / share[at])
    section = Section(
        "Whose updates count", tables=[table("Shares by group", ["group", "share of updates", what, "ratio"], rows)]
    )
    if fleet.groups > 1:
        section.figures.append(
            Shown(
                "shares",
                drawings.shares(fleet.name, [("share of updates", updates), (what, share)], "share"),
                f"Share of updates beside {what} of {plural(fleet.groups, 'group')}.",
                f"{called(fleet.name[most])} has the most updates for its {what[9:]}: {percent(updates[most])} of the "
                f"updates, {percent(share[most])} of the {what[9:]}.",
            )
        )
    if not known:
        section.said.append("The fleet does not say how much data its clients hold, so each counts the same here.")
    return section


def worst_clients(timing: Timing) -> Section:
    """Return the section about the clients with the stalest updates, and those that never brought one."""
    read = timing.digest
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = read.stale / read.updates
        waited = read.waited / read.started
    order = np.argsort(-np.nan_to_num(mean, nan=-1.0), kind="stable")[:WORST]
    rows = [
        [
            timing.grouped.named(int(one)),
            timing.fleet.name[read.label[one]],
            int(read.updates[one]),
            mean[one],
            int(read.oldest[one]),
            waited[one],
        ]
        for one in order
        if read.updates[one]
    ]
    silent = np.flatnonzero(read.updates == 0)
    section = Section("Clients that fare worst")
    section.tables.append(
        table(
            "Clients with the stalest updates",
            ["client", "group", "updates", "mean staleness", "oldest", "seconds waited per task"],
            rows,
        )
    )
    if silent.size:
        names = [called(timing.grouped.named(int(one))) for one in silent[:6]]
        section.said.append(
            f"{plural(silent.size, 'client')} brought no update: {listed([*names, *[''] * max(0, silent.size - 6)])}."
        )
    return section


def what_became(timing: Timing, metadata: Mapping[str, Any]) -> Section:
    """Return the section about what became of the tasks, and why some were refused."""
    read, fleet = timing.digest, timing.fleet
    counts = np.stack([read.by_group(read.fates[:, at]) for at in range(len(FATES))], axis=1).astype(int)
    order = [FATES.index(one) for one in ("applied", "lost", "dropped", "refused", "in_flight")]
    rows = [[fleet.name[at], *(int(counts[at, one]) for one in order)] for at in range(fleet.groups)]
    heads = ["group", "applied", "lost", "dropped", "refused", "in flight at the end"]
    section = Section("What became of the tasks", tables=[table("Tasks by group and fate", heads, rows)])
    gone = np.argsort(-read.fates[:, order[1:4]].sum(axis=1), kind="stable")[:WORST]
    worst: list[list[Any]] = [
        [timing.grouped.named(int(one)), *(int(read.fates[one, at]) for at in order[1:4])] for one in gone
    ]
    worst = [row for row in worst if sum(row[1:])]
    if worst:
        section.tables.append(table("Clients with the most tasks that came to nothing", ["client", *heads[2:5]], worst))
    for key, said in (("faults", "Faults of the run"), ("refusals", "Reasons of refusals")):
        pairs = [[name, many] for name, many in _counted(metadata.get(key)).items() if many]
        if pairs:
            section.tables.append(table(said, ["what", "number"], pairs))
    return section


def _counted(told: Any) -> Mapping[Any, Any]:
    """Return numbers by name: a table of them, or how often each reason is in a list of refusals."""
    if isinstance(told, Mapping):
        return told
    each = told if isinstance(told, list | tuple) else ()
    counts = Counter(str(one.get("reason", "")) for one in each if isinstance(one, Mapping))
    return dict(counts.most_common())


def provenance(timing: Timing, path: str | Path | None) -> Section:
    """Return the section about where a trace comes from."""
    told = [
        [key, value if isinstance(value, int | float | bool) else str(value)]
        for key, value in timing.digest.metadata.items()
        if key not in UNKNOWN
    ]
    rows: list[list[Any]] = [["file", str(path)]] if path is not None else []
    rows += [["tasks", timing.digest.rows], *told]
    return Section("Where it comes from", tables=[table("Facts of the trace", ["key", "value"], rows)])
