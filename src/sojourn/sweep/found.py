"""What a cell came to, read from its folder."""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import UnreadableFile
from sojourn.sweep.cell import Cell, Cells, ended
from sojourn.train.read_metrics import read_metrics

IDENTITY = ("fleet_hash", "plan_hash", "dataset_hash", "partition_hash")


@dataclass(frozen=True, eq=False)
class Found:
    """A cell that has ended."""

    cell: Cell
    """The cell."""
    folder: Path
    """Where it lies."""
    diverged: bool
    """Whether it ended with numbers that are none."""

    @cached_property
    def rows(self) -> list[dict[str, float]]:
        """Its metrics, a row an evaluation."""
        return read_metrics(self.folder)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What config.json says of it."""
        path = self.folder / "config.json"
        try:
            return dict(json.loads(path.read_text("utf-8")))
        except (OSError, ValueError) as error:
            raise UnreadableFile(f"{path} cannot be read ({error}); remove the folder of this cell") from None

    @property
    def last(self) -> dict[str, float]:
        """The last evaluation; after divergence nothing but what it had cost."""
        row = self.rows[-1]
        if not self.diverged:
            return row
        costs = ("received", "version", "time", "gradients", "unused", "lost", "bits_up", "bits_down")
        return {key: value if key in costs else math.nan for key, value in row.items()}

    def column(self, key: str) -> NDArray[np.float64]:
        """A column of the metrics."""
        return np.array([row[key] for row in self.rows])

    def identity(self) -> dict[str, Any]:
        """Hashes, device and versions, for a row of a CSV file."""
        config, versions = self.facts["config"], self.facts["versions"]
        hashes = {key: self.facts[key] for key in IDENTITY}
        return {**hashes, "device": config["device"], "execution": config["execution"], **versions}


def find(cells: Iterable[Cell], folder: str | Path) -> dict[str, Found]:
    """The cells that have ended, by hash."""
    where, found = Cells(Path(folder)), {}
    for cell in cells:
        path = where.of(cell)
        word = ended(path)
        if word is not None:
            found[cell.hash] = Found(cell, path, word == "diverged")
    return found
