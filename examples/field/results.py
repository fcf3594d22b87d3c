"""From the comparisons to cells.csv, which is committed: one row per cell and entry, with the numbers of all seeds."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from cells import Cell
from entries import Entry, entries

from sojourn.csv_file import read_csv, write_csv

FILE = "cells.csv"
MANY = ("losses", "accuracies", "worsts", "distances")


@dataclass(frozen=True)
class Outcome:
    """An entry in a cell, over the seeds."""

    cell: str
    entry: str
    algorithm: str
    step_size: float
    edge: str
    """`lower` or `upper`: the best step size lay at this edge of the grid."""
    trials: int
    updates: float
    gradients: float
    unused: float
    """Gradients that did not enter the model."""
    bytes_up: float
    bytes_down: float
    losses: tuple[float, ...]
    """Test loss at the end; inf = diverged."""
    accuracies: tuple[float, ...]
    worsts: tuple[float, ...]
    """Accuracy on the classes of the worst client."""
    distances: tuple[float, ...] = ()
    """Quadratic problem: distance of the last model from the optimum."""

    @property
    def loss(self) -> float:
        """Mean over the seeds."""
        return fmean(self.losses)

    @property
    def accuracy(self) -> float:
        """Mean over the seeds."""
        return fmean(self.accuracies)

    @property
    def worst(self) -> float:
        """Mean over the seeds."""
        return fmean(self.worsts)

    @property
    def distance(self) -> tuple[float, float]:
        """Mean over the seeds, and its standard error."""
        return fmean(self.distances), stdev(self.distances) / math.sqrt(len(self.distances))


Outcomes = dict[str, dict[str, Outcome]]
"""By cell and entry."""


def collect_all(home: Path, cells: Sequence[Cell], results: Path) -> None:
    """Write the entries of these cells that have ended into cells.csv; other rows stay."""
    known = load(results)
    for cell in cells:
        mine = ended(home, cell, entries(cell))
        if mine:
            known.setdefault(cell.name, {}).update(mine)
            print(f"{cell.name}: {len(mine)} entries")
    results.mkdir(parents=True, exist_ok=True)
    rows = [_plain(one) for mine in known.values() for one in mine.values()]
    write_csv(results / FILE, rows)


def load(results: Path) -> Outcomes:
    """Read the committed file."""
    found: Outcomes = {}
    path = results / FILE
    for row in read_csv(path, "results", ("cell", "entry")) if path.exists() else ():
        one = _outcome(dict(row))
        found.setdefault(one.cell, {})[one.entry] = one
    return found


def ended(home: Path, cell: Cell, asked: Sequence[Entry]) -> dict[str, Outcome]:
    """Return those of these entries that have ended in a cell, by name."""
    found = {}
    for one in asked:
        folder = one.folder(home, cell)
        path = folder / "runs.csv"
        rows = [dict(row) for row in read_csv(path, "runs", ("algorithm", "seed"))] if path.exists() else []
        if len(rows) == cell.work.seeds:
            found[one.name] = _made(folder, cell, one.name, rows)
    return found


def _made(folder: Path, cell: Cell, name: str, rows: list[dict[str, str]]) -> Outcome:
    whole = [row["state"] == "complete" for row in rows]

    def mean(key: str) -> float:
        return fmean(_number(row[key]) for row in rows)

    def each(key: str, worst: float) -> tuple[float, ...]:
        return tuple(_number(row[key]) if good else worst for row, good in zip(rows, whole, strict=True))

    quadratic = cell.problem == "quadratic"
    pairs = zip(rows, whole, strict=True) if quadratic else ()
    near = tuple(_distance(folder, row["cell"]) if good else math.inf for row, good in pairs)
    return Outcome(
        cell=cell.name,
        entry=name,
        algorithm=_text(folder, rows[0]["cell"]),
        step_size=float(rows[0]["step_size"]),
        edge=rows[0]["edge"],
        trials=int(rows[0]["trials"]),
        updates=mean("received"),
        gradients=mean("gradients"),
        unused=mean("unused"),
        bytes_up=mean("bits_up") / 8,
        bytes_down=mean("bits_down") / 8,
        losses=each("test_loss", math.inf),
        accuracies=() if quadratic else each("accuracy", math.nan),
        worsts=() if quadratic else each("client_worst", math.nan),
        distances=near,
    )


def _distance(folder: Path, run: str) -> float:
    """Return the distance of a run's model from the optimum."""
    from apart import optimum
    from safetensors.numpy import load_file

    (path,) = (folder / "cells").glob(f"*{run}/model.safetensors")
    return float(np.linalg.norm(load_file(path)["w"].astype(np.float64) - optimum()))


def _text(folder: Path, run: str) -> str:
    from sojourn.experiments.results import Run

    (path,) = (folder / "cells").glob(f"*{run}")
    return str(Run(path).config["algorithm"])


def _number(text: str) -> float:
    return float(text) if text else math.nan


def _plain(one: Outcome) -> dict[str, Any]:
    facts = asdict(one)
    return {
        key: " ".join(f"{number:.6g}" for number in value) if key in MANY else value for key, value in facts.items()
    }


def _outcome(row: dict[str, str]) -> Outcome:
    made: dict[str, Any] = {}
    for one in fields(Outcome):
        value = row[one.name]
        if one.name in MANY:
            made[one.name] = tuple(float(part) for part in value.split())
        else:
            made[one.name] = one.type(value) if one.type in (int, float) else value
    return Outcome(**made)
