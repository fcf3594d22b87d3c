"""A callback of one's own: keep the model with the best evaluation.

PYTHONPATH=examples/extending sojourn train fleet.csv --callback "own_callback:KeepBest(metric=accuracy)"
"""

import sys
from math import inf
from pathlib import Path

from safetensors.torch import save_file

import sojourn as sj
from sojourn.callbacks import Callback, Ending, RunFacts


class KeepBest(Callback):
    """Keeps the model with the largest value of a metric, as best.safetensors in the run's folder."""

    name = "keep-best"

    def __init__(self, metric: str = "accuracy") -> None:
        self.metric = metric

    def begin(self, run: RunFacts) -> None:
        self.place = run.folder / "best.safetensors"
        self.best = max((row[self.metric] for row in run.rows), default=-inf)  # a resumed run goes on

    def evaluated(self, row, model) -> None:
        if row[self.metric] > self.best:
            self.best = row[self.metric]
            save_file(model(), self.place)

    def end(self, ending: Ending) -> None:
        print(f"best {self.metric} {self.best:.3f} of {ending.received} updates, in {self.place.name}")


def main(folder: str = "best") -> None:
    """Train a little, and keep the best model."""
    fleet = sj.Fleet.of(fast=(3, 8.0), slow=(3, 1.0))
    keep = KeepBest()
    run = sj.train(fleet, folder=Path(folder), steps=100, callbacks=[keep], progress=False)
    print(f"last accuracy {run.last['accuracy']:.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
