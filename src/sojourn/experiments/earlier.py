"""Whether the results in a folder belong to the work that is asked for, so that nothing else is replaced.

Cells never collide, since each has the hash of its settings in its name. Tables do. They may be written again if every
row that is there could also be a row of the new table: then the work is continued, or grows.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from sojourn.csv_file import read_csv
from sojourn.errors import InvalidInput, SojournError
from sojourn.experiments.cells import Cell
from sojourn.experiments.comparison import ComparisonSpec
from sojourn.experiments.plan_tuning import PlanTuning, Trial

Row = Mapping[str, str]


def check_tuning(tuning: PlanTuning, folder: Path) -> None:
    """Refuse a folder with the trials of another tuning."""

    def expected(row: Row) -> list[Cell]:
        correction, buffer = row["correction"], row["buffer"]
        trial = Trial(
            float(row["step_size"]), float(correction) if correction else None, int(buffer) if buffer else None
        )
        return [tuning.cell(trial, float(row["rung"]), int(row["seed"]))]

    _check(folder / "tuning.csv", expected, "tuning, of another plan, budget, model or data", "--folder")


def check_comparison(comparison: ComparisonSpec, folder: Path) -> None:
    """Refuse a folder with the tables of another comparison; more algorithms, seeds or step sizes are no other one."""
    entries = {one.name: one for one in comparison.algorithms}

    def expected(row: Row) -> list[Cell]:
        entry, seed = entries[row["algorithm"].lstrip("'")], int(row["seed"])
        sizes = (None, float(row["step_size"])) if row["step_size"] else (None,)
        return [comparison.final(entry, size, seed) for size in sizes]

    _check(folder / "runs.csv", expected, "comparison, with other algorithms or settings", "--out")


def _check(path: Path, expected: Callable[[Row], list[Cell]], what: str, flag: str) -> None:
    if path.is_file() and not all(_belongs(row, expected) for row in read_csv(path, "table", way_out="remove it")):
        raise InvalidInput(
            f"{path} is the table of another {what}; name another folder with {flag}, or give --overwrite to replace it"
        )


def _belongs(row: Row, expected: Callable[[Row], list[Cell]]) -> bool:
    try:
        return row["cell"] in {cell.hash for cell in expected(row)}
    except (KeyError, ValueError, SojournError):
        return False
