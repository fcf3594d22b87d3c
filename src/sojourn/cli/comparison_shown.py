"""The table of a comparison, for people to read."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sojourn.cli.cells import Cell
from sojourn.cli.formats import in_csv
from sojourn.cli.show import number, plural, table
from sojourn.experiments.statistics import AXES

if TYPE_CHECKING:
    from sojourn.experiments.compare import Compared
    from sojourn.experiments.comparison import ComparisonSpec

CLIENTS = ("client_worst", "client_10", "client_50")
MEANING = {"worst client": "its accuracy", "10%": "10% of the clients are below it", "50%": "half of them are"}
WORDS = {"accuracy": "accuracy", "test_loss": "test loss"}


def show_table(comparison: "ComparisonSpec", compared: "Compared") -> None:
    """What every algorithm had, and its results on every axis at the largest value that all runs reach."""
    _show_had(compared)
    key = compared.table[0]["judged_by"]
    heads = [
        "algorithm",
        *(["step size"] if in_csv() else []),  # people have it in the first table
        "on",
        "at",
        WORDS[key],
        f"difference from {comparison.baseline}",
        "worst client",
        "10%",
        "50%",
    ]
    if comparison.target is not None:
        heads.append(f"to {comparison.target}")
    rows, before = [], None
    axes = {axis: (axis,) for axis in AXES} if in_csv() else alike(compared.table)
    for row in compared.table:
        if row["axis"] not in axes:
            continue
        first = row["algorithm"] != before
        before = row["algorithm"]
        one, *same = (AXES[axis] for axis in axes[row["axis"]])
        on = ", ".join([one, *(words.split()[0] for words in same)])
        rows.append(_line(row, first, on, comparison.target is not None))
    tuned = compared.tuned
    shown = ("mean", "difference", *CLIENTS, "to_target")
    notes = []
    if any(_is_cut(row, key) for row in compared.table for key in shown if key in row):
        notes.append(
            "intervals are cut at the bounds of what is measured, accuracy at 0 and 1, and then show both ends"
        )
    if tuned.chosen:
        grid = ", ".join(f"{step_size:g}" for step_size in tuned.grid)
        many = plural(len(comparison.tuning.seeds), "seed")
        notes.append(
            f"step sizes: each algorithm tried at {grid}, {many} each, judged by held-out {comparison.tuning.by}"
        )
    notes += [f"! {note}" for note in compared.notes]
    home = compared.folder
    files = f"{home / 'tuning.csv'} every trial, " if tuned.trials else ""
    notes.append(
        f"{home / 'table.csv'} has all of it, {home / 'runs.csv'} every run, {files}{home / 'curves.csv'} the curves"
    )
    least = ("50%", "10%", "worst client", "at")
    table(str(home), heads, rows, lambda left_out: [*_legend(left_out), *notes], most=10_000, least=least)


def _legend(left_out: Sequence[str]) -> list[str]:
    """What the columns mean, without those that are left out."""
    clients = "; ".join(f"{head}: {meaning}" for head, meaning in MEANING.items() if head not in left_out)
    means = "mean ± half of its 95% interval over the seeds; differences are between runs with the same seed"
    return [means, clients] if clients else [means]


def alike(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """The axes that need a row of their own, each with those that have the same values for every algorithm.

    >>> rows = [{"axis": axis, "at": 9.0, "mean": 0.5} for axis in ("received", "gradients")]
    >>> alike([{"axis": "time", "at": 2.0, "mean": 0.5}, *rows])
    {'time': ('time',), 'received': ('received', 'gradients')}
    """
    values: dict[str, list[str]] = {}
    for row in rows:
        told = {key: value for key, value in row.items() if key != "axis"}
        values.setdefault(row["axis"], []).append(repr(told))  # as texts, NaN equals NaN
    found: dict[str, tuple[str, ...]] = {}
    for axis, mine in values.items():
        twin = next((one for one in found if values[one] == mine), axis)
        found[twin] = (*found.get(twin, ()), axis)
    return found


def _show_had(compared: "Compared") -> None:
    """Dispatcher, updates and step size of every algorithm, which explain much of its result."""
    if in_csv():
        return  # programs read one table
    first = {str(row["algorithm"]): row for row in reversed(compared.table)}
    rows: list[list[str]] = [
        [name, row["dispatcher"], Cell(f"{row['updates']:,.0f}", row["updates"]), _step_size(row), str(row["runs"])]
        for name, row in reversed(first.items())
    ]
    heads = ["algorithm", "dispatcher", "updates (mean)", "step size", "runs"]
    table("What each algorithm had", heads, rows, most=10_000)


def _step_size(row: Mapping[str, Any]) -> str:
    edge = " EDGE" if row["edge"] else ""
    return Cell("" if row["step_size"] is None else f"{row['step_size']:g}{edge}", row["step_size"])


def _line(row: Mapping[str, Any], first: bool, on: str, target: bool) -> list[str]:
    cells: list[str] = [
        Cell(row["algorithm"] if first else "", row["algorithm"]),  # programs need it in every row
        *([Cell("", row["step_size"])] if in_csv() else []),
        on,
        number(row["at"]),
    ]
    cells.append(_mean(row, "mean") if not row["diverged"] else f"diverged {row['diverged']} of {row['runs']}")
    cells.append(_mean(row, "difference") if "difference" in row else "")
    cells += [_mean(row, key) for key in CLIENTS]
    if target:
        cells.append(_cost(row))
    return cells


def _cost(row: Mapping[str, Any]) -> str:
    if not row["not_reached"]:
        return _mean(row, "to_target")
    return f"not in {row['not_reached']} of {row['runs']}"


def _mean(row: Mapping[str, Any], key: str) -> str:
    """A mean with half its interval, to as many digits as the interval supports; with both ends if it is cut.

    >>> _mean({"mean": 0.9, "mean_low": 0.85, "mean_high": 0.95}, "mean")
    '0.900 ± 0.050'
    >>> _mean({"mean": 0.98, "mean_low": 0.93, "mean_high": 1.0}, "mean")
    '0.980 (0.930 to 1)'
    """
    value, low, high = (float(row[name]) for name in (key, f"{key}_low", f"{key}_high"))
    parts = {"": value, "low": low, "high": high}
    half = max(high - value, value - low)
    if np.isnan(value) or np.isnan(half) or half <= 1e-9 * abs(value):
        return Cell(number(value, 4), parts)
    places = max(0, 1 - int(np.floor(np.log10(half))))
    if not _is_cut(row, key):
        return Cell(f"{value:.{places}f} ± {half:.{places}f}", parts)
    ends = (f"{end:g}" if end in (-1, 0, 1) else f"{end:.{places}f}" for end in (low, high))
    return Cell(f"{value:.{places}f} ({' to '.join(ends)})", parts)


def _is_cut(row: Mapping[str, Any], key: str) -> bool:
    """Whether an interval ends at a bound of what is measured, so that it is not symmetrical."""
    below, above = row[key] - row[f"{key}_low"], row[f"{key}_high"] - row[key]
    return bool(abs(above - below) > 1e-9 * max(above, below))
