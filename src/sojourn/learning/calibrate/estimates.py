"""Estimates with bounds at any confidence level, and means over clients of whom only some were asked.

An interval at confidence 1 - 2a runs from `low(a)` to `high(a)`: each end misses with probability a, or less.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, log1p, sqrt
from typing import Protocol

import numpy as np
from scipy.stats import norm as normal
from scipy.stats import t as student

from sojourn.types import Floats


class Bounded(Protocol):
    """A measured number with bounds."""

    @property
    def value(self) -> float:
        """The estimate."""

    def low(self, miss: float) -> float:
        """Return a lower bound, which lies above the truth with probability `miss` at most."""

    def high(self, miss: float) -> float:
        """Return an upper bound, which lies below the truth with probability `miss` at most."""


@dataclass(frozen=True)
class Estimate:
    """A mean with its standard error; the bounds are Student's, on a logarithmic scale for positive quantities.

    >>> round(Estimate(2.0, 0.1).high(0.025), 3)
    2.196
    """

    value: float
    """The estimate."""
    error: float = 0.0
    """Its standard error."""
    freedom: float = inf
    """Degrees of freedom of the standard error."""
    positive: bool = False
    """Whether it is a variance, skewed and above zero."""
    floor: float = -inf
    """A lower limit of the truth; an estimate below it is raised to it."""

    def low(self, miss: float) -> float:
        """Lower bound."""
        return self._end(-1, miss)

    def high(self, miss: float) -> float:
        """Upper bound."""
        return self._end(1, miss)

    def _end(self, side: int, miss: float) -> float:
        if self.error == 0:
            return self.value
        away = side * float(student.ppf(1 - miss, self.freedom))
        if self.positive and self.value > 0:
            return self.value * exp(min(away * self.error / self.value, 700.0))
        return max(self.value, self.floor) + away * self.error if side > 0 else self.value + away * self.error


@dataclass(frozen=True)
class Bracket:
    """A number between two others: its lower bound is that of one, its upper bound that of the other."""

    value: float
    """The estimate."""
    below: Estimate
    """Something that is at most the truth."""
    above: Estimate
    """Something that is at least the truth."""

    def low(self, miss: float) -> float:
        """Lower bound."""
        return self.below.low(miss)

    def high(self, miss: float) -> float:
        """Upper bound."""
        return self.above.high(miss)


@dataclass(frozen=True)
class Largest:
    """The largest of several numbers, each of which was measured.

    The upper bound is the largest upper bound, since that of the truly largest number is enough. For the lower bound
    any of the lower bounds may miss, so each gets its share of the error; their mean is one more of them.
    """

    parts: Sequence[Bounded]
    """The numbers."""
    mean: Bounded | None = None
    """A lower limit of the largest, such as their mean."""
    shrunk: float | None = None
    """The estimate; None = the largest estimate."""

    @property
    def value(self) -> float:
        """The estimate."""
        return max(part.value for part in self.parts) if self.shrunk is None else self.shrunk

    def low(self, miss: float) -> float:
        """Lower bound."""
        if self.mean is None:
            return max(part.low(miss / len(self.parts)) for part in self.parts)
        return max(self.mean.low(miss / 2), *(part.low(miss / 2 / len(self.parts)) for part in self.parts))

    def high(self, miss: float) -> float:
        """Upper bound."""
        return max(part.high(miss) for part in self.parts)


@dataclass(frozen=True)
class Displaced:
    """A squared distance, measured from a point that lies about `off` away from the right one."""

    part: Bounded
    """As measured."""
    off: float
    """Distance of the two points."""

    @property
    def value(self) -> float:
        """The estimate."""
        return self.part.value

    def low(self, miss: float) -> float:
        """Lower bound."""
        return max(0.0, sqrt(max(0.0, self.part.low(miss))) - self.off) ** 2

    def high(self, miss: float) -> float:
        """Upper bound."""
        return (sqrt(max(0.0, self.part.high(miss))) + self.off) ** 2


@dataclass(frozen=True)
class Unasked:
    """The largest of clients that were not asked, if they are like those that were: log-normal, with the same spread.

    The bound is Student's for the next clients of a sample, each of them at its share of the error (Bonferroni). The
    spread includes what noise adds to it. No bound can foresee clients that are unlike all that were asked.
    """

    mean: float
    """Mean of the clients asked."""
    variance: float
    """Observed variance between them."""
    noise: float
    """Part of the variance that noise explains."""
    asked: int
    """Clients asked."""
    others: int
    """Number of clients not asked."""

    @property
    def value(self) -> float:
        """Return the median of the largest."""
        if self.mean <= 0:
            return 0.0
        spread = log1p(max(0.0, self.variance - self.noise) / self.mean**2)
        return self.mean * exp(float(normal.ppf(0.5 ** (1 / self.others))) * sqrt(spread) - spread / 2)

    def low(self, miss: float) -> float:
        """Return zero: nothing is known about these clients themselves."""
        return 0.0

    def high(self, miss: float) -> float:
        """Return the upper bound; infinite if too few clients were asked."""
        if self.mean <= 0 or self.asked < 2:
            return inf
        away = float(student.ppf(1 - miss / self.others, self.asked - 1)) * sqrt(1 + 1 / self.asked)
        up = away * sqrt(log1p(self.variance / self.mean**2))
        return self.mean * exp(up) if up < TELLING else inf


def mean_over_clients(values: Floats, weights: Floats, clients: int, positive: bool, factor: float = 1.0) -> Estimate:
    """Return the weighted mean over all `clients`, from independent `values` [groups, clients asked] of those asked.

    They are a random choice; `positive` are variances, others squares, of which estimates may be negative. Sampling in
    two stages: the spread between the clients asked counts as far as others were not asked (1 - f), the spread between
    a client's own groups, times `factor`, as far as they were (f).
    """
    groups, asked = values.shape
    share = weights / weights.sum()
    each = values.mean(axis=0)
    value = float(share @ each)
    inner = factor * share**2 * values.var(axis=0, ddof=1) / groups
    within, part = float(inner.sum()), asked / clients
    between = (1 - part) * float(np.square(share * (each - value)).sum()) * asked / max(1, asked - 1)
    total = between + part * within
    most = 2.0 if positive else 1.0
    spread = between**2 * _doubt(each[:, None], most)
    spread += part**2 * float((inner**2).sum()) * _shrunk(_doubt(values, most))
    freedom = max(1.0, total**2 / spread) if spread > 0 else inf
    return Estimate(value, float(np.sqrt(total)), freedom, positive, floor=0.0)


def _doubt(values: Floats, most: float) -> float:
    """The squared relative error of a variance over the first axis: c = 2 / (rows - 1) + excess / rows.

    Sums of squares of relative variance r have the excess kurtosis 6 r, and products no more (r counts up to `most`),
    if gradients are normal. Half of the answer would then be right for degrees of freedom, which are 2 / c; but the
    tails of small batches are heavier than that.
    """
    rows = len(values)
    squares = float(np.square(values.mean(axis=0)).sum())
    relative = float(values.var(axis=0, ddof=1).sum()) / squares if squares > 0 and rows > 1 else 0.0
    return 2 / max(1, rows - 1) + 6 * min(relative, most) / rows


def _shrunk(c: float) -> float:
    """The same as a part of the mean square of such variances, 1 + c, of which many are summed."""
    return c / (1 + c)


TELLING = 20.0  # above this logarithm of a ratio a bound is useless
PRIOR = 4  # what all clients have in common counts as much as this many groups


def largest_over_clients(values: Floats, common: Floats, mean: Estimate, positive: bool, others: int = 0) -> Largest:
    """Return the largest of the clients' means over groups, from `values` [groups, clients asked].

    Few groups say little about a client's own spread; `common` are the variances between groups that all clients
    together lead one to expect. The two are averaged, by the groups behind them. The estimate of the largest comes from
    values that are shrunk together as far as noise explains their differences, because the largest of noisy values is
    too large on average. The `others`, which were not asked, may have a larger one.
    """
    groups = len(values)
    freedom = PRIOR + groups - 1
    each, own = values.mean(axis=0), values.var(axis=0, ddof=1)
    squares = (PRIOR * common + (groups - 1) * own) / freedom / groups
    parts = [
        Estimate(float(v), float(e), freedom, positive, floor=0.0) for v, e in zip(each, np.sqrt(squares), strict=True)
    ]
    spread = float(each.var(ddof=1)) if each.size > 1 else 0.0
    kept = max(0.0, 1 - float(squares.mean()) / spread) if spread > 0 else 0.0
    centre = float(each.mean())
    largest = centre + kept * (float(each.max()) - centre)
    if not others:
        return Largest(parts, mean, largest)
    unasked = Unasked(centre, spread, float(squares.mean()), each.size, others)
    return Largest([*parts, unasked], mean, max(largest, unasked.value))
