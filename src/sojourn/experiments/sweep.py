"""A sweep: every combination of a grid's values with every seed, described by a TOML file and run in a folder."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sojourn.csv_file import write_csv
from sojourn.errors import InvalidInput
from sojourn.experiments.cells import Cell, Part, find, in_part, seeds_of
from sojourn.experiments.run_cells import Swept, run_cells
from sojourn.experiments.train_cells import check_cells
from sojourn.files import read_toml
from sojourn.folders import check_folder
from sojourn.learning.run.config import TrainConfig, check_keys
from sojourn.shown import quoted

MOST_CELLS = 1_000_000


@dataclass(frozen=True)
class Grid:
    """What is swept."""

    run: Mapping[str, Any]
    """Keys of a run that all cells share."""
    values: Mapping[str, tuple[Any, ...]]
    """Values of each key that is swept."""
    seeds: tuple[int, ...] = (0,)
    """Every combination is trained with each of them."""

    def __post_init__(self) -> None:
        for key, values in self.values.items():
            if key == "seed":
                raise InvalidInput("grid: seed is set by seeds, got it as a key of the grid; write seeds = 5 or a list")
            if not values:
                raise InvalidInput(f"grid: {key} must have at least one value, got none")
            for value in values:
                check_keys({key: value}, "grid")
            if key in self.run:
                raise InvalidInput(f"grid: {key} is in [run] too; keep it in one of them")
        many = math.prod(len(values) for values in self.values.values()) * len(self.seeds)
        if many > MOST_CELLS:
            raise InvalidInput(f"a sweep may have at most {MOST_CELLS:,} cells, got {quoted(many)}; shorten the lists")

    @classmethod
    def load(cls, path: str | Path) -> "Grid":
        """Read a sweep file: tables [run] and [grid], and seeds."""
        where = f"sweep file {path}"
        content = read_toml(path, "sweep file")
        for key in content:
            if key not in ("run", "grid", "seeds"):
                raise InvalidInput(f"{where}: keys are seeds, [run] and [grid], got '{key}'")
        for key in ("run", "grid"):
            if not isinstance(content.get(key, {}), dict):
                raise InvalidInput(f"{where}: {key} must be a table, got {content[key]!r}; write [{key}]")
        run, grid = content.get("run", {}), content.get("grid", {})
        values = {key: tuple(value) if isinstance(value, list) else (value,) for key, value in grid.items()}
        return cls(run, values, seeds_of(content.get("seeds", 1), f"{where}: seeds", run.get("seed", 0)))

    def points(self) -> list[dict[str, Any]]:
        """Every combination of values."""
        return [dict(zip(self.values, values, strict=True)) for values in itertools.product(*self.values.values())]

    def cells(self) -> list[tuple[dict[str, Any], Cell]]:
        """Every combination with every seed, and its cell."""
        found = []
        for point in self.points():
            for seed in self.seeds:
                config = TrainConfig.of({**self.run, **point, "seed": seed}, "sweep")
                words = [f"{key} {value}" for key, value in point.items()]
                found.append(({**point, "seed": seed}, Cell(", ".join([*words, f"seed {seed}"]), config)))
        return found


def sweep(grid: Grid, folder: str | Path, part: Part | None = None, **options: Any) -> Swept:
    """Train every cell (of this part) that has not ended, then write runs.csv; options are those of `run_cells`."""
    swept = work_off(grid, folder, part, **options)
    write_csv(Path(folder) / "runs.csv", runs_of(grid, folder, swept.failures))
    return swept


def work_off(grid: Grid, folder: str | Path, part: Part | None = None, **options: Any) -> Swept:
    """Train every cell (of this part) that has not ended."""
    check_folder(folder)
    cells = [cell for _, cell in grid.cells()]
    check_cells(cells, options.get("on", "here"))
    return run_cells(in_part(cells, part), folder, **options)


def runs_of(grid: Grid, folder: str | Path, failures: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """One row per cell: what it is, how it ended, and the last row of its metrics."""
    pairs = grid.cells()
    found = find([cell for _, cell in pairs], folder)
    rows = []
    for point, cell in pairs:
        row: dict[str, Any] = {**point, "cell": cell.hash, "state": "open"}
        if cell.hash in found:
            one = found[cell.hash]
            row |= {"state": "diverged" if one.diverged else "complete", **one.last, **one.identity()}
        elif failures and cell.name in failures:
            row |= {"state": "failed", "error": failures[cell.name]}
        rows.append(row)
    return rows
