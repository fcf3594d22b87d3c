"""Train entries in a cell: one comparison per entry, which goes on where it stopped.

Every entry has a folder of its own, so that a cell can grow by entries: what is there is neither trained again nor in
the way of another one. A method that was edited is trained anew, and the tables in its folder are replaced; its runs
from before stay.
"""

from pathlib import Path

from cells import Cell
from entries import Entry

import sojourn
from sojourn.experiments.results import Comparison


def trained(cell: Cell, one: Entry, home: Path, jobs: int | None) -> Comparison:
    """Tune and train an entry in a cell, unless it is there already."""
    work = cell.work
    return sojourn.compare(
        cell.fleet,
        {one.name: one.spec(cell)},
        seeds=work.seeds,
        step_sizes=one.step_sizes(cell),
        tuning={"seeds": 1, "holdout": work.holdout, "extensions": work.extensions},
        folder=one.folder(home, cell),
        jobs=jobs,
        overwrite=True,
        **cell.keys(),
    )
