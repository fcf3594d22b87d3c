"""Compare methods: levels at the end, differences paired by seed on every axis, and worst clients.

A run is read in two ways: its last model, and its mean over the last part of the run, by which step sizes were chosen
and which fluctuates less. On an axis, two methods are compared where the shortest of their runs ends.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import nan
from typing import Any

import numpy as np

from queuing_dynamics.tuned import LAST, accuracy
from sojourn.experiments.cells import EndedCell
from sojourn.experiments.statistics import AXES, common_end, end_of, interval

Runs = Mapping[str, Mapping[int, EndedCell]]
"""By method, then by seed."""
LAST_PART, LAST_MODEL = f"last {LAST:.0%}", "last model"
MEASURES = {LAST_PART: LAST, LAST_MODEL: 0.0}
"""How a run is read, and over which share of the way."""
ALIKE = (30.0, 40.0)
"""Accuracies, in percent, through which runs of every method pass."""


def read(run: EndedCell, measure: str, axis: str, at: float) -> float:
    """Return the accuracy of a run at a point of an axis, in percent; NaN if it diverged."""
    return nan if run.diverged else 100 * accuracy(run.rows, axis, at, MEASURES[measure])


def levels(runs: Runs, rates: Mapping[str, float], axis: str = "received") -> Iterator[dict[str, Any]]:
    """Yield the level of each method at the end of its runs, in percent."""
    for method, mine in runs.items():
        for measure in MEASURES:
            values = [read(run, measure, axis, end_of(run, axis)) for run in mine.values()]
            deviation = float(np.std(values, ddof=1)) if len(values) > 1 else nan
            row = {"method": method, "axis": axis, "rate": rates[method], "seeds": len(values), "measure": measure}
            yield {**row, "deviation": deviation, **interval(values).named("accuracy")}


def differences(runs: Runs, pairs: Sequence[tuple[str, str]], axes: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield the first method of each pair minus the second, in percentage points, on the given axes (default: all)."""
    for axis in axes or AXES:
        for one, other in pairs:
            at = common_end([*runs[one].values(), *runs[other].values()], axis)
            for measure in MEASURES:
                mine, theirs = ({s: read(r, measure, axis, at) for s, r in runs[name].items()} for name in (one, other))
                apart = interval(mine[seed] - theirs[seed] for seed in mine if seed in theirs)
                row = {"axis": axis, "at": at, "method": one, "less": other, "measure": measure}
                yield {**row, **apart.named("difference")}


def worst_clients(runs: Runs) -> Iterator[dict[str, Any]]:
    """Yield how many points a run's worst client is below its accuracy, at equal accuracy.

    At the end accuracies are not equal: better models have worst clients that are less far behind.
    """
    low, high = ALIKE
    for method, mine in runs.items():
        apart = interval(_behind(run, low, high) for run in mine.values())
        yield {"method": method, "accuracy_from": low, "accuracy_to": high, "seeds": len(mine), **apart.named("behind")}


def _behind(run: EndedCell, low: float, high: float) -> float:
    accuracy, worst = (100 * run.column(key) for key in ("accuracy", "client_worst"))
    alike = (low <= accuracy) & (accuracy < high)
    return float((accuracy - worst)[alike].mean()) if alike.any() else nan
