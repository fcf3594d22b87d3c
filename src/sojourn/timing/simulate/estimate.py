"""Ratio estimates with standard errors from independent (or nearly independent) units.

A unit is a replication, or a batch of one long run. Each gives a numerator and a denominator (total staleness and
arrivals, say); the estimate is the ratio R of their sums, its standard error that of the residuals num - R den:

    se = sqrt( sum_u (num_u - R den_u)^2 / (U (U - 1)) ) / mean(den)

If no unit has a positive denominator there is no ratio, and if only one has, the error is unknown.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sojourn.frozen import Frozen, read_only
from sojourn.types import Floats


@dataclass(frozen=True, eq=False)
class Estimate(Frozen):
    """A simulated mean and its standard error, which is NaN if at most one unit has data."""

    value: Floats
    """Estimated mean, by group or a single number."""
    error: Floats
    """Its standard error."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", read_only(np.asarray(self.value)))
        object.__setattr__(self, "error", read_only(np.asarray(self.error)))

    def __str__(self) -> str:
        pairs = zip(np.atleast_1d(self.value), np.atleast_1d(self.error), strict=True)
        return ", ".join(f"{v:.6g}" if np.isnan(error) else f"{v:.6g} +- {error:.2g}" for v, error in pairs)


class RatioSums:
    """Running sums that give a ratio and its error; memory does not grow with the number of units."""

    def __init__(self, size: int) -> None:
        self.units = 0
        self._num, self._den = np.zeros(size), np.zeros(size)
        self._squares = np.zeros((3, size))
        self._seen = np.zeros(size, dtype=np.int64)

    def add(self, num: ArrayLike, den: ArrayLike) -> None:
        """Add one unit."""
        n, d = np.atleast_1d(np.asarray(num, np.float64)), np.atleast_1d(np.asarray(den, np.float64))
        self.units += 1
        self._num += n
        self._den += d
        self._seen += d != 0
        self._squares += np.stack([n * n, n * d, d * d])

    def estimate(self) -> Estimate:
        """Return the ratio of the sums, with its standard error."""
        with np.errstate(all="ignore"):  # rates near the limits of floating point
            ratio = np.where(self._seen > 0, self._num / self._den, np.nan)
            spread = self._squares[0] - 2 * ratio * self._squares[1] + ratio**2 * self._squares[2]
            variance = np.maximum(spread, 0) / (self.units * (self.units - 1)) if self.units > 1 else np.nan
            error = np.sqrt(variance) / (self._den / self.units)
            return Estimate(ratio, np.where(self._seen > 1, error, np.nan))


def batch_correlation(series: list[Floats]) -> float:
    """Return the largest lag-one correlation of batch means over the groups, given [batch, group] of each run; NaN if
    there are too few.
    """
    worst = np.nan
    usable = [part for part in series if part.shape[0] >= 8]
    if usable:
        centred = [part - np.mean(np.concatenate(usable), axis=0) for part in usable]
        with np.errstate(divide="ignore", invalid="ignore"):
            lag = sum((part[1:] * part[:-1]).sum(axis=0) for part in centred)
            correlation = lag / sum((part**2).sum(axis=0) for part in centred)
        if np.isfinite(correlation).any():
            worst = float(np.nanmax(correlation))
    return worst
