"""Finished runs, one CSV file per cell in the working folder: rows are appended line by line and read by key."""

import csv
from pathlib import Path

from runs import Request, Row
from world import Cell

COLUMNS = ("policy", "kind", "step", "seed", "updates", "loss", "accuracy", "worst", "seconds", "curve")
Key = tuple[str, str, str, int]


class Store:
    """The rows of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._rows: dict[str, dict[Key, Row]] = {}

    def of(self, cell: Cell) -> dict[Key, Row]:
        """Return the rows of a cell by key; a line that was cut off when a process died is left out."""
        if cell.name not in self._rows:
            found: dict[Key, Row] = {}
            path = self._path(cell)
            if path.exists():
                with path.open(newline="", encoding="utf-8") as file:
                    for row in csv.DictReader(file):
                        if None not in row.values() and None not in row:
                            key = (row["policy"], row["kind"], row["step"], int(row["seed"]))
                            found[key] = {**row, "seed": int(row["seed"])}
            self._rows[cell.name] = found
        return self._rows[cell.name]

    def get(self, request: Request) -> Row | None:
        """Return the row of a run if it has ended."""
        return self.of(request.cell).get(request.key)

    def add(self, request: Request, row: Row) -> None:
        """Append a row, in one write."""
        path = self._path(request.cell)
        before = self.of(request.cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        new = not path.exists()
        torn = not new and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
        with path.open("a", newline="", encoding="utf-8") as file:
            if torn:
                file.write("\n")
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(row)
        before[request.key] = row

    def _path(self, cell: Cell) -> Path:
        return self.folder / f"{cell.name}.csv"
