"""Durations of one kind, as they were observed: finished ones as sums, all as far as a fair sample goes."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sojourn.types import Flags, Floats, Integers


class Kept(NamedTuple):
    """Single durations, in random order within each unit."""

    unit: Integers
    value: Floats
    began: Floats
    until: Floats
    """When it would have been cut off; inf = at the end of the trace."""
    work: Floats
    key: Floats

    def at(self, picked: NDArray[Any]) -> "Kept":
        """Some of them."""
        return Kept(*[column[picked] for column in self])

    def followed_by(self, more: "Kept") -> "Kept":
        """These and others."""
        return Kept(*[np.concatenate(pair) for pair in zip(self, more, strict=True)])


@dataclass(frozen=True)
class Durations:
    """What was observed of one kind of duration (service or uplink), for each client or kept row."""

    finished: Integers
    """Finished durations of each client."""
    total: Floats
    """Their sum, each divided by its work."""
    work: Floats
    """Sum of the work of each client's finished rows."""
    kept: Kept
    """A uniform sample of the finished durations of each unit."""
    unfinished: Integers
    """Durations of each client that were not seen to their end."""
    running: Integers
    """Units of the durations that were not seen to their end, one entry each; of very many a uniform sample."""
    age: Floats
    """How long these had been running, divided by their work."""
    began: Floats
    """When they began."""
    weight: Floats
    """How many each of them stands for."""
    cut: Flags
    """Whether it was cut off before the end of the trace."""

    def without(self, units: Flags) -> "Durations":
        """The same, without what was observed of some units; the units are the rows of the sums."""
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
    """The same durations, added up over the clients of each group."""
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
