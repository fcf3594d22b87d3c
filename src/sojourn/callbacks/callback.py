"""Callback: what a run tells whoever wants to know, and how it can be asked to end.

    class Printed(Callback):
        name = "printed"

        def evaluated(self, row, model):
            print(row["received"], row["test_loss"])

The methods are called in this order: `check`, `begin`, then `evaluated` and `updated` as the run goes on, and `end`. A
simulated run calls them between two updates. A live run calls each in a thread of its own, so that a slow one does not
hold it up. Whatever `evaluated` and `updated` are given must not be changed.

A callback cannot change the run, except by ending it: `begin`, `evaluated` and `updated` may return a sentence, and
then the run ends there, complete, with this sentence as the reason. An error in a callback does not end a run: it is
reported once, and the run goes on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOME = "callbacks"  # folder in a run's folder, for what callbacks must remember until the run is resumed
KEPT = (HOME, "models", "tensorboard")  # folders in a run's folder that the package's own callbacks write

Row = Mapping[str, float]
"""A row of metrics.csv: its numbers by column."""
Model = Callable[[], dict[str, Any]]
"""Returns the model of the moment: its tensors by their names in the module. The tensors are copies."""


@dataclass(frozen=True)
class RunFacts:
    """What a callback is told when a run begins, or is resumed."""

    folder: Path
    """The folder of the run."""
    config: Mapping[str, Any]
    """The keys of the run."""
    live: bool
    """Whether the run is live; otherwise its clock is simulated."""
    received: int = 0
    """Updates received before: 0 unless the run was resumed."""
    rows: Sequence[Row] = ()
    """Evaluations before, if the run was resumed; they are not reported again."""

    @property
    def resumed(self) -> bool:
        """Whether an earlier process began the run."""
        return self.received > 0 or bool(self.rows)


@dataclass(frozen=True)
class Ending:
    """How a run ended, or why it stopped before its end."""

    complete: bool
    """Whether it reached its end; otherwise it can be resumed."""
    reason: str
    """Why it ended early; empty if it reached the end that its configuration names."""
    received: int
    """Updates received."""


class Callback:
    """Does nothing: inherit from it, and define what you need."""

    name: str = ""
    """What messages call it."""
    every: int | None = None
    """Updates between two calls of `updated`; None = it is not called."""

    def check(self, columns: Sequence[str]) -> None:
        """Raise an InvalidInput if the run should not begin; `columns` are the names in a row of metrics.

        It is called before anything is written.
        """

    def begin(self, run: RunFacts) -> str | None:
        """Take note of a run that begins or is resumed."""

    def evaluated(self, row: Row, model: Model) -> str | None:
        """Take note of an evaluation."""

    def updated(self, received: int, model: Model) -> str | None:
        """Take note that so many updates have been received, a multiple of `every`."""

    def end(self, ending: Ending) -> None:
        """Take note that the run has ended, or was stopped; called in any case but a kill."""
