"""A picture of advice: what every policy makes of the same time."""

from pathlib import Path
from typing import Any

from sojourn.durations import shown
from sojourn.folders import made
from sojourn.planning.advice import Advice
from sojourn.report.figures import COLOURS, pyplot, save, words

HEIGHT = 0.42  # inches for each policy


def advice_pictures(advice: Advice, folder: Path) -> list[Path]:
    """The picture, as SVG and PNG; the folder is made where there is none."""
    with made(folder):
        return policies_figure(advice, folder / "plan-policies")


def policies_figure(advice: Advice, path: str | Path) -> list[Path]:
    """Updates within the time, where the tasks are meanwhile, and the stalest clients, by policy."""
    plt = pyplot()
    rows = advice.rows
    figure, axes = plt.subplots(1, 3, figsize=(9.2, 1.4 + HEIGHT * len(rows)), sharey=True)
    places = list(range(len(rows)))
    _bars(axes[0], places, [row.updates for row in rows], f"updates in {shown(advice.time)}")
    waiting, tasks = [row.waiting for row in rows], [row.policy.plan.concurrency for row in rows]
    working = [task - wait for task, wait in zip(tasks, waiting, strict=True)]
    axes[1].barh(places, working, color=COLOURS[0], label="being worked on")
    axes[1].barh(places, waiting, left=working, color=COLOURS[1], label="waiting in queues")
    axes[1].set_xlabel("tasks in flight")
    axes[1].legend(frameon=False, fontsize=7, loc="lower right")
    _bars(axes[2], places, [row.slowest for row in rows], "staleness of the stalest clients")
    axes[0].set_yticks(places, [words(row.policy.name) for row in rows])
    axes[0].invert_yaxis()
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    return save(figure, path)


def _bars(axis: Any, places: list[int], values: list[float], label: str) -> None:
    drawn = axis.barh(places, values, color=[COLOURS[0] if at == 0 else "0.65" for at in places])
    axis.bar_label(drawn, [f"{value:.3g}" for value in values], padding=2, fontsize=7)
    axis.margins(x=0.18)
    axis.set_xlabel(label)
    axis.ticklabel_format(axis="x", style="sci", scilimits=(-2, 4))
