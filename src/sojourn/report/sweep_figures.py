"""A picture of a sweep: the results over the keys that were swept, with intervals over the seeds."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.bounds import AMOUNT, ANY, Bounds, bounds_of
from sojourn.experiments.statistics import Interval, interval
from sojourn.report.axes import far_apart, logarithmic
from sojourn.report.figures import COLOURS, MOST_NAME, legend_below, pyplot, save, words

MOST_PANELS = 6
Row = Mapping[str, Any]


def sweep_pictures(rows: Sequence[Row], keys: Sequence[str], nonnegative: bool, folder: Path) -> list[Path]:
    """Write the picture, if a run is complete. `nonnegative` says that the loss cannot be less than zero."""
    ended = [row for row in rows if row["state"] == "complete"]
    return sweep_picture(ended, keys, nonnegative, folder / "sweep-response") if ended else []


def sweep_picture(rows: Sequence[Row], keys: Sequence[str], nonnegative: bool, path: Path) -> list[Path]:
    """Write the figure of `sweep_figure`."""
    return save(sweep_figure(rows, keys, nonnegative), path)


def sweep_figure(rows: Sequence[Row], keys: Sequence[str], nonnegative: bool) -> Any:
    """One key along the axis, one as lines, the others as panels; mean and 95% interval over the seeds."""
    shown = "accuracy" if all(row["accuracy"] == row["accuracy"] for row in rows) else "test_loss"
    bounds = bounds_of(shown) if shown == "accuracy" else AMOUNT if nonnegative else ANY
    along, lines, others = axes_of(rows, keys)
    points = list(product(*(_values(rows, key) for key in others)))
    many = min(len(points), MOST_PANELS)
    columns = min(3, many)
    size = (max(5.2, 3.4 * columns), 3.4 * -(-many // columns))
    figure, panels = pyplot().subplots(
        -(-many // columns), columns, figsize=size, sharey=True, squeeze=False, layout="constrained"
    )
    for panel, point in zip(panels.flat, points, strict=False):
        here = [row for row in rows if all(row[key] == value for key, value in zip(others, point, strict=True))]
        _draw(panel, here, along, lines, shown, bounds)
        title = ", ".join(f"{key} {value}" for key, value in zip(others, point, strict=True))
        panel.set_title(words(title, MOST_NAME), fontsize=9)
    for panel in list(panels.flat)[many:]:
        panel.set_axis_off()
    for panel in panels[:, 0]:
        panel.set_ylabel({"accuracy": "test accuracy", "test_loss": "test loss"}[shown])
    if lines is not None:
        handles, values = panels[0, 0].get_legend_handles_labels()
        height = legend_below(figure, handles, [words(f"{lines} {value}", MOST_NAME) for value in values], 8)
        figure.set_size_inches(size[0], size[1] + height)  # below, where it covers no interval
    if len(points) > many:
        figure.suptitle(f"{many} of {len(points)} combinations of {', '.join(others)}", fontsize=10)
    return figure


def axes_of(rows: Sequence[Row], keys: Sequence[str]) -> tuple[str, str | None, list[str]]:
    """The key along the axis (the numeric key with the most values), the key of the lines, and those of the panels.

    >>> axes_of([{"a": "x", "b": one, "c": two} for one in (1, 2, 3) for two in (1, 2)], ["a", "b", "c"])
    ('b', 'c', [])
    """
    swept = [key for key in keys if len(_values(rows, key)) > 1] or list(keys[:1]) or ["seed"]
    order = sorted(swept, key=lambda key: (not _numeric(rows, key), -len(_values(rows, key))))
    return order[0], order[1] if len(order) > 1 else None, order[2:]


def _values(rows: Sequence[Row], key: str) -> list[Any]:
    return list(dict.fromkeys(row[key] for row in rows))


def _numeric(rows: Sequence[Row], key: str) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in _values(rows, key))


def _draw(panel: Any, rows: Sequence[Row], along: str, lines: str | None, shown: str, bounds: Bounds) -> None:
    numeric, places = _numeric(rows, along), _values(rows, along)
    places = sorted(places) if numeric else places
    at = np.array(places, dtype=float) if numeric else np.arange(len(places), dtype=float)
    for index, value in enumerate(_values(rows, lines) if lines is not None else [None]):
        mine = [row for row in rows if lines is None or row[lines] == value]
        found = [interval((row[shown] for row in mine if row[along] == one), within=bounds) for one in places]
        shift = 0.0 if numeric else 0.08 * index
        _errors(panel, at + shift, found, "o-" if numeric else "o", COLOURS[index % len(COLOURS)], str(value))
    if not numeric:
        panel.set_xticks(at, [words(str(one), 20) for one in places], rotation=20 if len(places) > 2 else 0)
    elif far_apart(at.tolist()):
        logarithmic(panel, "x")
        panel.set_xticks(at, [f"{one:g}" for one in at])
        panel.minorticks_off()
    panel.set_xlabel(words(along, MOST_NAME))
    panel.grid(alpha=0.25)


def _errors(panel: Any, at: Any, found: Sequence[Interval], form: str, colour: str, label: str) -> None:
    mean, low, high = np.array(found, dtype=float).T
    reach = np.nan_to_num([mean - low, high - mean])
    panel.errorbar(at, mean, yerr=reach, fmt=form, ms=4, lw=1.2, capsize=3, color=colour, label=words(label, MOST_NAME))
