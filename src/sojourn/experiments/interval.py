"""Means with 95% intervals: Student's, over seeds."""

from collections.abc import Iterable
from math import nan, sqrt
from typing import NamedTuple

import numpy as np

LEVEL = 0.95


class Interval(NamedTuple):
    """A mean and where it may lie."""

    mean: float
    """Over the seeds; NaN where one of them has no value: nothing is averaged over survivors."""
    low: float
    """Lower end; NaN with fewer than two values."""
    high: float
    """Upper end."""

    @property
    def half(self) -> float:
        """Half its width."""
        return (self.high - self.low) / 2

    def named(self, key: str) -> dict[str, float]:
        """As columns of a table."""
        return {key: self.mean, f"{key}_low": self.low, f"{key}_high": self.high}


def interval(values: Iterable[float], level: float = LEVEL) -> Interval:
    """The mean of independent values, and the interval that covers the true one with a probability of `level`.

    By hand: 1, 2, 3 have the mean 2 and the standard error 1/sqrt(3); 4.3027 of these are 95% with two degrees of
    freedom.

    >>> [round(value, 4) for value in interval([1.0, 2.0, 3.0])]
    [2.0, -0.4841, 4.4841]
    """
    given = np.asarray(list(values), dtype=np.float64)
    if given.size == 0 or np.isnan(given).any():
        return Interval(nan, nan, nan)
    mean = float(given.mean())
    if given.size == 1:
        return Interval(mean, nan, nan)
    from scipy.special import stdtrit

    reach = float(stdtrit(given.size - 1, (1 + level) / 2)) * float(given.std(ddof=1)) / sqrt(given.size)
    return Interval(mean, mean - reach, mean + reach)
