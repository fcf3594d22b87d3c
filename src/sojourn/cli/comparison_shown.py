"""The table of a comparison as a person reads it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sojourn.cli.show import number, plural, table
from sojourn.experiments.statistics import AXES

if TYPE_CHECKING:
    from sojourn.experiments.compare import Compared
    from sojourn.experiments.comparison import ComparisonSpec

WORDS = {"accuracy": "accuracy", "test_loss": "test loss"}


def show_table(comparison: "ComparisonSpec", compared: "Compared") -> None:
    """Every algorithm on every axis, at the largest value that all runs reach."""
    key = compared.table[0]["judged_by"]
    heads = [
        "algorithm",
        "step size",
        "on",
        "at",
        WORDS[key],
        f"less {comparison.baseline}'s",
        "worst client",
        "10%",
        "50%",
    ]
    if comparison.target is not None:
        heads.append(f"to {comparison.target}")
    rows, before = [], None
    for row in compared.table:
        first = row["algorithm"] != before
        before = row["algorithm"]
        rows.append(_line(row, first, comparison.target is not None))
    tuned = compared.tuned
    notes = ["mean ± half of its 95% interval over the seeds; differences are of pairs with the same seed"]
    if tuned.chosen:
        grid = ", ".join(f"{step_size:g}" for step_size in tuned.grid)
        many = plural(len(comparison.tuning.seeds), "seed")
        notes.append(
            f"step sizes: each algorithm tried at {grid}, {many} each, judged by held-out {comparison.tuning.by}"
        )
    notes += [f"! {note}" for note in compared.notes]
    files = "tuning.csv every trial, " if tuned.trials else ""
    notes.append(f"table.csv has all of it, runs.csv every run, {files}curves.csv the curves")
    table(str(compared.folder), heads, rows, notes, most=10_000)


def _line(row: Mapping[str, Any], first: bool, target: bool) -> list[str]:
    step_size = "" if row["step_size"] is None else f"{row['step_size']:g}{' EDGE' if row['edge'] else ''}"
    cells = [row["algorithm"] if first else "", step_size if first else "", AXES[row["axis"]], number(row["at"])]
    cells.append(_mean(row, "mean") if not row["diverged"] else f"diverged {row['diverged']} of {row['runs']}")
    cells.append(_mean(row, "difference") if "difference" in row else "")
    cells += [_mean(row, key) for key in ("client_worst", "client_10", "client_50")]
    if target:
        cells.append(_cost(row))
    return cells


def _cost(row: Mapping[str, Any]) -> str:
    if not row["not_reached"]:
        return _mean(row, "to_target")
    return f"not in {row['not_reached']} of {row['runs']}"


def _mean(row: Mapping[str, Any], key: str) -> str:
    """A mean with half its interval, to the digits that the interval leaves meaningful."""
    value, half = row[key], (row[f"{key}_high"] - row[f"{key}_low"]) / 2
    if np.isnan(value) or np.isnan(half) or half <= 1e-9 * abs(value):
        return number(value, 4)
    places = max(0, 1 - int(np.floor(np.log10(half))))
    return f"{value:.{places}f} ± {half:.{places}f}"
