"""Pictures of a calibration: the constants with their intervals during training, and the spectrum."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.bounds import AMOUNT, cut
from sojourn.calibration import Calibration
from sojourn.measured import Measured
from sojourn.report.axes import far_apart, logarithmic
from sojourn.report.figures import COLOURS, pyplot, save

PANELS = {
    "loss": ("mean loss", ("loss",)),
    "L": ("curvature", ("L",)),
    "sigma2": ("variance of a stochastic gradient", ("sigma2_mean", "sigma2")),
    "G2": ("squared distance from the mean gradient", ("G2_mean", "G2")),
}
"""What is drawn at the points of the training: a title and columns for each panel."""
WORDS = {"sigma2_mean": "mean over clients", "G2_mean": "mean over clients"}
LARGEST = "largest client"


def calibration_pictures(found: Calibration, folder: Path) -> list[Path]:
    """Write both pictures; without curvatures only the first."""
    drawn = constants_picture(found, folder / "calibration-constants")
    if any(one.eigenvalues for one in found.points):
        drawn += spectrum_picture(found, folder / "calibration-spectrum")
    return drawn


def constants_picture(found: Calibration, path: Path) -> list[Path]:
    """The measurement at each point of the training with its interval, and the constant that was derived from it."""
    figure, panels = pyplot().subplots(2, 2, figsize=(8.4, 5.6), sharex=True, layout="constrained")
    steps = np.array([one.step for one in found.points])
    for panel, (key, (title, columns)) in zip(panels.flat, PANELS.items(), strict=True):
        for index, column in enumerate(columns):
            measured = [getattr(one, column) for one in found.points]
            label = WORDS.get(column, LARGEST if len(columns) > 1 else None)
            _points(panel, steps, measured, COLOURS[index], label)
        if key != "loss":
            taken: Measured = getattr(found, key)
            panel.axhline(taken.value, color="black", lw=0.9, ls=":", label=f"{key} = {taken.value:.3g}")
            low, high = cut(taken.low, taken.high, AMOUNT)
            panel.axhspan(float(low), float(high), color="black", alpha=0.07, lw=0)
        else:
            panel.plot([], [], " ", label=f"A = {found.A.value:.3g} ({found.A.low:.3g} to {found.A.high:.3g})")
        panel.set_title(title, fontsize=10)
        panel.legend(frameon=False, fontsize=8)
        if far_apart([one.value for column in columns for one in (getattr(point, column) for point in found.points)]):
            logarithmic(panel, "y")
    for panel in panels[1]:
        panel.set_xlabel("step of the training")
    figure.suptitle(f"measured constants, {100 * found.confidence:g}% intervals", fontsize=11)
    return save(figure, path)


def _points(panel: Any, at: Any, measured: Sequence[Measured], colour: str, label: str | None) -> None:
    value, low, high = np.array(measured, dtype=float).T
    low, high = cut(low, high, AMOUNT)
    reach = np.maximum(np.nan_to_num([value - low, high - value]), 0.0)
    panel.errorbar(at, value, yerr=reach, fmt="o-", ms=4, lw=1.2, capsize=3, color=colour, label=label)


def spectrum_picture(found: Calibration, path: Path) -> list[Path]:
    """The largest curvatures of the mean loss at each point, in decreasing order; only positive ones are drawn."""
    figure, axis = pyplot().subplots(figsize=(5.2, 3.4))
    drawn: list[float] = []
    for index, point in enumerate(found.points):
        values, errors = np.array(point.eigenvalues), np.array(point.residuals or np.zeros(len(point.eigenvalues)))
        there = values > 0
        number, colour = np.arange(1, values.size + 1)[there], COLOURS[index % len(COLOURS)]
        low, high = cut(values[there] - errors[there], values[there] + errors[there], AMOUNT)
        reach = [values[there] - low, high - values[there]]
        axis.errorbar(
            number, values[there], yerr=reach, fmt="o-", ms=3.5, lw=1, color=colour, label=f"step {point.step}"
        )
        drawn += values[there].tolist()
    if far_apart(drawn):
        logarithmic(axis, "y")
    axis.xaxis.set_major_locator(pyplot().MaxNLocator(integer=True))
    axis.set(xlabel="number of the direction", ylabel="curvature of the mean loss")
    axis.legend(frameon=False, fontsize=8)
    return save(figure, path)
