"""What is trained, in the order in which one thing follows from the other.

trials   every method at every setting of its grid, judged on held-out examples
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
    """A method, and what it is run at."""

    method: str
    """Its name."""
    local_steps: int
    """Of a task, at most."""
    rate: float
    """The rate."""
    edge: str = ""
    """`lower` or `upper` where this is the least or the largest rate that was tried with these local steps."""


def ledger_of(stage: str, results: Path) -> Ledger:
    """The ledger of a stage."""
    return Ledger.load(results / stage)


def cells_of(stage: str, size: Size, work: Path, results: Path) -> list[Marked]:
    """The cells of a stage; those of the table follow from the trials."""
    return trials(size, work) if stage == "trials" else finals(size, work, tuned(size, work, results))


def trials(size: Size, work: Path) -> list[Marked]:
    """Every method with all its local steps at every rate."""
    return [
        _run(size, work, Tuned(method, steps, rate), seed, HELD_OUT)
        for method in METHODS
        for steps in local_steps(size, method)
        for rate in RATES[method]
        for seed in trial_seeds(size.trial_seeds)
    ]


def finals(size: Size, work: Path, best: dict[str, Tuned]) -> list[Marked]:
    """Every method at its best: it learns from all training examples and is judged by the test set."""
    return [_run(size, work, best[method], seed, {}) for method in METHODS for seed in range(size.final_seeds)]


def tuned(size: Size, work: Path, results: Path) -> dict[str, Tuned]:
    """The best local steps and rate of each method, by its accuracy over the last part of the time."""
    cells, ledger = trials(size, work), ledger_of("trials", results)
    left = len(ledger.missing(cells))
    if left:
        raise SojournError(f"{left} of {len(cells)} trials have not been trained; go on with the stage trials")
    return {method: _best(size, method, cells, ledger) for method in METHODS}


def _best(size: Size, method: str, cells: list[Marked], ledger: Ledger) -> Tuned:
    """The best rate with each number of local steps, and of these the best."""
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
