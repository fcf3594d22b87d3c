"""Picture of a live run while it goes on: how good the model is, how many updates come, and how stale they are."""

from collections.abc import Mapping
from typing import Any

from sojourn.report.figures import COLOURS, pyplot, words

LABELS = {"accuracy": "test accuracy", "test_loss": "test loss", "staleness_mean": "mean staleness"}


def attached_figure(curves: Mapping[str, tuple[Any, Any]], title: str) -> Any:
    """One panel per curve, over the time of the run."""
    figure, panels = pyplot().subplots(1, len(curves), figsize=(4.0 * len(curves), 3.2), layout="constrained")
    for index, (panel, (name, (at, value))) in enumerate(zip(panels, curves.items(), strict=True)):
        panel.plot(at, value, color=COLOURS[index % len(COLOURS)], marker="o" if len(at) < 60 else None, ms=2.5)
        panel.set(xlabel="time (seconds)", ylabel=words(LABELS.get(name, name)), xlim=(0, None))
        panel.grid(alpha=0.25)
    figure.suptitle(words(title), fontsize=9)
    return figure
