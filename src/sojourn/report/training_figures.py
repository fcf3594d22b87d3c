"""Pictures of training runs, read from their metrics."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sojourn.report.figures import COLOURS, MOST_NAME, pyplot, save, words

AXES = (("received", "updates received"), ("time", "virtual time"))


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
    for axis, (key, said) in zip(axes, AXES, strict=True):
        for index, (name, rows) in enumerate(runs.items()):
            colour = COLOURS[index % len(COLOURS)]
            axis.plot(
                [row[key] for row in rows],
                [row[shown] for row in rows],
                color=colour,
                lw=1.5,
                label=words(name, MOST_NAME),
            )
        axis.set(xlabel=said, xlim=(0, None))
        axis.grid(alpha=0.25)
    axes[0].set_ylabel(label)
    axes[1].legend(frameon=False, fontsize=8)
    figure.suptitle(words(title), fontsize=11)
    return figure
