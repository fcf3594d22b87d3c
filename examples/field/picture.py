"""Draw every entry's loss over the best of its cell, one dot per cell: random classes left, by speed right."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from cells import Cell
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from results import Outcomes
from tables import mean_over_best, over_best, ranked

COLORS = {"mild": "#2a9d8f", "10:1": "#d1495b", "heavy-tailed": "#5c6b9c"}
MOST = 8.0  # larger values are drawn at the edge


def draw(found: Outcomes, cells: Sequence[Cell], path: Path) -> None:
    """Draw the picture, the best entries on top, as SVG and PNG."""
    matplotlib.rcParams["svg.hashsalt"] = "field"  # the same file from the same numbers
    mine = [cell for cell in cells if cell.name in found]
    names = ranked(found, [cell.name for cell in mine])
    figure, panels = plt.subplots(1, 2, figsize=(11, 0.3 * len(names) + 1.5), sharey=True, sharex=True)
    for panel, dealt in zip(panels, ("random", "by speed"), strict=True):
        here = [cell for cell in mine if cell.dealt == dealt]
        for row, name in enumerate(names):
            _row(panel, found, here, name, row)
        panel.set_title(
            {"random": "classes dealt at random", "by speed": "slow clients have classes of their own"}[dealt]
        )
        panel.set_xscale("log")
        panel.set_xlim(0.95, MOST * 1.08)
        panel.xaxis.set_major_locator(FixedLocator([1, 1.5, 2, 3, 5, MOST]))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}{'+' if value == MOST else ''}"))
        panel.axvline(1, color="black", lw=0.6)
        panel.grid(axis="x", color="0.92")
        panel.set_xlabel("test loss / that of the cell's best entry (1 = the best)")
    panels[0].set_yticks(range(len(names)), names)
    for label in panels[0].get_yticklabels():
        label.set_fontweight("bold" if label.get_text().endswith("planned") else "normal")
    panels[0].invert_yaxis()
    handles = [plt.Line2D([], [], marker="o", ls="", ms=5, color=COLORS[fleet], label=fleet) for fleet in COLORS]
    handles.append(plt.Line2D([], [], marker="|", ls="", ms=10, mew=2, color="black", label="geometric mean"))
    figure.legend(handles=handles, loc="lower center", ncols=4, frameon=False)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    for kind in ("svg", "png"):
        figure.savefig(path.with_suffix(f".{kind}"), dpi=130, metadata={"Date": None} if kind == "svg" else {})
    plt.close(figure)


def _row(panel: plt.Axes, found: Outcomes, cells: Sequence[Cell], name: str, row: int) -> None:
    panel.axhline(row, color="0.94", lw=0.8, zorder=0)
    beside = np.random.default_rng(row).uniform(-0.22, 0.22, len(cells))
    values = [over_best(found, cell.name, name) for cell in cells]
    for cell, value, off in zip(cells, values, beside, strict=True):
        panel.plot(min(MOST, value), row + off, "o", ms=3.5, color=COLORS[cell.fleet_name], alpha=0.85)
    if cells:
        mean = mean_over_best(found, [cell.name for cell in cells], name)
        panel.plot(min(MOST, mean), row, "|", ms=11, mew=2, color="black")
