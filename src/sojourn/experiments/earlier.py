"""Whether the results in a folder belong to the work that is asked for, so that nothing else is replaced.

Cells never collide, since each has the hash of its settings in its name. Tables do. They may be written again if every
row that is there could also be a row of the new table: then the work is continued, or grows.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from sojourn.csv_file import read_csv
from sojourn.errors import InvalidInput, SojournError
from sojourn.experiments.cells import Cell
from sojourn.experiments.comparison import ComparisonSpec
from sojourn.experiments.plan_tuning import PlanTuning
from sojourn.experiments.sweep import Grid
from sojourn.experiments.tuned_plan import Trial

Row = Mapping[str, str]
IN_PYTHON = "name another folder, or give overwrite=True to replace it"


def check_tuning(tuning: PlanTuning, folder: Path, way_out: str = IN_PYTHON) -> None:
    """Refuse a folder with the trials of another tuning."""

    def expected(row: Row) -> set[str]:
        correction, buffer = row["correction"], row["buffer"]
        trial = Trial(
            float(row["step_size"]), float(correction) if correction else None, int(buffer) if buffer else None
        )
        return {tuning.cell(trial, float(row["rung"]), int(row["seed"])).hash}

    new = [tuning.cell(one, 1.0, tuning.seeds[0]) for one in tuning.combinations(1.0)]
    _check(folder / "tuning.csv", new, expected, "tuning, of another plan, budget, model, data or code", way_out)


def check_comparison(comparison: ComparisonSpec, folder: Path, way_out: str = IN_PYTHON) -> None:
    """Refuse a folder with the tables of another comparison; more algorithms, seeds or step sizes are no other one."""
    entries = {one.name: one for one in comparison.algorithms}

    def expected(row: Row) -> set[str]:
        entry, seed = entries[row["algorithm"].lstrip("'")], int(row["seed"])
        sizes = (None, float(row["step_size"])) if row["step_size"] else (None,)
        return {comparison.final(entry, size, seed).hash for size in sizes}

    new = [comparison.final(one, None, comparison.seeds[0]) for one in comparison.algorithms]
    _check(folder / "runs.csv", new, expected, "comparison, with other algorithms, settings or code", way_out)


def check_sweep(grid: Grid, folder: Path, way_out: str = IN_PYTHON) -> None:
    """Refuse a folder with the table of another sweep; more values or seeds are no other one."""

    @cache
    def hashes(seed: int) -> set[str]:
        return {cell.hash for _, cell in replace(grid, seeds=(seed,)).cells()}

    new = [cell for _, cell in replace(grid, seeds=grid.seeds[:1]).cells()]
    what = "sweep, with other values, settings or code"
    _check(folder / "runs.csv", new, lambda row: hashes(int(row["seed"])), what, way_out)


def _check(path: Path, new: Iterable[Cell], expected: Callable[[Row], set[str]], what: str, way_out: str) -> None:
    """Refuse the table of other work; but first what is wrong with the new work itself, such as a missing file."""
    if not path.is_file():
        return
    for cell in new:
        _ = cell.hash
    if not all(_belongs(row, expected) for row in read_csv(path, "table", way_out="remove it")):
        raise InvalidInput(f"{path} is the table of another {what}; {way_out}")


def _belongs(row: Row, expected: Callable[[Row], set[str]]) -> bool:
    try:
        return row["cell"] in expected(row)
    except (KeyError, ValueError, SojournError):
        return False
