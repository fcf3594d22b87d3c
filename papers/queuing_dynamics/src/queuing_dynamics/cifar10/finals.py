"""The tables: methods with settings chosen on held-out examples, trained with fresh seeds and
tested on the test set.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from queuing_dynamics.cifar10.readings import Reading
from queuing_dynamics.cifar10.search import Chosen, common
from queuing_dynamics.cifar10.size import Size
from queuing_dynamics.ledger import Marked
from sojourn.experiments.cells import Cell
from sojourn.learning.run.config import TrainConfig


def finals(size: Size, folder: Path, chosen: Chosen) -> Iterator[Marked]:
    """Yield every run of a table: each method under its reading and at its step size."""
    for method, (reading, best) in chosen.items():
        for seed in range(size.final_seeds):
            yield _final(size, folder, method, reading, best.rate, seed)


def _final(size: Size, folder: Path, method: str, reading: Reading, rate: float, seed: int) -> Marked:
    """Return one run, which learns from all training examples and is evaluated on the test set."""
    name = reading.name(size)
    marks: dict[str, Any] = {"reading": name, "method": method, "rate": rate, "seed": seed}
    config = TrainConfig(**reading.keys(size, method), **common(size, folder, reading), step_size=rate, seed=seed)
    return marks, Cell(f"{name}, {method}, rate {rate:g}, seed {seed}, final", config)
