"""Figures of the timing of a run: who was busy when, tasks over time, staleness, promised and observed, shares."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sojourn.report.axes import far_apart, logarithmic
from sojourn.report.figures import COLOURS, words
from sojourn.report.page.digest import EDGES, Lane
from sojourn.report.page.svg import GROUND, QUIET, TEXT, page_style
from sojourn.types import Floats, Integers

PANEL = (4.6, 2.9)  # inches: one of several figures beside each other
WIDE = 9.6
MOST_BARS = 40  # of a histogram
MOST_BINS = 128  # of a figure over time
NAME = 24  # characters of a name in a figure
SINCE = "time since the first task (seconds)"


def timeline(lanes: Sequence[Lane], names: Sequence[str], colours: Sequence[int]) -> tuple[Any, float]:
    """Draw when each of some clients worked, and above it how many tasks waited there; return also the end of the
    time.
    """
    begin = min(min(lane.times) for lane in lanes)
    end = min(min(lane.until for lane in lanes), max(max(lane.times) for lane in lanes))
    waits = [_waits(lane, end) for lane in lanes]
    most = max(1.0, max(float(levels.max(initial=0)) for _, levels in waits))
    with page_style() as plt:
        from matplotlib.patches import PathPatch

        figure, axis = plt.subplots(figsize=(WIDE, 0.9 + 0.36 * len(lanes)), layout="constrained")
        for place, (lane, (at, levels)) in enumerate(zip(lanes, waits, strict=True)):
            colour = COLOURS[colours[place] % len(COLOURS)]
            axis.add_patch(PathPatch(_bars(lane, end, -place - 0.32, 0.3), facecolor=colour, edgecolor=GROUND, lw=0.4))
            if levels.any():
                line = -place + 0.5 * levels / most
                axis.fill_between(at, -place, line, step="post", color=colour, alpha=0.35, lw=0)
        axis.set_yticks(-np.arange(len(lanes)), [words(name, NAME) for name in names])
        axis.set(xlim=_span(begin, end), ylim=(0.6 - len(lanes), 0.6), xlabel=SINCE)
        axis.tick_params(axis="y", length=0)
        axis.spines["left"].set_visible(False)
    return figure, end


def _span(begin: float, end: float) -> tuple[float, float]:
    """Return the limits of an axis of time, which must have a length."""
    return (begin, end) if end > begin else (begin, begin + max(1.0, abs(begin)))


def _bars(lane: Lane, end: float, low: float, high: float) -> Any:
    """Return the times of service as one outline."""
    from matplotlib.path import Path as Outline

    points, codes = [], []
    for _, started, finished, over in lane.tasks:
        stop = finished if np.isfinite(finished) else over if np.isfinite(over) else end
        if np.isfinite(started) and started < end:
            stop = min(stop, end)
            points += [(started, low), (started, low + high), (stop, low + high), (stop, low), (started, low)]
            codes += [Outline.MOVETO, *[Outline.LINETO] * 3, Outline.CLOSEPOLY]
    return Outline(points or [(0, low)], codes or [Outline.MOVETO])


def _waits(lane: Lane, end: float) -> tuple[Floats, Floats]:
    """Return when the number of waiting tasks changed, and to what."""
    times = np.array([one[:2] for one in lane.tasks])
    sent, started = times[:, 0], times[np.isfinite(times[:, 1]), 1]
    at = np.concatenate([sent, started])
    order = np.argsort(at, kind="stable")
    levels = np.cumsum(np.repeat([1.0, -1.0], [sent.size, started.size])[order])
    at = at[order]
    kept = np.append(np.diff(at) > 0, True) & (at < end)  # the last of changes at the same time
    return np.append(at[kept], end), np.append(levels[kept], levels[kept][-1] if kept.any() else 0.0)


def over_time(edges: Floats, parts: Sequence[tuple[str, Floats, int]], label: str, most: int = MOST_BINS) -> Any:
    """Draw levels over time, one on top of the other, in at most so many bins."""
    edges, *means = _coarser(edges, most, *(np.nan_to_num(values) for _, values, _ in parts))
    with page_style() as plt:
        figure, axis = plt.subplots(figsize=PANEL, layout="constrained")
        below = np.zeros(edges.size - 1)
        for (name, _, colour), values in zip(parts, means, strict=True):
            upper = below + values
            both = [np.append(one, one[-1]) for one in (below, upper)]
            axis.fill_between(edges, *both, step="post", color=COLOURS[colour], alpha=0.75, lw=0, label=name)
            below = upper
        axis.set(xlabel=SINCE, ylabel=words(label), xlim=_span(edges[0], edges[-1]), ylim=(0, None))
        _legend_above(axis, len(parts))
    return figure


def _legend_above(axis: Any, columns: int) -> None:
    """Put the legend above the axes, where it covers nothing."""
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, 1.16), ncols=columns, handlelength=1.0)


def _coarser(edges: Floats, most: int, *values: Floats) -> list[Floats]:
    """Return edges and means of fewer bins, each of several neighbours, so that a figure stays small and smooth."""
    many = -(-(edges.size - 1) // most)
    first = np.arange(0, edges.size - 1, many)
    wide = np.diff(edges)
    whole = np.maximum(np.add.reduceat(wide, first), 1e-300)
    return [np.append(edges[first], edges[-1]), *(np.add.reduceat(one * wide, first) / whole for one in values)]


def histogram(counts: Integers, simulated: Integers | None, mean: float, exact: float, colour: int) -> Any:
    """Draw how stale updates were, with the exact mean as a line and a simulation of the fitted fleet behind it."""
    edges = bars_of(counts, max(mean, exact if np.isfinite(exact) else 0.0))
    with page_style() as plt:
        figure, axis = plt.subplots(figsize=PANEL, layout="constrained")
        if simulated is not None and simulated.sum():
            axis.stairs(_density(simulated, edges), EDGES[edges], fill=True, color=QUIET, alpha=0.3, label="simulated")
        axis.stairs(_density(counts, edges), EDGES[edges], color=COLOURS[colour % 6], lw=1.6, label="observed")
        axis.axvline(mean, color=COLOURS[colour % 6], lw=1.2, ls="--", label=f"observed mean {mean:.4g}")
        if np.isfinite(exact):
            axis.axvline(exact, color=TEXT, lw=1.2, ls=":", label=f"exact mean {exact:.4g}")
        axis.set(xlabel="staleness (updates)", ylabel="share of updates", ylim=(0, None))
        axis.legend()
    return figure


def bars_of(counts: Integers, mean: float) -> Integers:
    """Return which edges of the bins a histogram shows: up to the oldest half percent, with at most 40 bars."""
    total = np.cumsum(counts)
    top = EDGES[min(int(np.searchsorted(total, 0.995 * total[-1])) + 1, EDGES.size - 1)]
    top = max(float(top), 1.2 * mean + 1, 2.0)
    if top <= MOST_BARS:
        return np.arange(int(np.ceil(top)) + 1)
    return np.unique(np.searchsorted(EDGES, np.linspace(0, top, MOST_BARS + 1)).clip(max=EDGES.size - 1))


def _density(counts: Integers, edges: Integers) -> Floats:
    """Return the share of each bar, per unit of staleness."""
    inside = np.add.reduceat(counts, edges[:-1])
    inside[-1] = counts[edges[-2] : edges[-1]].sum()  # the bins beyond are not part of the last bar
    return np.asarray(inside / max(1, counts.sum()) / np.diff(EDGES[edges]))


def apart(names: Sequence[str], z: Floats, limit: float) -> Any:
    """Draw how many standard errors each figure lies from what was promised."""
    with page_style() as plt:
        figure, axis = plt.subplots(figsize=(PANEL[0], 0.9 + 0.26 * len(names)), layout="constrained")
        places = np.arange(len(names))
        shown = np.clip(np.nan_to_num(z), -12, 12)
        axis.axvspan(-limit, limit, color=QUIET, alpha=0.15, lw=0, label=f"chance: within {limit:g}")
        axis.axvline(0, color=TEXT, lw=1)
        for colour, far in ((COLOURS[0], False), (COLOURS[1], True)):
            mine = np.isfinite(z) & ((np.abs(z) > limit) == far)
            axis.plot(shown[mine], places[mine], "o", ms=5, color=colour)
        axis.set_yticks(places, [words(name, NAME + 8) for name in names])
        reach = max(limit + 1, float(np.abs(shown).max(initial=0)) + 0.5)
        axis.set(xlabel="standard errors from promised", xlim=(-reach, reach))
        axis.set_ylim(len(names) - 0.5, -0.5)
    return figure


def shares(names: Sequence[str], series: Sequence[tuple[str, Floats]], label: str) -> Any:
    """Draw shares beside each other, one group after the other."""
    with page_style() as plt:
        figure, axis = plt.subplots(figsize=PANEL, layout="constrained")
        places, wide = np.arange(len(names)), 0.8 / len(series)
        for index, (name, values) in enumerate(series):
            at = places + (index - (len(series) - 1) / 2) * wide
            axis.bar(at, values, wide, color=COLOURS[index], label=words(name, 2 * NAME))
        axis.set_xticks(places, [words(name, NAME // 2) for name in names], rotation=30 if len(names) > 4 else 0)
        axis.set(ylabel=label)
        _legend_above(axis, len(series))
    return figure


def lines(curves: Sequence[tuple[str, Floats, Floats]], axes: tuple[str, str], grows: bool) -> Any:
    """Draw curves over an axis; the first may be far longer than the others."""
    from sojourn.report.axes import Line, draw_lines

    with page_style() as plt:
        figure, axis = plt.subplots(figsize=PANEL, layout="constrained")
        draw_lines(axis, [Line(name, at, value) for name, at, value in curves], grows)
        axis.set(xlabel=axes[0], ylabel=axes[1])
        if len(curves) > 1:
            axis.legend()
    return figure


def bars(names: Sequence[str], values: Sequence[float], label: str) -> Any:
    """Draw a bar for each name, the first one in colour."""
    with page_style() as plt:
        figure, axis = plt.subplots(figsize=(PANEL[0], 0.9 + 0.3 * len(names)), layout="constrained")
        colours = [COLOURS[0], *[COLOURS[5]] * (len(names) - 1)]
        drawn = axis.barh(range(len(names)), values, color=colours)
        axis.bar_label(drawn, [f"{value:,.4g}" for value in values], padding=2, fontsize=7)
        axis.set_yticks(range(len(names)), [words(name, 2 * NAME) for name in names])
        axis.invert_yaxis()
        axis.margins(x=0.2)
        axis.set_xlabel(label)
        if far_apart(list(values)) and min(values) > 0 and max(values) > 100 * min(values):
            logarithmic(axis, "x")
    return figure


def steps(edges: Floats, series: Sequence[tuple[str, Floats]], label: str) -> Any:
    """Draw values that hold for a while, one after the other."""
    with page_style() as plt:
        figure, axis = plt.subplots(figsize=PANEL, layout="constrained")
        for index, (name, values) in enumerate(series):
            axis.stairs(values, edges, baseline=None, color=COLOURS[index], lw=1.6, label=name)
        axis.set(xlabel="time (seconds)", ylabel=label, ylim=(0, None))
        axis.legend()
    return figure
