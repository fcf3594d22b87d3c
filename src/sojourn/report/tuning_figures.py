"""A picture of a tuning: the held-out loss over the step sizes, at each rung of the halving."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.experiments.tuned_plan import Trial, TunedPlan, means_of, share
from sojourn.report.axes import far_apart, logarithmic
from sojourn.report.figures import COLOURS, pyplot, save, words

MOST_PANELS = 6
Rows = Sequence[Mapping[str, Any]]


def tuning_pictures(found: TunedPlan, folder: Path) -> list[Path]:
    """Write the picture, if a trial has ended."""
    return tuning_picture(found, folder / "tuning-loss") if found.rows else []


def tuning_picture(found: TunedPlan, path: Path) -> list[Path]:
    """Write the picture."""
    return save(tuning_figure(found.rows, found.lengths, found.chosen), path)


def tuning_figure(rows_tried: Rows, lengths: Sequence[float], chosen: Trial | None) -> Any:
    """One panel per combination of correction and buffer, with one line per rung and one point per seed."""
    trials = list(means_of(rows_tried))
    combinations = list(dict.fromkeys(one.combination for one in trials))[:MOST_PANELS]
    columns = min(3, len(combinations))
    rows = -(-len(combinations) // columns)
    size = (max(5.2, 3.4 * columns), 3.4 * rows)
    figure, panels = pyplot().subplots(rows, columns, figsize=size, sharey=True, squeeze=False, layout="constrained")
    finite = [float(row["loss"]) for row in rows_tried if np.isfinite(row["loss"])]
    for panel, name in zip(panels.flat, combinations, strict=False):
        _draw(panel, rows_tried, lengths, chosen, name, max(finite, default=1.0))
        logarithmic(panel, "x")
        panel.set_xlabel("step size")
        if len(combinations) > 1:
            panel.set_title(words(name), fontsize=10)
    if far_apart(finite):
        logarithmic(panels[0, 0], "y")
    for panel in list(panels.flat)[len(combinations) :]:
        panel.set_axis_off()
    for panel in panels[:, 0]:
        panel.set_ylabel("held-out loss")
    panels[0, 0].legend(frameon=False, fontsize=8)
    return figure


def _draw(panel: Any, rows: Rows, lengths: Sequence[float], chosen: Trial | None, name: str, top: float) -> None:
    for index, rung in enumerate(lengths):
        colour = COLOURS[index % len(COLOURS)]
        means = {
            trial: mine[rung] for trial, mine in means_of(rows).items() if trial.combination == name and rung in mine
        }
        ended = [(trial.step_size, value) for trial, value in means.items() if np.isfinite(value)]
        if ended:
            panel.plot(*zip(*ended, strict=True), "o-", ms=4, lw=1.2, color=colour, label=share(rung))
        _seeds(panel, rows, means, rung, colour)
        gone = [trial.step_size for trial, value in means.items() if not np.isfinite(value)]
        if gone:
            panel.plot(gone, [top] * len(gone), "x", color=colour, ms=6, label=share(rung).replace("loss", "diverged"))
    if chosen is not None and chosen.combination == name:
        panel.axvline(chosen.step_size, color="black", lw=0.9, ls=":", label=f"chosen {chosen.step_size:g}")


def _seeds(panel: Any, rows: Rows, means: Any, rung: float, colour: str) -> None:
    keys = {tuple(trial) for trial in means}
    mine = [row for row in rows if row["rung"] == rung and np.isfinite(row["loss"])]
    here = [row for row in mine if (row["step_size"], row["correction"], row["buffer"]) in keys]
    panel.plot([row["step_size"] for row in here], [row["loss"] for row in here], ".", ms=3, alpha=0.5, color=colour)
