"""A picture of a tuning: the held-out loss over the step sizes, at each rung of the halving."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.experiments.tune_plan import TunedPlan, share
from sojourn.report.axes import far_apart, logarithmic
from sojourn.report.figures import COLOURS, pyplot, save, words

MOST_PANELS = 6


def tuning_pictures(found: TunedPlan, folder: Path) -> list[Path]:
    """Write the picture, if a trial has ended."""
    return tuning_picture(found, folder / "tuning-loss") if found.rows else []


def tuning_picture(found: TunedPlan, path: Path) -> list[Path]:
    """One panel per combination of correction and buffer, with one line per rung and one point per seed."""
    trials = list(found.means())
    combinations = list(dict.fromkeys(one.combination for one in trials))[:MOST_PANELS]
    columns = min(3, len(combinations))
    rows = -(-len(combinations) // columns)
    size = (max(5.2, 3.4 * columns), 3.4 * rows)
    figure, panels = pyplot().subplots(rows, columns, figsize=size, sharey=True, squeeze=False, layout="constrained")
    finite = [float(row["loss"]) for row in found.rows if np.isfinite(row["loss"])]
    for panel, name in zip(panels.flat, combinations, strict=False):
        _draw(panel, found, name, max(finite, default=1.0))
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
    return save(figure, path)


def _draw(panel: Any, found: TunedPlan, name: str, top: float) -> None:
    for index, rung in enumerate(found.lengths):
        colour = COLOURS[index % len(COLOURS)]
        means = {
            trial: mine[rung] for trial, mine in found.means().items() if trial.combination == name and rung in mine
        }
        ended = [(trial.step_size, value) for trial, value in means.items() if np.isfinite(value)]
        if ended:
            panel.plot(*zip(*ended, strict=True), "o-", ms=4, lw=1.2, color=colour, label=share(rung))
        _seeds(panel, found.rows, means, rung, colour)
        gone = [trial.step_size for trial, value in means.items() if not np.isfinite(value)]
        if gone:
            panel.plot(gone, [top] * len(gone), "x", color=colour, ms=6, label=share(rung).replace("loss", "diverged"))
    if found.chosen is not None and found.chosen.combination == name:
        panel.axvline(found.chosen.step_size, color="black", lw=0.9, ls=":", label=f"chosen {found.chosen.step_size:g}")


def _seeds(panel: Any, rows: Sequence[Any], means: Any, rung: float, colour: str) -> None:
    keys = {tuple(trial) for trial in means}
    mine = [row for row in rows if row["rung"] == rung and np.isfinite(row["loss"])]
    here = [row for row in mine if (row["step_size"], row["correction"], row["buffer"]) in keys]
    panel.plot([row["step_size"] for row in here], [row["loss"] for row in here], ".", ms=3, alpha=0.5, color=colour)
