"""Axes on which every curve can be read, even if one is much longer or higher than another."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sojourn.report.figures import COLOURS, MOST_NAME, words
from sojourn.report.free_place import LETTERS, Free
from sojourn.shown import short
from sojourn.types import Floats

FACTOR = 3.0
"""Axes are logarithmic where the ends of the curves differ by more than this factor."""
SHOWN = 30.0  # a logarithmic axis begins at the length of the shortest curve divided by this
NAME = 26  # longest name at the end of a curve, in characters


class Line(NamedTuple):
    """A curve and its band."""

    name: str
    """Its name."""
    at: Floats
    """Where."""
    value: Floats
    """The mean at each point."""
    low: Floats | None = None
    """Lower end of its interval; None = there is none."""
    high: Floats | None = None
    """Upper end."""


def far_apart(values: Sequence[float]) -> bool:
    """Whether positive numbers differ by more than the factor, so that an even axis would hide the smallest.

    >>> far_apart([10, 25]), far_apart([10, 31]), far_apart([0, 31])
    (False, True, False)
    """
    there = [value for value in values if np.isfinite(value)]
    return bool(there) and min(there) > 0 and max(there) > FACTOR * min(there)


def draw_lines(panel: Any, lines: Sequence[Line], grows: bool = True) -> None:
    """Draw curves with their bands and set the scales of the axes.

    The horizontal axis is logarithmic where one curve is more than three times as long as another; then the short
    curves have their names at their ends. The vertical axis is logarithmic where the last values differ by more than a
    factor of three, unless it `grows` to a bound, as accuracies do.
    """
    for index, line in enumerate(lines):
        style = {"color": COLOURS[index % len(COLOURS)], "ls": ("-", "--", ":")[index // len(COLOURS) % 3]}
        panel.plot(line.at, line.value, label=words(line.name, MOST_NAME), **style)
        alone = np.isfinite(line.at) & np.isfinite(line.value)
        if alone.sum() == 1:  # a line through one point is not seen
            panel.plot(line.at[alone], line.value[alone], "o", ms=4, color=style["color"], clip_on=False)
        if line.low is not None and line.high is not None:
            panel.fill_between(line.at, line.low, line.high, color=style["color"], alpha=0.18, lw=0)
    there = [index for index, line in enumerate(lines) if np.isfinite(line.at).any()]
    ends = [float(np.nanmax(lines[index].at)) for index in there]
    if far_apart(ends):
        panel.set_xlim(min(ends) / SHOWN, max(ends) * 1.05)
        logarithmic(panel, "x")
    else:
        panel.set_xlim(0, None)
    last = [float(values[-1]) for values in (line.value[np.isfinite(line.value)] for line in lines) if values.size]
    if not grows and far_apart(last):
        logarithmic(panel, "y")
    if far_apart(ends):
        _name_ends(panel, [(index, lines[index]) for index in there], max(ends), grows)
    panel.grid(alpha=0.25)


def logarithmic(panel: Any, side: str) -> None:
    """Make an axis logarithmic, with plain numbers; the less it spans, the more numbers it has."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    getattr(panel, f"set_{side}scale")("log")
    axis = getattr(panel, f"{side}axis")
    low, high = axis.get_view_interval()
    span = high / max(low, 1e-300)
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if span < 30 else (1.0, 3.0) if span < 3000 else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


def _name_ends(panel: Any, lines: Sequence[tuple[int, Line]], longest: float, grows: bool) -> None:
    """Draw a dot at the end of every curve, and the names of those that end early where they cover least.

    Curves that grow continue above the ends of the short ones, and curves that fall continue below them, so the other
    side is tried first.
    """
    free = Free(panel, [line for _, line in lines])
    for index, line in sorted(lines, key=lambda one: float(np.nanmax(one[1].at))):
        seen = np.flatnonzero(np.isfinite(line.value))
        if not seen.size:
            continue
        at, value, colour = float(line.at[seen[-1]]), float(line.value[seen[-1]]), COLOURS[index % len(COLOURS)]
        panel.plot([at], [value], "o", ms=3.5, color=colour)
        if at * FACTOR < longest:
            name = words(short(line.name, NAME))
            place = free.place(len(name), at, value, -1 if grows else 1)
            note = panel.annotate(
                name, (at, value), textcoords="offset points", fontsize=LETTERS, color=colour, **place
            )
            note.set_path_effects([_halo()])


def _halo() -> Any:
    """A white border around letters, so that they can be read on top of a curve."""
    from matplotlib.patheffects import withStroke

    return withStroke(linewidth=2, foreground="white")
