"""The stages of training, in the order in which they depend on each other.

trials   every method at every setting of its grid, evaluated on held-out examples
table    each method at its best, over fresh seeds, on the test set
"""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from queuing_dynamics.ledger import Ledger, Marked
from queuing_dynamics.tinyimagenet.methods import METHODS, RATES, keys, local_steps
from queuing_dynamics.tinyimagenet.size import FAST, FULL, Size
from queuing_dynamics.training import Training
from queuing_dynamics.tuned import HELD_OUT, accuracy_in_time, best_of, trial_seeds
from sojourn.errors import SojournError
from sojourn.experiments.cells import Cell
from sojourn.learning.run.config import TrainConfig

STAGES = ("trials", "table")


class Tuned(NamedTuple):
    """A method, and its settings."""

    method: str
    """Its name."""
    local_steps: int
    """Most local steps per task."""
    rate: float
    """The rate."""
    edge: str = ""
    """`lower` or `upper` if the step size is the smallest or the largest that was tried with these local steps."""


def ledger_of(stage: str, results: Path) -> Ledger:
    """Return the ledger of a stage."""
    return Ledger.load(results / stage)


def cells_of(stage: str, size: Size, work: Path, results: Path) -> list[Marked]:
    """Return the cells of a stage; those of the table depend on the trials."""
    return trials(size, work) if stage == "trials" else finals(size, work, tuned(size, work, results))


def trials(size: Size, work: Path) -> list[Marked]:
    """Return every method with all its numbers of local steps at every step size."""
    return [
        _run(size, work, Tuned(method, steps, rate), seed, HELD_OUT)
        for method in METHODS
        for steps in local_steps(size, method)
        for rate in RATES[method]
        for seed in trial_seeds(size.trial_seeds)
    ]


def finals(size: Size, work: Path, best: dict[str, Tuned]) -> list[Marked]:
    """Return every method at its best; it learns from all training examples and is evaluated on the test set."""
    return [_run(size, work, best[method], seed, {}) for method in METHODS for seed in range(size.final_seeds)]


def tuned(size: Size, work: Path, results: Path) -> dict[str, Tuned]:
    """Return the best local steps and step size of each method, by its accuracy over the last part of the time."""
    cells, ledger = trials(size, work), ledger_of("trials", results)
    left = len(ledger.missing(cells))
    if left:
        raise SojournError(f"{left} of {len(cells)} trials have not been trained; go on with the stage trials")
    return {method: _best(size, method, cells, ledger) for method in METHODS}


def _best(size: Size, method: str, cells: list[Marked], ledger: Ledger) -> Tuned:
    """Return the best over the best step sizes with each number of local steps."""
    worth = partial(accuracy_in_time, end=size.time)
    by_steps = {
        steps: best_of([one for one in cells if one[0]["local_steps"] == steps], method, ledger, worth)
        for steps in local_steps(size, method)
    }
    steps = max(by_steps, key=lambda each: by_steps[each].accuracy)
    return Tuned(method, steps, by_steps[steps].rate, by_steps[steps].edge)


def _run(size: Size, work: Path, at: Tuned, seed: int, judged: dict[str, Any]) -> Marked:
    marks: dict[str, Any] = {"method": at.method, "local_steps": at.local_steps, "rate": at.rate, "seed": seed}
    steps = f", {at.local_steps} local steps" if at.local_steps > 1 else ""
    name = f"{at.method}{steps}, rate {at.rate:g}, seed {seed}{', trial' if judged else ''}"
    config = TrainConfig(**keys(size, work, at.method, at.local_steps), **judged, step_size=at.rate, seed=seed)
    return marks, Cell(name, config)


TRAINING = Training("tinyimagenet", STAGES, cells_of, ledger_of, FULL, FAST)
