"""Observed durations of one kind: sums over the finished ones, and a fair sample of all.

`Counts` are for periodic calls with several local steps: a row tells how many steps were done in which time, not how
long one step took.

    w, t   whole steps of a row, and the time in which they were done (with the step that the call cut short)

For exponential service the likelihood of a rate is rate^(sum w) exp(-rate sum t), whether the client had done all its
steps or was interrupted: the same as for sum w finished durations of that total. Such rows cannot identify other laws,
but their dispersion can show that service is not exponential. It is sum (w - rate t)^2 / (rate sum t), which is about
one for exponential service (a client that stops after its last step is a stopping time). If it is larger, intervals are
widened by it.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sojourn.timing.fit.ends import Ends
from sojourn.trace import Trace
from sojourn.types import Flags, Floats, Integers

UNLIKELY = 4.0  # standard errors of the dispersion


class Kept(NamedTuple):
    """Single durations, in random order within each unit."""

    unit: Integers
    value: Floats
    began: Floats
    until: Floats
    """When each would have been cut off; inf = at the end of the trace."""
    work: Floats
    key: Floats

    def at(self, picked: NDArray[Any]) -> "Kept":
        """Return some of them."""
        return Kept(*[column[picked] for column in self])


@dataclass(frozen=True)
class Durations:
    """The observations of one kind of duration (service or link), per client or per kept row."""

    finished: Integers
    """Number of finished durations of each client."""
    total: Floats
    """Their sum, each divided by its work."""
    work: Floats
    """Sum of the work of each client's finished rows."""
    kept: Kept
    """A uniform sample of the finished durations of each unit."""
    unfinished: Integers
    """Number of durations of each client that were not seen to their end."""
    running: Integers
    """Units of the durations that were not seen to their end, one entry each; a uniform sample if
    there are very many.
    """
    age: Floats
    """How long these had been running, divided by their work."""
    began: Floats
    """When they began."""
    weight: Floats
    """How many durations each entry stands for."""
    cut: Flags
    """Whether each was cut off before the end of the trace."""

    def without(self, units: Flags) -> "Durations":
        """Return the same without the observations of some units; the units are the rows of the sums."""
        rows = ~units[self.running]
        return Durations(
            finished=np.where(units, 0, self.finished),
            total=np.where(units, 0.0, self.total),
            work=np.where(units, 0.0, self.work),
            kept=self.kept.at(~units[self.kept.unit]),
            unfinished=np.where(units, 0, self.unfinished),
            running=self.running[rows],
            age=self.age[rows],
            began=self.began[rows],
            weight=self.weight[rows],
            cut=self.cut[rows],
        )


def by_group(durations: Durations, group: Integers) -> Durations:
    """Return the same durations, added up over the clients of each group."""
    size = int(group[-1]) + 1

    def add(column: NDArray[Any]) -> Floats:
        return np.bincount(group, column, size).astype(np.float64)

    return replace(
        durations,
        finished=add(durations.finished).astype(np.int64),
        total=add(durations.total),
        work=add(durations.work),
        unfinished=add(durations.unfinished).astype(np.int64),
    )


@dataclass(frozen=True)
class Counts:
    """Sums over the rows of each client."""

    rows: Floats
    steps: Floats
    time: Floats
    squares: Floats
    """Sums of w^2, w t and t^2, one row each."""
    interrupted: Floats
    """Rows whose client had not done all its steps."""
    several: bool
    """Whether a task has several local steps; with one, every row is a duration, finished or cut off."""

    @classmethod
    def none(cls) -> "Counts":
        """Return counts without any rows."""
        empty = np.zeros(0)
        return cls(empty, empty, empty, np.zeros((3, 0)), empty, several=False)

    def plus(self, piece: Trace, ends: Ends, clients: int, planned: int) -> "Counts":
        """Return the counts with the rows of one more piece; `planned` are the local steps per task, 0 = not stated."""
        whole = ends.finished | ends.cut
        client, w = piece.client[whole], piece.work[whole].astype(np.float64)
        t = (ends.at - piece.started_at)[whole]

        def sum_of(old: Floats, new: Floats) -> Floats:
            return np.concatenate([old, np.zeros(clients - old.size)]) + np.bincount(client, new, clients)

        return Counts(
            rows=sum_of(self.rows, np.ones(w.size)),
            steps=sum_of(self.steps, w),
            time=sum_of(self.time, t),
            squares=np.stack([sum_of(old, new) for old, new in zip(self.squares, (w * w, w * t, t * t), strict=True)]),
            interrupted=sum_of(self.interrupted, ends.cut[whole].astype(np.float64)),
            several=self.several or (planned > 1 if planned else bool((w > 1).any())),
        )

    def dispersion(self) -> tuple[float, float]:
        """Return the dispersion of the counts around their clients' rates, and its standard error for exponential
        service.
        """
        seen = self.steps > 0
        rate = self.steps[seen] / self.time[seen]
        ww, wt, tt = self.squares[:, seen]
        expected = float((rate * self.time[seen] * (1 - 1 / self.rows[seen])).sum())  # one rate is fitted per client
        if expected <= 0:
            return 1.0, np.inf
        found = float((ww - 2 * rate * wt + rate**2 * tt).sum()) / expected
        return found, float(np.sqrt((2 * rate**2 * tt).sum() + expected)) / expected

    def durations(self) -> Durations:
        """Return the counts as finished durations: this many steps in this total time."""
        none = np.zeros(0)
        rows = Kept(np.zeros(0, dtype=np.int64), none, none, none, none, none)
        work = self.steps**2 / np.maximum(self.rows, 1)  # so that work / finished is the mean of a row
        return Durations(
            *(self.steps.astype(np.int64), self.time, work, rows, self.interrupted.astype(np.int64)),
            running=np.zeros(0, dtype=np.int64),
            age=none,
            began=none,
            weight=none,
            cut=np.zeros(0, dtype=np.bool_),
        )


def of_counts(counts: Counts) -> list[str]:
    """Return notes that a reader of rates from counts should know."""
    said = [
        "periodic calls tell how many local steps a client did, not how long each took: the law cannot be found and "
        "exponential is assumed"
    ]
    found, error = counts.dispersion()
    if abs(found - 1) > UNLIKELY * error:
        kind = "more" if found > 1 else "less"
        off = abs(found - 1) / 2 * counts.interrupted.sum() / counts.steps.sum()
        said.append(
            f"the numbers of local steps vary {kind} than exponential service allows (dispersion {found:.2g} instead "
            f"of 1), so the error of the rates may be {off:.1%} or more; record a trace with a dispatcher that has "
            "queues"
        )
    return said
