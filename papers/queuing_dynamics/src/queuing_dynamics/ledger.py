"""Ledger: the results of trained cells, as two CSV files that can be kept under version control.

runs.csv      one row per run: its cell, what was trained, how it ended, hashes, versions
curves.csv    one row per evaluation of each run

A cell that is in a ledger need not be trained again, wherever it was trained.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sojourn.csv_file import read_csv, write_csv
from sojourn.errors import SojournError, UnreadableFile
from sojourn.experiments.cells import Cell, EndedCell, find
from sojourn.experiments.run_cells import run_cells
from sojourn.learning.run.config import TrainConfig

CURVE = (
    *("received", "version", "time", "gradients", "unused", "train_loss", "test_loss", "accuracy"),
    *("client_worst", "client_10", "client_50", "client_90", "staleness"),
)
AT_ONCE = 36  # cells between two saves of the ledger, or more if more are trained together

Marked = tuple[Mapping[str, Any], Cell]
"""A description of a cell in words and numbers, and the cell."""


@dataclass
class Ledger:
    """The two files in a folder."""

    folder: Path
    """The folder."""
    runs: dict[str, dict[str, str]] = field(default_factory=dict)
    """Rows of runs.csv by cell."""
    curves: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    """Rows of curves.csv by cell."""

    @classmethod
    def load(cls, folder: str | Path) -> "Ledger":
        """Read the ledger in a folder."""
        ledger = cls(Path(folder))
        if ledger.folder.exists() and not ledger.folder.is_dir():
            raise UnreadableFile(f"{folder} is a file, but a ledger is a folder; name another")
        for row in _rows(ledger.folder / "runs.csv", "cell", "state"):
            ledger.runs[row["cell"]] = row
        for row in _rows(ledger.folder / "curves.csv", "cell", "accuracy", "received"):
            ledger.curves.setdefault(row.pop("cell"), []).append({key: _number(row[key]) for key in row})
        bare = next((cell for cell in ledger.runs if cell not in ledger.curves), None)
        if bare is not None:
            raise UnreadableFile(
                f"{folder}: curves.csv has nothing of the run {bare}; restore both files, or remove both"
            )
        return ledger

    def missing(self, cells: Iterable[Marked]) -> list[Marked]:
        """Return the cells that are not in the ledger yet, each once."""
        return list({one[1].hash: one for one in cells if one[1].hash not in self.runs}.values())

    def found(self, cell: Cell) -> EndedCell:
        """Return the result of a cell, with metrics as if read from its folder; its facts are the texts of its row."""
        row = self.runs[cell.hash]
        one = EndedCell(cell, self.folder, row["state"] == "diverged")
        one.__dict__.update(rows=self.curves[cell.hash], facts=row)  # in place of what would be read from its folder
        return one

    def by_method(self, cells: Iterable[Marked]) -> dict[str, dict[int, EndedCell]]:
        """Return the results of cells that are in the ledger, by method and then by seed."""
        found: dict[str, dict[int, EndedCell]] = {}
        for marks, cell in cells:
            found.setdefault(str(marks["method"]), {})[int(marks["seed"])] = self.found(cell)
        return found

    def add(self, cells: Iterable[Marked], found: Mapping[str, EndedCell]) -> None:
        """Add the results of cells, and write the files."""
        for marks, cell in cells:
            one = found.get(cell.hash)
            if one is None:
                continue
            row = {"cell": cell.hash, **marks, "state": "diverged" if one.diverged else "complete"}
            row |= {key: one.last[key] for key in CURVE if key in one.last} | one.identity()
            row["config"] = json.dumps(_told(cell))
            self.runs[cell.hash] = {key: str(value) for key, value in row.items()}
            self.curves[cell.hash] = [{key: line[key] for key in CURVE if key in line} for line in one.rows]
        self.save()

    def save(self) -> None:
        """Write both files."""
        write_csv(self.folder / "curves.csv", self._lines(), read_back=True)
        write_csv(self.folder / "runs.csv", self.runs.values(), read_back=True)

    def _lines(self) -> Iterator[dict[str, Any]]:
        for cell, rows in self.curves.items():
            for row in rows:
                yield {"cell": cell, **{key: float(f"{value:.5g}") for key, value in row.items()}}


def train(
    cells: Sequence[Marked],
    ledger: Ledger,
    folder: Path,
    together: int | None = None,
    going: Callable[[], bool] = lambda: True,
    watch: Callable[[str, int, int], None] | None = None,
    checkpoint_seconds: float = 60.0,
) -> bool:
    """Train missing cells, some at a time, as long as `going` says so; return whether all are in the ledger now."""
    left, at_once = ledger.missing(cells), together or AT_ONCE
    for begin in range(0, len(left), at_once):
        if not going():
            return False
        part = left[begin : begin + at_once]
        now = [cell for _, cell in part]
        swept = run_cells(now, folder, together=together, checkpoint_seconds=checkpoint_seconds)
        ledger.add(part, find(now, folder))
        if swept.interrupted:
            return False
        if swept.failures:
            name, error = next(iter(swept.failures.items()))
            raise SojournError(f"{name} failed: {error}")
        if watch is not None:
            watch(part[-1][1].name, len(cells) - len(ledger.missing(cells)), len(cells))
    return True


def _told(cell: Cell) -> dict[str, Any]:
    """Return what a configuration sets, without paths."""
    usual = asdict(TrainConfig(fleet=""))
    return {key: value for key, value in asdict(cell.config).items() if value != usual[key] and key != "fleet"}


def _rows(path: Path, *needed: str) -> list[dict[str, str]]:
    if not path.exists():
        return []
    return read_csv(path, "ledger", needed, "it is no ledger; restore it, or name another folder")


def _number(text: str | None) -> float:
    try:
        return float(text) if text else float("nan")
    except ValueError:
        raise UnreadableFile(f"curves.csv of a ledger has '{text}' where a number belongs; restore it") from None
