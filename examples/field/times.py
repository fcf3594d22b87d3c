"""How much of the time an entry needs to be where another one ends: from the runs to times.csv, which is committed.

Runs are compared seed by seed: with the same seed, both have the same data, first model and service times. An entry is
there at its first evaluation with a test loss that is no larger than that of the other's last model.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from cells import Cell
from entries import PLANNED, entries
from results import Outcome, Outcomes

from sojourn.csv_file import read_csv, write_csv
from sojourn.learning.run.metrics import read_metrics

FILE = "times.csv"
FAST = "generalized-asyncsgd" + PLANNED
OTHERS = ("asyncsgd, random", "asyncsgd, finisher")


@dataclass(frozen=True)
class Reached:
    """When an entry was where another one ends."""

    cell: str
    entry: str
    other: str
    shares: tuple[float, ...]
    """Share of the time of a run, by seed; inf = not within it."""

    @property
    def text(self) -> str:
        """Median over the seeds; and in how many of them it was there, if not in all."""
        middle, there = median(self.shares), sum(map(math.isfinite, self.shares))
        share = f"{100 * middle:.0f}%" if math.isfinite(middle) else "not reached"
        return share if there == len(self.shares) else f"{share} ({there} of {len(self.shares)})"


def collect_times(home: Path, cells: Sequence[Cell], found: Outcomes, results: Path) -> None:
    """Write the times of these cells whose runs are there; other rows stay."""
    known = {(one.cell, one.entry, one.other): one for one in load_times(results)}
    for cell in cells:
        fast = [one for one in entries(cell) if one.name == FAST and cell.problem != "quadratic"]
        for one in fast:
            folder, mine = one.folder(home, cell), found.get(cell.name, {})
            runs = dict(_runs(folder)) if (folder / "runs.csv").exists() else {}
            for other in OTHERS:
                if other in mine and len(runs) == cell.work.seeds:
                    known[cell.name, FAST, other] = _reached(cell, runs, mine[other])
    rows = [
        {"cell": one.cell, "entry": one.entry, "other": one.other, "shares": " ".join(f"{s:.4g}" for s in one.shares)}
        for one in known.values()
    ]
    if rows:
        write_csv(results / FILE, rows)


def load_times(results: Path) -> list[Reached]:
    """Read the committed file."""
    path = results / FILE
    rows = read_csv(path, "times", ("cell", "entry", "other", "shares")) if path.exists() else ()
    return [
        Reached(row["cell"], row["entry"], row["other"], tuple(float(part) for part in row["shares"].split()))
        for row in rows
    ]


def _runs(folder: Path) -> list[tuple[int, Path]]:
    rows = read_csv(folder / "runs.csv", "runs", ("seed", "cell"))
    return [(int(row["seed"]), next((folder / "cells").glob(f"*-{row['cell']}"))) for row in rows]


def _reached(cell: Cell, runs: dict[int, Path], other: Outcome) -> Reached:
    shares = tuple(first_below(read_metrics(runs[seed]), loss) / cell.time for seed, loss in enumerate(other.losses))
    return Reached(cell.name, FAST, other.entry, shares)


def first_below(rows: Sequence[dict[str, float]], loss: float) -> float:
    """Return the time of the first evaluation with at most this test loss; inf = there is none."""
    return next((row["time"] for row in rows if row["test_loss"] <= loss), math.inf)
