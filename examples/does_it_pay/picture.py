"""The grid as a picture: loss by number of tasks, a line a way to sample, and where the bound points."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter, NullLocator
from world import POWERS, TASKS

Row = dict[str, object]


def draw(cells: list[Row], path: Path) -> None:
    """A panel a dataset and fleet; a ring at the bound's pick among the grid, a cross at its free choice."""
    works, names = (list(dict.fromkeys(str(row[key]) for row in cells)) for key in ("data", "fleet"))
    figure, panels = plt.subplots(
        len(works), len(names), figsize=(3.6 * len(names), 3.2 * len(works)), squeeze=False, sharex=True, sharey="row"
    )
    for across, work in enumerate(works):
        for down, name in enumerate(names):
            panel = panels[across][down]
            _panel(panel, [row for row in cells if (row["data"], row["fleet"]) == (work, name)])
            panel.set_title(f"{work}, {name}", fontsize=9)
            panel.set_xlabel("tasks in flight" if across == len(works) - 1 else "")
        panels[across][0].set_ylabel("test loss at the end, 95% interval")
        losses = [_loss(row) for row in cells if row["data"] == work]
        panels[across][0].set_ylim(0.8 * np.nanmin(losses), 1.15 * np.nanmax(losses))
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    for kind in ("svg", "png"):
        figure.savefig(path.with_suffix(f".{kind}"), dpi=150)
    plt.close(figure)


def _panel(panel, mine: list[Row]) -> None:
    grid = [row for row in mine if row["sampling"] in POWERS]
    for number, way in enumerate(POWERS):
        line = [row for row in grid if row["sampling"] == way]
        if line:
            losses = [_loss(row) for row in line]
            panel.plot(TASKS, losses, marker="o", color=f"C{number}", label=f"p: {way}")
            ends = [(_loss(row, "test_loss_low"), _loss(row, "test_loss_high")) for row in line]
            beside = [tasks * 1.03**number for tasks in TASKS]
            panel.vlines(beside, *zip(*ends, strict=True), color=f"C{number}", lw=0.8)
    for key, size, color in (("default", 13, "black"), ("calibrated", 18, "grey")):
        pick = min(grid, key=lambda row: float(str(row[f"bound_{key}"])))
        panel.plot(
            [pick["tasks"]], [_loss(pick)], "o", mfc="none", ms=size, color=color, label=f"the bound's pick, {key}"
        )
    for row, color in zip((row for row in mine if row["sampling"] not in POWERS), ("black", "grey"), strict=True):
        panel.plot(
            [row["tasks"]],
            [_loss(row)],
            "x",
            ms=9,
            color=color,
            label=f"its free choice, {str(row['sampling']).split(', ')[1]}",
        )
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xticks(TASKS, [str(tasks) for tasks in TASKS])
    panel.xaxis.set_minor_locator(NullLocator())
    for axis in (panel.yaxis.set_major_formatter, panel.yaxis.set_minor_formatter):
        axis(FuncFormatter(lambda value, _: f"{value:.3g}" if f"{value:.1e}"[0] in "123568" else ""))


def _loss(row: Row, key: str = "test_loss") -> float:
    value = row[key]
    return float("nan") if value in (None, "") else float(str(value))
