"""The search: methods under a reading at every step size of a grid, evaluated on held-out examples.

If the best step size of a method is the smallest or the largest of its grid, the grids of all methods of the reading
grow there by one step size, at most twice, so that all methods have equally many trials.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from queuing_dynamics.cifar10.readings import Reading
from queuing_dynamics.cifar10.size import Size
from queuing_dynamics.ledger import Ledger, Marked
from queuing_dynamics.tuned import HELD_OUT, Best, accuracy, reached, scores_of, trial_seeds
from sojourn.experiments.cells import Cell
from sojourn.experiments.grid_search import Grids, Scores, search
from sojourn.learning.run.config import TrainConfig

GROWTH = 2


class Tried(NamedTuple):
    """The trials of a reading."""

    cells: list[Marked]
    """The cells that are known so far."""
    best: dict[str, Best]
    """Each method's best; empty until all cells are in the ledger."""


Chosen = dict[str, tuple[Reading, Best]]
"""By method: its reading and its step size."""


def tried(size: Size, folder: Path, reading: Reading, methods: Sequence[str], ledger: Ledger) -> Tried:
    """Return the trials of these methods under a reading, and their results once all are done."""
    worth = partial(accuracy, most=reading.most(size))
    cells: list[Marked] = []
    means: dict[str, dict[float, float]] = {}

    def look(grids: Grids) -> Scores | None:
        cells[:] = [one for method, grid in grids.items() for one in trials(size, folder, reading, method, grid)]
        if ledger.missing(cells):
            return None
        means.update({method: reached(cells, method, ledger, worth) for method in methods})
        return scores_of(means)

    found = search({method: reading.rates(method) for method in methods}, GROWTH, look)
    if not found.whole:
        return Tried(cells, {})
    chosen = found.chosen.items()
    return Tried(
        cells, {method: Best(rate, means[method][rate], found.edge.get(method, "")) for method, rate in chosen}
    )


def trials(size: Size, folder: Path, reading: Reading, method: str, rates: Iterable[float]) -> list[Marked]:
    """Return the cells of a method at these step sizes, over the seeds of the search."""
    seeds = trial_seeds(size.trial_seeds)
    return [trial(size, folder, reading, method, rate, seed) for rate in rates for seed in seeds]


def trial(size: Size, folder: Path, reading: Reading, method: str, rate: float, seed: int) -> Marked:
    """Return one trial, which is evaluated on examples that it does not learn from."""
    marks: dict[str, Any] = {"reading": reading.name(size), "method": method, "rate": rate, "seed": seed}
    keys = {**reading.keys(size, method), **common(size, folder, reading), **HELD_OUT}
    return marks, Cell(
        f"{marks['reading']}, {method}, rate {rate:g}, seed {seed}", TrainConfig(**keys, step_size=rate, seed=seed)
    )


def common(size: Size, folder: Path, reading: Reading) -> dict[str, Any]:
    """Return the keys of a run that the methods share."""
    return {
        "fleet": size.saved_fleet(folder, reading.slow_rate),
        "data": size.data,
        "partition": f"classes(k={size.classes})",
        "batch_size": size.batch_size,
        "augment": size.augment,
        "precision": size.precision,
    }
