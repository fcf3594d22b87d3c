"""What is trained, in the order in which one thing follows from the other.

trials   every method at every rate of its grid, judged on held-out examples
table    each method at its best rate, over fresh seeds, on the test set
"""

from functools import partial
from pathlib import Path
from typing import Any

from sojourn.errors import SojournError
from sojourn.paper.ledger import Ledger, Marked
from sojourn.paper.tinyimagenet.methods import METHODS, RATES, keys
from sojourn.paper.tinyimagenet.size import FAST, FULL, Size
from sojourn.paper.training import Training
from sojourn.paper.tuned import HELD_OUT, Best, accuracy_in_time, best_of, trial_seeds
from sojourn.sweep.cell import Cell
from sojourn.train.config import TrainConfig

STAGES = ("trials", "table")


def ledger_of(stage: str, results: Path) -> Ledger:
    """The ledger of a stage."""
    return Ledger.load(results / stage)


def cells_of(stage: str, size: Size, work: Path, results: Path) -> list[Marked]:
    """The cells of a stage; those of the table follow from the trials."""
    return trials(size, work) if stage == "trials" else finals(size, work, tuned(size, work, results))


def trials(size: Size, work: Path) -> list[Marked]:
    """Every method at every rate."""
    return [
        _run(size, work, method, rate, seed, HELD_OUT)
        for method in METHODS
        for rate in RATES[method]
        for seed in trial_seeds(size.trial_seeds)
    ]


def finals(size: Size, work: Path, best: dict[str, Best]) -> list[Marked]:
    """Every method at its best rate: it learns from all training examples and is judged by the test set."""
    return [
        _run(size, work, method, best[method].rate, seed, {}) for method in METHODS for seed in range(size.final_seeds)
    ]


def tuned(size: Size, work: Path, results: Path) -> dict[str, Best]:
    """The best rate of each method, by its accuracy over the last part of the time."""
    cells, ledger = trials(size, work), ledger_of("trials", results)
    left = len(ledger.missing(cells))
    if left:
        raise SojournError(f"{left} of {len(cells)} trials have not been trained; go on with the stage trials")
    return {method: best_of(cells, method, ledger, partial(accuracy_in_time, end=size.time)) for method in METHODS}


def _run(size: Size, work: Path, method: str, rate: float, seed: int, judged: dict[str, Any]) -> Marked:
    marks: dict[str, Any] = {"method": method, "rate": rate, "seed": seed}
    name = f"{method}, rate {rate:g}, seed {seed}{', trial' if judged else ''}"
    return marks, Cell(name, TrainConfig(**keys(size, work, method), **judged, rate=rate, seed=seed))


TRAINING = Training("tinyimagenet", STAGES, cells_of, ledger_of, FULL, FAST)
