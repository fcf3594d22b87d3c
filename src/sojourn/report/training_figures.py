"""Pictures of training: the curves of runs, and algorithms compared."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.experiments.statistics import AXES
from sojourn.report.axes import Line, draw_lines
from sojourn.report.figures import Panel, legend_below, pyplot, save, single, singles, words
from sojourn.text import listed

LABELS = {"accuracy": "test accuracy", "test_loss": "test loss"}
UNITS = {"time": "virtual time (seconds)"}
OF_A_RUN = ("received", "time")
"""The axes over which a run is drawn."""
Rows = Sequence[Mapping[str, float]]


def curves(runs: Mapping[str, Rows], path: str | Path, title: str, one_by_one: bool = False) -> list[Path]:
    """Write the figure of `curves_figure`; with `one_by_one`, each panel as a separate figure for a paper."""
    if one_by_one:
        return singles({axis: _curves_panel(runs, axis) for axis in OF_A_RUN}, Path(path))
    return save(curves_figure(runs, title), path)


def curves_figure(runs: Mapping[str, Rows], title: str, axis: str | None = None) -> Any:
    """Accuracy (or loss, where there are no classes) of each run, over updates received and over virtual time.

    With an `axis` one panel over that, as a figure for a paper.
    """
    if axis is not None:
        return single(_curves_panel(runs, checked(axis)))
    figure, panels = pyplot().subplots(1, 2, sharey=True, figsize=(9.0, 3.6))
    for panel, key in zip(panels, OF_A_RUN, strict=True):
        _curves_panel(runs, key)(panel)
    panels[1].set_ylabel("")
    panels[1].legend(frameon=False, fontsize=8)
    figure.suptitle(words(title), fontsize=11)
    return figure


def _curves_panel(runs: Mapping[str, Rows], axis: str) -> Panel:
    classes = all(row["accuracy"] == row["accuracy"] for rows in runs.values() for row in rows)
    key = "accuracy" if classes else "test_loss"
    lines = [Line(name, *(np.array([row[one] for row in rows]) for one in (axis, key))) for name, rows in runs.items()]
    return partial(_panel, lines=lines, axis=axis, key=key, target=None)


def comparison_picture(
    curves: Sequence[Mapping[str, Any]],
    key: str,
    path: str | Path,
    title: str,
    target: float | None = None,
    one_by_one: bool = False,
) -> list[Path]:
    """Write the figure of `comparison_figure`; with `one_by_one`, each panel as a separate figure for a paper."""
    if one_by_one:
        return singles({axis: comparison_panel(curves, key, axis, target) for axis in AXES}, Path(path))
    return save(comparison_figure(curves, key, title, target), path)


def comparison_figure(
    curves: Sequence[Mapping[str, Any]], key: str, title: str, target: float | None = None, axis: str | None = None
) -> Any:
    """Mean curves with 95% bands, one panel per axis, from the rows of curves.csv.

    With an `axis` one panel over that, as a figure for a paper.
    """
    if axis is not None:
        return single(comparison_panel(curves, key, checked(axis), target))
    figure, panels = pyplot().subplots(2, 2, sharey=True, figsize=(9.6, 7.0), layout="constrained")
    for panel, one in zip(panels.flat, AXES, strict=True):
        comparison_panel(curves, key, one, target)(panel)
    for panel in panels[:, 1]:
        panel.set_ylabel("")
    legend_below(figure, *panels[0, 0].get_legend_handles_labels())
    figure.suptitle(words(title), fontsize=11)
    return figure


def comparison_panel(curves: Sequence[Mapping[str, Any]], key: str, axis: str, target: float | None) -> Panel:
    """Return what draws mean curves with their bands over one axis."""
    lines = []
    for name in dict.fromkeys(str(row["algorithm"]) for row in curves):
        rows = [row for row in curves if row["algorithm"] == name and row["axis"] == axis]
        columns = ("at", key, f"{key}_low", f"{key}_high")
        lines.append(Line(name, *(np.array([row[one] for row in rows], dtype=float) for one in columns)))
    return partial(_panel, lines=lines, axis=axis, key=key, target=target)


def _panel(panel: Any, lines: Sequence[Line], axis: str, key: str, target: float | None) -> None:
    draw_lines(panel, lines, grows=key == "accuracy")
    if target is not None:
        panel.axhline(target, color="grey", lw=0.8, ls=":", label=f"target {target:g}")
    panel.set(xlabel=UNITS.get(axis, AXES[axis]), ylabel=LABELS.get(key, key))


def checked(axis: str) -> str:
    """Check that an axis exists, and return it."""
    if axis not in AXES:
        raise InvalidInput(f"axis must be {listed(tuple(AXES))}, got '{axis}'")
    return axis
