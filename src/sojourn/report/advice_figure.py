"""A picture of advice: what each policy achieves in the same time."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from sojourn.durations import shown
from sojourn.folders import made
from sojourn.planning.advice import Advice
from sojourn.report.figures import COLOURS, legend_below, pyplot, save, singles, words

HEIGHT = 0.42  # inches for each policy


def advice_pictures(advice: Advice, folder: Path, one_by_one: bool = False) -> list[Path]:
    """Write the picture as SVG and PNG, or each panel as a separate figure; the folder is made if needed."""
    with made(folder):
        if one_by_one:
            return singles({name: partial(_named, advice, draw) for name, draw in PANELS.items()}, folder / "plan")
        return policies_figure(advice, folder / "plan-policies")


def policies_figure(advice: Advice, path: str | Path) -> list[Path]:
    """For each policy: updates within the time, where the tasks are, and the staleness of the stalest clients."""
    size = (9.2, 1.6 + HEIGHT * len(advice.rows))
    figure, axes = pyplot().subplots(1, 3, figsize=size, sharey=True, layout="constrained")
    for axis, draw in zip(axes, PANELS.values(), strict=True):
        draw(advice, axis)
        axis.spines[["top", "right"]].set_visible(False)
    handles, labels = axes[1].get_legend_handles_labels()
    legend_below(figure, handles, labels, 8)  # below, where it covers no bar
    _name(advice, axes[0])
    return save(figure, path)


def _named(advice: Advice, draw: Callable[[Advice, Any], None], axis: Any) -> None:
    draw(advice, axis)
    _name(advice, axis)


def _name(advice: Advice, axis: Any) -> None:
    axis.set_yticks(range(len(advice.rows)), [words(row.policy.name) for row in advice.rows])
    axis.invert_yaxis()


def _updates(advice: Advice, axis: Any) -> None:
    _bars(axis, [row.updates for row in advice.rows], f"updates in {shown(advice.time)}")


def _tasks(advice: Advice, axis: Any) -> None:
    waiting = [row.waiting for row in advice.rows]
    working = [row.policy.plan.concurrency - wait for row, wait in zip(advice.rows, waiting, strict=True)]
    axis.barh(range(len(waiting)), working, color=COLOURS[0], label="being worked on")
    axis.barh(range(len(waiting)), waiting, left=working, color=COLOURS[1], label="waiting in queues")
    axis.set_xlabel("tasks in flight")


def _staleness(advice: Advice, axis: Any) -> None:
    _bars(axis, [row.slowest for row in advice.rows], "staleness of the stalest clients")


def _bars(axis: Any, values: list[float], label: str) -> None:
    drawn = axis.barh(
        range(len(values)), values, color=[COLOURS[0] if at == 0 else "0.65" for at in range(len(values))]
    )
    axis.bar_label(
        drawn, [f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" for value in values], padding=2, fontsize=7
    )
    axis.margins(x=0.18)
    axis.set_xlabel(label)
    axis.ticklabel_format(axis="x", style="sci", scilimits=(-2, 4))


PANELS: Mapping[str, Callable[[Advice, Any], None]] = {"updates": _updates, "tasks": _tasks, "staleness": _staleness}
"""The numbers that are drawn for each policy."""
