"""The search: every method under every reading at every rate of its grid, judged on held-out examples."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sojourn.paper.cifar10.readings import PAPER, Reading, readings
from sojourn.paper.cifar10.size import Size
from sojourn.sweep.cell import Cell
from sojourn.sweep.comparison import FIRST_TUNING_SEED
from sojourn.train.config import TrainConfig

HOLDOUT = 0.1


def trials(size: Size, folder: Path) -> Iterator[tuple[dict[str, object], Cell]]:
    """Every trial, with what it is a trial of; the likelier readings first."""
    for reading in readings():
        for one in PAPER:
            for rate in reading.rates(one.name):
                for seed in range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + size.trial_seeds):
                    yield trial(size, folder, reading, one.name, rate, seed)


def trial(
    size: Size, folder: Path, reading: Reading, method: str, rate: float, seed: int
) -> tuple[dict[str, object], Cell]:
    """One trial, judged by examples that it does not learn from."""
    marks: dict[str, object] = {"reading": reading.name(size), "method": method, "rate": rate, "seed": seed}
    config = TrainConfig(
        **reading.keys(size, method),
        **common(size, folder),
        rate=rate,
        seed=seed,
        holdout=HOLDOUT,
        judged_on="holdout",
    )
    return marks, Cell(f"{marks['reading']}, {method}, rate {rate:g}, seed {seed}", config)


def common(size: Size, folder: Path) -> dict[str, Any]:
    """Keys of a run that all share."""
    return {
        "fleet": size.saved_fleet(folder),
        "data": size.data,
        "model": size.model,
        "partition": f"classes(k={size.classes})",
        "batch_size": size.batch_size,
        "augment": size.augment,
        "precision": size.precision,
    }
