"""What a cell came to, read from its folder."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.experiments.cell import Cell, Cells, ended
from sojourn.files import read_json
from sojourn.learning.run.config import renamed
from sojourn.learning.run.read_metrics import read_metrics
from sojourn.values import items, optional_number, table, text, whole

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
            return _checked(table(read_json(path, "configuration"), "it"))
        except (InvalidInput, UnreadableFile) as error:
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
        if key not in self.rows[0]:
            raise UnreadableFile(f"the metrics of {self.folder} have no column {key}; remove the folder of this cell")
        return np.array([row[key] for row in self.rows])

    def identity(self) -> dict[str, Any]:
        """Hashes, device and versions, for a row of a CSV file."""
        config, versions = self.facts["config"], self.facts["versions"]
        hashes = {key: self.facts[key] for key in IDENTITY}
        return {**hashes, "device": config["device"], "execution": config["execution"], **versions}


def _checked(facts: dict[str, Any]) -> dict[str, Any]:
    """What config.json says, once all that is asked for later is there and of its kind."""
    facts["config"] = renamed(table(facts.get("config"), "config"))
    config, versions = facts["config"], table(facts.get("versions"), "versions")
    for key in IDENTITY:
        text(facts.get(key), key)
    for key in ("device", "execution"):
        text(config.get(key), key)
    for key, value in versions.items():
        text(value, f"version of {key}")
    for key in items(facts.get("unused", []), "unused"):
        text(key, "a key of unused")
    optional_number(config.get("step_size"), "step_size")
    whole(facts.get("parameters"), "parameters")
    return facts


def find(cells: Iterable[Cell], folder: str | Path) -> dict[str, Found]:
    """The cells that have ended, by hash."""
    where, found = Cells(Path(folder)), {}
    for cell in cells:
        path = where.of(cell)
        word = ended(path)
        if word is not None:
            found[cell.hash] = Found(cell, path, word == "diverged")
    return found
