"""The table: the three methods under the settled reading, each at its best rate, over fresh seeds, on the test set."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sojourn.paper.cifar10.readings import PAPER
from sojourn.paper.cifar10.search import common
from sojourn.paper.cifar10.settled import Standing
from sojourn.paper.cifar10.size import Size
from sojourn.paper.ledger import Marked
from sojourn.sweep.cell import Cell
from sojourn.train.config import TrainConfig


def finals(size: Size, folder: Path, settled: Standing) -> Iterator[Marked]:
    """Every run of the table, with what it is a run of."""
    reading = settled.reading
    for one in PAPER:
        rate = settled.best[one.name].rate
        for seed in range(size.final_seeds):
            yield final(size, folder, one.name, reading.name(size), reading.keys(size, one.name), rate, seed)


def final(
    size: Size, folder: Path, method: str, reading: str, keys: Mapping[str, Any], rate: float, seed: int
) -> Marked:
    """One run, which learns from all training examples and is judged by the test set."""
    marks: dict[str, Any] = {"reading": reading, "method": method, "rate": rate, "seed": seed}
    config = TrainConfig(**keys, **common(size, folder), rate=rate, seed=seed)
    return marks, Cell(f"{reading}, {method}, rate {rate:g}, seed {seed}, final", config)
