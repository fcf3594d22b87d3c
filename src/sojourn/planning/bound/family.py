"""Families of samplings, which turn a few free numbers into a probability for every client.

In every family log w = M z, and p = f + (1 - n f) w / sum_i w_i with a floor f: `one number for each label` (all
clients with one label share it: equal clients, or a speed cluster), and `a power of speed` (log w = z log mu).
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sojourn.cut import cut
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.types import Floats, Integers

EDGE = 40.0  # largest deviation of log w: a weight e^80 times smaller is practically never drawn


class Family(Protocol):
    """A linear map from free numbers to log w of each group."""

    @property
    def size(self) -> int:
        """Number of free numbers."""

    def logs(self, free: Floats) -> Floats:
        """M z."""

    def pull(self, slope: Floats) -> Floats:
        """M' applied to the derivative by log w of each group."""

    def nearest(self, logs: Floats, mass: Floats) -> Floats:
        """The free numbers whose log w is nearest, by least squares with these weights."""


@dataclass(frozen=True, eq=False)
class ByLabel:
    """One free number for each label."""

    label: Integers
    """Label of each group, 0, 1, ..."""

    @property
    def size(self) -> int:
        """Number of free numbers."""
        return int(self.label.max()) + 1

    def logs(self, free: Floats) -> Floats:
        """Return the label's number for each group."""
        return np.asarray(free[self.label])

    def pull(self, slope: Floats) -> Floats:
        """Return the sum over the groups of each label."""
        return np.bincount(self.label, slope, self.size).astype(np.float64)

    def nearest(self, logs: Floats, mass: Floats) -> Floats:
        """Return the mean over the groups of each label."""
        return np.asarray(np.bincount(self.label, mass * logs) / np.bincount(self.label, mass))


@dataclass(frozen=True, eq=False)
class ByPower:
    """A power of speed: one free number, the exponent."""

    log_rate: Floats
    """log mu of each group."""

    size = 1

    def logs(self, free: Floats) -> Floats:
        """Return the exponent times log mu."""
        return np.asarray(free[0] * self.log_rate)

    def pull(self, slope: Floats) -> Floats:
        """Return the derivative along log mu."""
        return np.array([slope @ self.log_rate])

    def nearest(self, logs: Floats, mass: Floats) -> Floats:
        """Return the slope of log w over log mu."""
        centred = self.log_rate - (mass @ self.log_rate) / mass.sum()
        spread = mass @ centred**2
        return np.array([(mass * centred) @ logs / spread if spread > 0 else 0.0])


def equal_clients(fleet: Fleet, weights: Floats) -> Integers:
    """Return a label for each group; clients that are equal in everything that the theory uses share one."""
    columns = [
        fleet.rate,
        fleet.uplink_rate,
        fleet.downlink_rate,
        weights,
        *(np.nan_to_num(power, nan=-1.0) for power in (fleet.power, fleet.uplink_power, fleet.downlink_power)),
    ]
    if np.unique(fleet.rate).size == fleet.groups:
        return np.arange(fleet.groups)
    return np.unique(np.column_stack(columns), axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def speed_clusters(fleet: Fleet, clusters: int) -> Integers:
    """Return the label of each group by speed, 0 the fastest: the cut of the sorted log rates with the least squares
    inside.

    Every client counts; if there are more than a few hundred distinct rates, neighbours are merged first.
    """
    distinct = np.unique(-np.log(fleet.rate))
    if not 1 <= clusters <= distinct.size:
        raise InvalidInput(
            f"clusters must lie between 1 and the {distinct.size} distinct rates of the fleet, got {clusters}; "
            "with one speed there is nothing to cluster"
        )
    return cut(-np.log(fleet.rate), fleet.count.astype(np.float64), clusters)


def grid_around_uniform(fleet: Fleet, points: int) -> list[Floats]:
    """Return a grid of p around the uniform one, as in the paper, in free numbers of two speed clusters.

    The paper says "50 values around the uniform one" and gives no range. The range is ours: a fast client's probability
    goes evenly through (0, min(2/n, 1/n_fast)), that is up to twice uniform, or as far as possible.
    """
    fast = speed_clusters(fleet, 2) == 0
    n, n_fast = fleet.clients, int(fleet.count[fast].sum())
    values = np.linspace(0, min(2 / n, 1 / n_fast), points + 2)[1:-1]
    return [np.log([p, (1 - n_fast * p) / (n - n_fast)]) for p in values]


def sampling(logs: Floats, count: Floats, floor: float) -> tuple[Floats, Floats]:
    """Return the probability of one client of each group from log w, and each client's share w / sum of all w."""
    w = np.exp(np.clip(logs - logs.max(), -2 * EDGE, 0.0))
    share = w / (count * w).sum()
    return floor + (1 - floor * count.sum()) * share, share


def slope_of_logs(by_sampling: Floats, share: Floats, count: Floats, floor: float) -> Floats:
    """Return the derivative by log w of each group, from that by p of one client of each group."""
    mass = count * share
    return np.asarray((1 - floor * count.sum()) * mass * (by_sampling - mass @ by_sampling))
