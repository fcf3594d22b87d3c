"""Draw every policy's loss divided by the best of its cell, one dot per cell."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from policies import ROBUST
from verdict import Verdict
from world import BUDGETS

COLORS = {False: "#9aa7b5", True: "#d1495b"}
MOST = 6.0  # larger values are drawn at the edge
SAID = {ROBUST: f"{ROBUST} (the default)"}


def draw(found: Sequence[Verdict], path: Path) -> None:
    """Draw short budgets on the left, long ones on the right, the best policies on top, held-out cells in red."""
    matplotlib.rcParams["svg.hashsalt"] = "does-it-pay"  # the same file from the same numbers
    names = sorted(dict.fromkeys(name for one in found for name in one.outcomes), key=lambda name: _mean(found, name))
    figure, panels = plt.subplots(1, 2, figsize=(11, 0.34 * len(names) + 1.5), sharey=True, sharex=True)
    for panel, budget in zip(panels, ("short", "long"), strict=True):
        mine = [one for one in found if one.cell.budget == budget]
        for row, name in enumerate(names):
            _row(panel, [one for one in mine if name in one], name, row)
        panel.set_title(f"{budget} budgets: time for {BUDGETS[budget]:,} updates", fontsize=11)
        panel.set_xscale("log")
        panel.set_xlim(0.97, MOST * 1.06)
        panel.xaxis.set_major_locator(FixedLocator([1, 1.5, 2, 3, 4, MOST]))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}{'+' if value == MOST else ''}"))
        panel.axvline(1, color="black", lw=0.6)
        panel.grid(axis="x", color="0.92")
        panel.set_xlabel("test loss / that of the cell's best policy (1 = the best)", fontsize=10)
        panel.tick_params(axis="x", labelsize=9)
        for row in range(len(names)):
            panel.axhline(row, color="0.94", lw=0.8, zorder=0)
    panels[0].set_yticks(range(len(names)), [SAID.get(name, name) for name in names], fontsize=10)
    for label in panels[0].get_yticklabels():
        label.set_fontweight("bold" if label.get_text() == SAID[ROBUST] else "normal")
    panels[0].invert_yaxis()
    said = {False: "cells to develop on", True: "cells held out"}
    handles = [plt.Line2D([], [], marker="o", ls="", ms=5, color=COLORS[held], label=said[held]) for held in said]
    handles.append(plt.Line2D([], [], marker="|", ls="", ms=10, mew=2, color="black", label="mean"))
    figure.legend(handles=handles, loc="lower center", ncols=3, fontsize=10, frameon=False)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    for kind in ("svg", "png"):
        figure.savefig(path.with_suffix(f".{kind}"), dpi=150, metadata={"Date": None} if kind == "svg" else {})
    plt.close(figure)


def _row(panel: plt.Axes, mine: Sequence[Verdict], name: str, row: int) -> None:
    beside = np.random.default_rng(row).uniform(-0.22, 0.22, len(mine))
    for one, off in zip(mine, beside, strict=True):
        panel.plot(min(MOST, one.over_best(name)), row + off, "o", ms=3.5, color=COLORS[one.cell.held_out], alpha=0.8)
    if mine:
        panel.plot(min(MOST, _mean(mine, name)), row, "|", ms=11, mew=2, color="black")


def _mean(found: Sequence[Verdict], name: str) -> float:
    values = [min(1e3, one.over_best(name)) for one in found if name in one]
    return fmean(values) if values else 1e3
