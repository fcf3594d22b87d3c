"""Pictures of the timing: where the tasks are, and how stale the updates of each group are."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.bounds import bounds_of, cut
from sojourn.fleet import Fleet
from sojourn.report.figures import COLOURS, MOST_NAME, pyplot, save, words
from sojourn.timing.exact.analysis import Analysis
from sojourn.timing.simulate.summary import Summary

FEW = 12  # most groups that are named one by one
SIZE = (5.2, 3.2)  # inches: one column of a paper
Series = Mapping[str, tuple[Any, Any]]


def analysis_pictures(analysis: Analysis, folder: Path) -> list[Path]:
    """The staleness of each group, and where its tasks are: being worked on, on links, waiting."""
    staleness = {"exact": (analysis.staleness(), None)}
    return [
        *staleness_picture(analysis.fleet.name, staleness, folder / "staleness"),
        *tasks_picture(analysis.fleet, analysis.queue, analysis.utilisation, folder / "tasks", analysis.on_links),
    ]


def simulation_pictures(summary: Summary, exact: Analysis, folder: Path) -> list[Path]:
    """The staleness of each group in theory and simulation, and where its tasks were in the simulation."""
    found = summary.staleness
    staleness = {"theory": (exact.staleness(), None), "simulated": (found.value, found.error)}
    return [
        *staleness_picture(exact.fleet.name, staleness, folder / "staleness"),
        *tasks_picture(exact.fleet, summary.queue.value, summary.utilisation.value, folder / "tasks"),
    ]


def staleness_picture(names: Sequence[str], series: Series, path: Path) -> list[Path]:
    """Mean staleness by group; an error bar is one standard error."""
    figure, axis = pyplot().subplots(figsize=SIZE)
    places, wide = np.arange(len(names)), 0.8 / len(series)
    for index, (label, (values, errors)) in enumerate(series.items()):
        at = places + (index - (len(series) - 1) / 2) * wide
        reach = None if errors is None else _reach(values, errors)
        bars = axis.bar(at, values, wide, yerr=reach, capsize=3, color=COLOURS[index], label=label)
        if len(names) <= FEW:
            axis.bar_label(bars, [f"{value:.3g}" for value in values], padding=2, fontsize=7)
    axis.set_ylabel("mean staleness (server steps)")
    if len(series) > 1:
        axis.legend(frameon=False)
    _groups(axis, names)
    return save(figure, path)


def _reach(values: Any, errors: Any) -> Any:
    """The lengths of error bars downwards and upwards; they end at zero."""
    low, high = cut(values - errors, values + errors, bounds_of("staleness"))
    return np.nan_to_num([values - low, high - values])


def tasks_picture(fleet: Fleet, queue: Any, busy: Any, path: Path, on_links: Any = 0.0) -> list[Path]:
    """Draw where the tasks of each group are on average, from the values of one client."""
    count = np.asarray(fleet.count, dtype=float)
    working, linked = count * busy, count * on_links
    waiting = np.maximum(count * queue - working, 0.0)
    figure, axis = pyplot().subplots(figsize=SIZE)
    places, below = np.arange(count.size), np.zeros(count.size)
    parts = {"being worked on": working, "on links": linked, "waiting in queues": waiting}
    for index, (label, values) in enumerate(parts.items()):
        if label != "on links" or values.any():
            axis.bar(places, values, 0.7, bottom=below, color=COLOURS[(0, 2, 1)[index]], label=label)
            below = below + values
    axis.set_ylabel("tasks of the group, on average")
    axis.legend(frameon=False)
    _groups(axis, fleet.name)
    return save(figure, path)


def _groups(axis: Any, names: Sequence[str]) -> None:
    if len(names) <= FEW:
        axis.set_xticks(range(len(names)), [words(name, MOST_NAME // 4) for name in names])
        axis.set_xlabel("group")
    else:
        axis.set_xlabel(f"group, 1 to {len(names):,} of the fleet file")
        axis.set_xticks([0, len(names) - 1], ["1", f"{len(names):,}"])
