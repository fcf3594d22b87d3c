"""Pictures of training: the curves of runs, and methods compared."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sojourn.experiments.statistics import AXES
from sojourn.report.figures import COLOURS, MOST_NAME, pyplot, save, words

LABELS = {"accuracy": "test accuracy", "test_loss": "test loss"}


Rows = Sequence[Mapping[str, float]]


def curves(runs: Mapping[str, Rows], path: str | Path, title: str) -> list[Path]:
    """The figure of `curves_figure`, written."""
    return save(curves_figure(runs, title), path)


def curves_figure(runs: Mapping[str, Rows], title: str) -> Any:
    """Accuracy (or loss, where there are no classes) of each run, over updates received and over virtual time."""
    plt = pyplot()
    classes = all(row["accuracy"] == row["accuracy"] for rows in runs.values() for row in rows)
    shown, label = ("accuracy", "test accuracy") if classes else ("test_loss", "test loss")
    figure, axes = plt.subplots(1, 2, sharey=True, figsize=(9.0, 3.6))
    for axis, key in zip(axes, ("received", "time"), strict=True):
        for index, (name, rows) in enumerate(runs.items()):
            colour = COLOURS[index % len(COLOURS)]
            axis.plot(
                [row[key] for row in rows],
                [row[shown] for row in rows],
                color=colour,
                lw=1.5,
                label=words(name, MOST_NAME),
            )
        axis.set(xlabel=AXES[key], xlim=(0, None))
        axis.grid(alpha=0.25)
    axes[0].set_ylabel(label)
    axes[1].legend(frameon=False, fontsize=8)
    figure.suptitle(words(title), fontsize=11)
    return figure


def comparison_picture(
    curves: Sequence[Mapping[str, Any]], key: str, path: str | Path, title: str, target: float | None = None
) -> list[Path]:
    """The figure of `comparison_figure`, written."""
    return save(comparison_figure(curves, key, title, target), path)


def comparison_figure(curves: Sequence[Mapping[str, Any]], key: str, title: str, target: float | None = None) -> Any:
    """Mean curves with 95% bands, a panel an axis, from the rows of curves.csv."""
    plt = pyplot()
    names = list(dict.fromkeys(str(row["algorithm"]) for row in curves))
    figure, panels = plt.subplots(2, 2, sharey=True, figsize=(9.6, 7.0), layout="constrained")
    for panel, (axis, said) in zip(panels.flat, AXES.items(), strict=True):
        for index, name in enumerate(names):
            rows = [row for row in curves if row["algorithm"] == name and row["axis"] == axis]
            at = [row["at"] for row in rows]
            colour, dashes = COLOURS[index % len(COLOURS)], ("-", "--", ":")[index // len(COLOURS) % 3]
            panel.plot(at, [row[key] for row in rows], color=colour, ls=dashes, lw=1.5, label=words(name, MOST_NAME))
            low, high = ([row[f"{key}_{end}"] for row in rows] for end in ("low", "high"))
            panel.fill_between(at, low, high, color=colour, alpha=0.18, lw=0)
        if target is not None:
            panel.axhline(target, color="grey", lw=0.8, ls=":", label=f"target {target:g}")
        panel.set(xlabel=said, xlim=(0, None))
        panel.grid(alpha=0.25)
    for panel in panels[:, 0]:
        panel.set_ylabel(LABELS.get(key, key))
    if key == "accuracy":  # Student's interval knows of no such bounds
        panels[0, 0].set_ylim(max(0.0, panels[0, 0].get_ylim()[0]), min(1.0, panels[0, 0].get_ylim()[1]))
    _legend(figure, *panels[0, 0].get_legend_handles_labels())
    figure.suptitle(words(title), fontsize=11)
    return figure


def _legend(figure: Any, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """Below the panels, in as many columns as the names leave room for, four at most."""
    for columns in range(min(4, len(labels)), 0, -1):
        legend = figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()
