"""Cells that were never trained: their folders say what a test wants them to say."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

from sojourn.experiments.cells import Cell, Cells
from sojourn.experiments.run_cells import Swept
from sojourn.learning.run.config import TrainConfig

HASHES = {"fleet_hash": "f", "plan_hash": "p", "dataset_hash": "d", "partition_hash": "h", "parameters": 10}
VERSIONS = {"sojourn": "0", "python": "3", "torch": "2", "numpy": "2"}
Row = dict[str, float]


def row(received: int, loss: float = 1.0, accuracy: float = 0.5, time: float | None = None, **more: float) -> Row:
    plain = {"received": received, "version": received, "time": received if time is None else time}
    clients = dict.fromkeys(("client_worst", "client_10", "client_50", "client_90"), accuracy)
    return {**plain, "gradients": received, "test_loss": loss, "accuracy": accuracy, **clients, **more}


def pretend(cell: Cell, folder: Path, rows: list[Row], diverged: bool = False, **facts: object) -> None:
    home = Cells(folder).of(cell)
    home.mkdir(parents=True)
    config = {"device": "cpu", "execution": "waves", "step_size": cell.config.step_size}
    (home / "config.json").write_text(json.dumps({**HASHES, "config": config, "versions": VERSIONS, **facts}))
    with (home / "metrics.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    (home / ("diverged.json" if diverged else "summary.json")).write_text(
        json.dumps({"received": rows[-1]["received"]})
    )


def trainer(folder: Path, loss: Callable[[TrainConfig], float], asked: list[Cell]) -> Callable[[list[Cell]], Swept]:
    """Something that ends cells with the loss that a function gives them; NaN = it diverges."""

    def train(cells: list[Cell]) -> Swept:
        for cell in cells:
            if cell.hash not in {one.hash for one in asked}:
                asked.append(cell)
                value = loss(cell.config)
                pretend(cell, folder, [row(0), row(10, 0.0 if value != value else value)], diverged=value != value)
        return Swept(len(cells), len(cells))

    return train
