"""How much of the clients' differences lies between fast and slow clients, and how much within a speed group.

From the products <g_i, g_j> of clients' gradients in different rounds, which noise does not add to: with weights w_i,
p_g the weight of group g, m_g its mean gradient and m that of all,

    G^2 = within + B,   B = sum_g p_g |m_g|^2 - |m|^2.

Clients that differ by chance make B positive even where speed has nothing to do with the data. As in an analysis of
variance that part follows from what lies within, and is taken off: clients of variance V = within / (1 - a) add
V (a - c), where a = sum_g p_g sum_{i in g} (w_i / p_g)^2 and c = sum_i w_i^2; to |m|^2 they add V c.

`between`: where only group g informs a direction, its gradient there is m / p_g, and that of the others zero. Groups
that share nothing, each with p_g of |m|^2, have B = (K - 1) |m|^2, K the number of groups. So the part of the problem
that only one group knows is B / ((K - 1) |m|^2), summed over the points before it is divided.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from sojourn.fleet import Fleet
from sojourn.learning.calibrate.estimates import Estimate
from sojourn.types import Floats, Integers

MOST = 5  # most speed groups
GRID = np.linspace(0.0, 1.0, 1001)
LEAST = 2  # fewest clients asked per group: with one client, group and client cannot be distinguished


class Parts(NamedTuple):
    """The parts of G^2."""

    between: Estimate
    """Between the speed groups, beyond what chance explains."""
    within: Estimate
    """Within them."""


def pace_of_clients(fleet: Fleet) -> Floats:
    """Return how many tasks per second each client completes, including its links."""
    return np.asarray((1 / (1 / fleet.rate + fleet.link_time))[fleet.group_of_client])


def speed_groups(fleet: Fleet, asked: Integers) -> Integers:
    """Return the speed group of each client asked, 0 the slowest: at most five groups of two or more, by merging
    neighbours.

    >>> speed_groups(Fleet.of(fast=(3, 8.0), slow=(2, 1.0)), np.arange(5)).tolist()
    [1, 1, 1, 0, 0]
    """
    found, place, count = np.unique(pace_of_clients(fleet)[asked], return_inverse=True, return_counts=True)
    logs, label = np.log(found), np.arange(found.size)
    sizes, means = count.astype(float), logs.copy()
    while sizes.size > 1 and (sizes.size > MOST or sizes.min() < LEAST):
        cost = np.array([_cost(sizes, means, one) for one in range(sizes.size - 1)])
        if sizes.size <= MOST:  # only groups that are too small must be merged
            small = sizes < LEAST
            cost[~(small[:-1] | small[1:])] = np.inf
        at = int(np.argmin(cost))
        means[at] = np.average(means[at : at + 2], weights=sizes[at : at + 2])
        sizes[at] += sizes[at + 1]
        means, sizes = np.delete(means, at + 1), np.delete(sizes, at + 1)
        label[label > at] -= 1
    return np.asarray(label[place], dtype=np.int64)


def _cost(sizes: Floats, means: Floats, one: int) -> float:
    """Return what merging two neighbours adds to the squares within groups (Ward)."""
    left, right = sizes[one], sizes[one + 1]
    return float(left * right / (left + right) * (means[one + 1] - means[one]) ** 2)


def parts(products: Floats, weights: Floats, label: Integers) -> Parts:
    """Return G^2 between and within speed groups at a point, from products [clients, clients]."""
    found = _split(products, weights, label)
    each = np.array([_split(*_without(products, weights, label, one)) for one in range(label.size)])
    errors = [_jackknifed(each[:, [k]], label) for k in range(2)]
    between, within = (
        Estimate(value, float(np.sqrt(spread[0, 0])), freedom)
        for value, (spread, freedom) in zip(found[:2], errors, strict=True)
    )
    return Parts(between, within)


@dataclass(frozen=True)
class Part:
    """A part from 0 to 1, the ratio of two estimates; the interval holds the ratios that the two do not refute
    (Fieller).
    """

    above: float
    """Numerator."""
    below: float
    """Denominator; if its error is too large, the interval is all of 0 to 1."""
    spread: Floats
    """Their covariance."""
    freedom: float
    """Degrees of freedom of the errors."""

    @property
    def value(self) -> float:
        """The estimate."""
        return min(1.0, max(0.0, self.above / self.below)) if self.below > 0 else float(self.above > 0)

    def low(self, miss: float) -> float:
        """Return the smallest ratio that is not refuted."""
        kept = GRID[self._away() <= self._width(miss)]
        return float(kept.min(initial=1.0))

    def high(self, miss: float) -> float:
        """Return the largest ratio that is not refuted."""
        kept = GRID[self._away() >= -self._width(miss)]
        return float(kept.max(initial=0.0))

    def _away(self) -> Floats:
        return self.above - GRID * self.below

    def _width(self, miss: float) -> Floats:
        square = self.spread[0, 0] - 2 * GRID * self.spread[0, 1] + GRID**2 * self.spread[1, 1]
        return np.asarray(float(student.ppf(1 - miss, self.freedom)) * np.sqrt(np.maximum(square, 0.0)))


def known_to_one_group(points: Sequence[Floats], weights: Floats, label: Integers) -> Part:
    """Return `between`: the part of the problem that only one speed group knows."""
    if label.max(initial=0) == 0:
        return Part(0.0, 1.0, np.zeros((2, 2)), np.inf)
    each = [_sums([_without(one, weights, label, i) for one in points]) for i in range(label.size)]
    spread, freedom = _jackknifed(np.array(each), label)
    return Part(*_sums([(one, weights, label) for one in points]), spread, freedom)


def _sums(points: Sequence[tuple[Floats, Floats, Integers]]) -> tuple[float, float]:
    """B and (K - 1) |m|^2 over the points."""
    between, _, mean = np.sum([_split(*one) for one in points], axis=0)
    return float(between), int(points[0][2].max()) * float(mean)


def _split(products: Floats, weights: Floats, label: Integers) -> tuple[float, float, float]:
    """Between, within, and |m|^2, without what chance adds to them."""
    share = weights / weights.sum()
    member = np.eye(int(label.max()) + 1)[label]  # [clients, groups]
    part = share @ member
    inner = member * share[:, None] / np.maximum(part, 1e-300)
    means = inner.T @ products @ inner
    whole = float(part @ means @ part)
    between = float(part @ np.diag(means)) - whole
    within = float(share @ np.diag(products)) - whole - between
    a, c = float(part @ np.square(inner).sum(axis=0)), float(np.square(share).sum())
    if a >= 1 - 1e-12:  # every client is its own group
        return between, 0.0, whole
    variance = within / (1 - a)
    return between - variance * (a - c), variance * (1 - c), whole - variance * c


def _without(products: Floats, weights: Floats, label: Integers, one: int) -> tuple[Floats, Floats, Integers]:
    """Return the data without a client; the weight of its group stays the same."""
    kept, mine = np.arange(label.size) != one, label == label[one]
    scaled = np.where(mine, weights * weights[mine].sum() / max(weights[mine & kept].sum(), 1e-300), weights)
    return products[np.ix_(kept, kept)], scaled[kept], label[kept]


def _jackknifed(each: Floats, label: Integers) -> tuple[Floats, float]:
    """Return the covariance of estimates and its degrees of freedom, by leaving out one client after the other by
    group.
    """
    pieces, doubt = np.zeros((each.shape[1], each.shape[1])), 0.0
    for group in range(int(label.max(initial=0)) + 1):
        mine = each[label == group]
        if len(mine) > 1:
            off = mine - mine.mean(axis=0)
            piece = (len(mine) - 1) / len(mine) * (off.T @ off)
            pieces += piece
            doubt += float(np.trace(piece)) ** 2 / (len(mine) - 1)
    return pieces, max(1.0, float(np.trace(pieces)) ** 2 / doubt) if doubt > 0 else np.inf
