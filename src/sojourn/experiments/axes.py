"""The four axes on which runs are compared, and what a run was worth at a point of one."""

from collections.abc import Iterable
from math import inf

import numpy as np

from sojourn.experiments.found import Found
from sojourn.types import Floats

AXES = {
    "time": "virtual time",
    "received": "updates received",
    "version": "server steps",
    "gradients": "gradients computed",
}
COLUMNS = ("accuracy", "test_loss", "client_worst", "client_10", "client_50", "client_90")


def end_of(run: Found, axis: str) -> float:
    """How far a run goes on an axis; one that diverged is no reason to look at the others for less."""
    if run.diverged:
        return inf
    budget = run.cell.config.time
    return float(budget if axis == "time" and budget is not None else run.rows[-1][axis])


def common_end(runs: Iterable[Found], axis: str) -> float:
    """How far all of them go; NaN where none has ended well."""
    end = min((end_of(run, axis) for run in runs), default=inf)
    return end if end < inf else float("nan")


def at_points(run: Found, axis: str, key: str, at: Floats) -> Floats:
    """A column of the metrics at points of an axis, between two evaluations in proportion; NaN beyond the run's end.

    Algorithms are evaluated at points of their own: whoever is read at the last evaluation before is read too early.
    """
    where, values = run.column(axis), run.column(key)
    last = where[-1] if run.diverged else end_of(run, axis)
    return np.where(at <= last, np.interp(at, where, values), np.nan)
