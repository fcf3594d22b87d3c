"""Train the entries of a cell: one comparison per cell, which goes on where it stopped."""

from collections.abc import Sequence
from pathlib import Path

from cells import Cell
from entries import Entry

import sojourn
from sojourn.experiments.results import Comparison


def trained(cell: Cell, mine: Sequence[Entry], home: Path, jobs: int | None) -> Comparison:
    """Tune and train the entries of a cell that have not ended; each gets the same number of trials."""
    work = cell.work
    return sojourn.compare(
        cell.fleet,
        {one.name: one.spec(cell) for one in mine},
        seeds=work.seeds,
        step_sizes=work.step_sizes,
        tuning={"seeds": 1, "holdout": work.holdout, "extensions": work.extensions},
        folder=home / cell.name,
        jobs=jobs,
        **cell.keys(),
    )
