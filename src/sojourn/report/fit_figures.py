"""Pictures of a fit: the durations of every client, coloured by group, and the fitted laws over the durations."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.fleet import Fleet
from sojourn.folders import made
from sojourn.report.figures import COLOURS, pyplot, save, words
from sojourn.timing.fit.from_trace import Fit
from sojourn.timing.fit.notes import law_in_short
from sojourn.trace import Trace
from sojourn.types import Floats, Integers

MOST_NAMED = 40  # most clients whose names are written
MOST_DRAWN = 400  # most clients that are drawn; of more, an even selection
MOST_PANELS = 6
BINS = 40


@dataclass(frozen=True)
class _Seen:
    """The durations that are drawn."""

    client: Integers
    duration: Floats
    names: tuple[str, ...]
    group: Integers
    """The group of each client."""


def fit_pictures(found: Fit, trace: Trace | str | Path, folder: Path) -> list[Path]:
    """Write both pictures as SVG and PNG; the folder is made if needed. A fit of a log has the durations already."""
    seen = _seen(found, trace)
    with made(folder):
        return [
            *durations_by_client(seen, found.fleet, folder / "fit-devices"),
            *laws_by_group(seen, found, folder / "fit-laws"),
        ]


def _seen(found: Fit, trace: Trace | str | Path) -> _Seen:
    fleet = found.fleet
    if found.devices is not None:
        log = found.devices.log
        return _Seen(log.client, log.duration, log.device, found.devices.group)
    rows = trace if isinstance(trace, Trace) else Trace.load(trace)
    lasted = (rows.finished_at - rows.started_at) / np.maximum(rows.work, 1)
    there = np.isfinite(lasted)
    names = tuple(fleet.client_name(client) for client in range(fleet.clients)) if fleet.clients <= MOST_NAMED else ()
    return _Seen(rows.client[there].astype(np.int64), lasted[there], names, fleet.group_of_client)


def durations_by_client(seen: _Seen, fleet: Fleet, path: str | Path) -> list[Path]:
    """Median and the middle 80% of every client's durations, clients in the order of their groups and speeds."""
    plt = pyplot()
    drawn = _order(seen)
    figure, axis = plt.subplots(figsize=(min(11.0, max(4.8, 2.0 + 0.16 * drawn.size)), 3.8))
    places = np.arange(drawn.size)
    order = np.argsort(seen.client, kind="stable")
    ends = np.searchsorted(seen.client[order], drawn, side="left"), np.searchsorted(seen.client[order], drawn, "right")
    low, middle, high = np.array(
        [np.quantile(seen.duration[order[a:b]], (0.1, 0.5, 0.9)) for a, b in zip(*ends, strict=True)]
    ).T
    group = seen.group[drawn]
    for number in np.unique(group).tolist():
        mine, colour = group == number, COLOURS[number % len(COLOURS)]
        label = words(f"{fleet.name[number]}: {1 / fleet.rate[number]:.3g} s") if fleet.groups <= 12 else None
        axis.vlines(places[mine], low[mine], high[mine], color=colour, lw=1.4, alpha=0.6)
        axis.plot(places[mine], middle[mine], "o", ms=3.5, color=colour, label=label)
    if low.min() > 0 and high.max() > 10 * low.min():
        axis.set_yscale("log")
    if seen.names and drawn.size <= MOST_NAMED:
        axis.set_xticks(places, [words(seen.names[one], 20) for one in drawn], rotation=90, fontsize=7)
    else:
        axis.set_xlabel(f"{drawn.size:,} of {seen.group.size:,} devices, by group and speed")
    axis.set_ylabel("seconds of a task (median, middle 80%)")
    if fleet.groups <= 12:
        axis.legend(frameon=False, fontsize=8, title="group: mean", title_fontsize=8, loc="upper left")
    return save(figure, path)


def _order(seen: _Seen) -> Integers:
    """The clients that are drawn: those with durations, ordered by group and mean."""
    tasks = np.bincount(seen.client, minlength=seen.group.size)
    mean = np.bincount(seen.client, seen.duration, seen.group.size) / np.maximum(tasks, 1)
    order = np.lexsort((mean, seen.group))
    order = order[tasks[order] > 0]
    return np.asarray(order[:: -(-order.size // MOST_DRAWN)])


def laws_by_group(seen: _Seen, found: Fit, path: str | Path) -> list[Path]:
    """A histogram of the durations of each group (of many, those with the most tasks), and the fitted law over it."""
    plt = pyplot()
    fleet, group = found.fleet, seen.group[seen.client]
    shown = np.sort(np.argsort(-np.bincount(group, minlength=fleet.groups), kind="stable")[:MOST_PANELS])
    columns = min(3, shown.size)
    rows = -(-shown.size // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(3.6 * columns, 2.9 * rows), squeeze=False)
    for axis, number in zip(axes.flat, shown.tolist(), strict=False):
        _law_over(axis, found, number, seen.duration[group == number])
    for axis in list(axes.flat)[shown.size :]:
        axis.set_axis_off()
    axes[0][0].legend(frameon=False, fontsize=8)
    return save(figure, path)


def _law_over(axis: Any, found: Fit, number: int, values: Floats) -> None:
    fleet = found.fleet
    colour = COLOURS[number % len(COLOURS)] if found.by == "group" else COLOURS[0]
    top = float(np.quantile(values, 0.99)) * 1.05 if values.size else 0.0
    edges = np.linspace(0.0, top if top > 0 else 1.0, BINS + 1)
    axis.hist(values, bins=edges, color=colour, alpha=0.55, label="measured")
    expected = values.size * -np.diff(np.exp(fleet.law[number].log_survival(edges * fleet.rate[number])))
    axis.stairs(expected, edges, color="black", lw=1.2, label="fitted law")
    told = found.p_value[number]
    goodness = "" if np.isnan(told) else f", p = {told:.2g}"
    axis.set_title(words(f"{fleet.name[number]}: {law_in_short(fleet.law[number])}{goodness}", 50), fontsize=9)
    axis.set_xlabel("seconds (the longest 1% lie beyond)")
    axis.set_ylabel("tasks")
