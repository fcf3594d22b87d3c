"""A sweep in its folder: run the cells of a grid, write what they came to."""

from pathlib import Path
from typing import Any

from sojourn.csv_file import write_csv
from sojourn.experiments.cell import Cells, Part, in_part
from sojourn.experiments.found import find
from sojourn.experiments.grid import Grid
from sojourn.experiments.lot import check_cells
from sojourn.experiments.run_cells import Swept, run_cells
from sojourn.folders import check_folder


def counted(grid: Grid, folder: str | Path) -> tuple[int, int]:
    """Cells of a sweep, and how many of them have ended."""
    cells = {cell.hash: cell for _, cell in grid.cells()}
    return len(cells), len(Cells(Path(folder)).finished(cells.values()))


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
    """A row a cell: what it is, how it ended, and the last row of its metrics."""
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
