"""How many tasks one client holds in a capped network: its own factor of the stationary law.

With k tasks at client i, on its links, in its queue or in service, the factor is

    f_i(k) = sum over a + q = k of  (w_i d_i)^a / a!  *  (w_i / mu_i)^q,   k <= b_i

where w_i is the weight, mu_i the rate, d_i the mean time on both links, b_i the cap. Multiplied by r^k and divided by
their sum, the factors are probabilities: the law of client i *tilted* by r. The network holds C tasks in all, so its
law is that of independent clients with tilted laws, given that together they hold C; and r may be chosen freely. At
the saddle point the mean of the sum is C. The code computes only with tilted laws, so that no factor overflows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sojourn.compiled import compiled
from sojourn.types import Floats, Integers

NONE = -1  # cap of a client that may hold any number of tasks
_CLOSE = 1e-3  # accuracy of the saddle point, in standard deviations


class Tilted(NamedTuple):
    """The tilted laws, one client of each group; the unit of w is such that r = 1."""

    weight: Floats
    """w_i r."""
    clients: Floats
    """Number of clients in the group."""
    cap: Integers
    """b_i, or NONE."""
    first: Integers
    """Where the numbers of the group begin in `prob` and `queued`; groups with cap NONE have none there."""
    prob: Floats
    """Probability of k = 0..b_i tasks."""
    queued: Floats
    """Mean number of them in the queue or in service."""
    ratio: Floats
    """theta_i r of a client without a cap, whose queue is geometric."""
    linked: Floats
    """w_i d_i r, the mean of the Poisson number on the links of a client without a cap."""


@dataclass(frozen=True, eq=False)
class Factors:
    """The factors f_i(k) as logarithms."""

    log_weight: Floats
    count: Floats
    cap: Integers
    first: Integers
    log_factor: Floats
    queued: Floats
    log_load: Floats
    """log theta_i = log w_i / mu_i."""
    log_link: Floats
    """log w_i d_i; -inf without links."""

    @classmethod
    def of(cls, weights: Floats, rate: Floats, link_time: Floats, count: Integers, cap: Integers) -> "Factors":
        """Make the factors from arrays with one value per group."""
        size = np.where(cap == NONE, 0, cap + 1)
        first = np.cumsum(size) - size
        with np.errstate(divide="ignore"):
            log_link = np.log(weights) + np.log(link_time)
        log_load = np.log(weights) - np.log(rate)
        log_factor, queued = np.zeros(int(size.sum())), np.zeros(int(size.sum()))
        _fill(cap, first, log_load, log_link, log_factor, queued)
        held = count.astype(np.float64)
        return cls(np.log(weights), held, cap, first, log_factor, queued, log_load, log_link)

    @property
    def most(self) -> float:
        """Sum of all caps."""
        return float(np.inf) if (self.cap == NONE).any() else float((self.count * self.cap).sum())

    def moments(self, log_r: float) -> tuple[float, float, float]:
        """Return mean and variance of the sum of all tilted clients, and how fast its Fourier transform falls."""
        return _moments(self.count, self.cap, self.first, self.log_factor, self.log_load, self.log_link, log_r)

    def tilted(self, log_r: float) -> Tilted:
        """Return the laws tilted by r."""
        prob = np.empty(self.log_factor.size)
        _tilt(self.cap, self.first, self.log_factor, log_r, prob)
        free = self.cap == NONE
        ratio = np.where(free, np.exp(np.minimum(self.log_load + log_r, 0.0)), 0.0)
        linked = np.where(free, np.exp(np.where(free, self.log_link, 0.0) + log_r), 0.0) if free.any() else ratio
        weight = np.exp(self.log_weight + log_r)
        return Tilted(weight, self.count, self.cap, self.first, prob, self.queued, ratio, linked)

    def saddle(self, population: int) -> tuple[float, float, float]:
        """Return the log of the r at which clients hold C tasks on average, sigma, and the speed of the fall.

        If the network is full no such r exists, and half a task is left out.
        """
        free = self.cap == NONE
        end = -float(self.log_load[free].max()) if free.any() else np.inf
        start = -float(np.median(self.log_load))
        if start >= end:
            start = end - 1.0
        log_r = _root(lambda x: self.moments(x)[:2], min(population, self.most - 0.5), start, end)
        _, variance, fall = self.moments(log_r)
        return log_r, float(np.sqrt(variance)), fall


def _root(moments: Callable[[float], tuple[float, float]], target: float, start: float, end: float) -> float:
    """Find where the mean equals the target, by Newton's method with bisection when it would leave the bracket."""
    low, high, x, reach = -np.inf, end, start, 1.0
    for _ in range(400):
        mean, variance = moments(x)
        if abs(mean - target) <= _CLOSE * min(variance, np.sqrt(variance)):
            break
        low, high = (x, high) if mean < target else (low, x)
        step = (target - mean) / variance if variance > 0 else np.copysign(reach, target - mean)
        following = x + float(np.clip(step, -reach, reach))
        x, before = (following if low < following < high else (low + high) / 2), x
        if x == before:
            break
        reach *= 2
    return x


@compiled
def _fill(
    cap: Integers, first: Integers, log_load: Floats, log_link: Floats, log_factor: Floats, queued: Floats
) -> None:
    """f(k) = theta f(k-1) + (w d)^k / k!, and in the same way the mean number in the queue given k."""
    for i in range(cap.size):
        on_links = 0.0
        for k in range(1, cap[i] + 1):
            at = first[i] + k
            in_queue = log_load[i] + log_factor[at - 1]
            on_links += log_link[i] - np.log(k)
            log_factor[at] = (
                in_queue + np.log1p(np.exp(on_links - in_queue))
                if on_links < in_queue
                else (on_links + np.log1p(np.exp(in_queue - on_links)))
            )
            queued[at] = np.exp(in_queue - log_factor[at]) * (queued[at - 1] + 1.0)


@compiled
def _tilt(cap: Integers, first: Integers, log_factor: Floats, log_r: float, prob: Floats) -> None:
    for i in range(cap.size):
        if cap[i] == 1:
            at = first[i]
            odds = np.exp(-abs(log_factor[at + 1] + log_r))
            less, more = odds / (1.0 + odds), 1.0 / (1.0 + odds)
            swap = log_factor[at + 1] + log_r < 0.0
            prob[at], prob[at + 1] = (more, less) if swap else (less, more)
        elif cap[i] != NONE:
            begin, end = first[i], first[i] + cap[i] + 1
            largest = -np.inf
            for at in range(begin, end):
                largest = max(largest, log_factor[at] + (at - begin) * log_r)
            total = 0.0
            for at in range(begin, end):
                prob[at] = np.exp(log_factor[at] + (at - begin) * log_r - largest)
                total += prob[at]
            for at in range(begin, end):
                prob[at] /= total


@compiled
def _moments(
    count: Floats,
    cap: Integers,
    first: Integers,
    log_factor: Floats,
    log_load: Floats,
    log_link: Floats,
    log_r: float,
) -> tuple[float, float, float]:
    """Mean, variance, and sum of P(X' = X + 1) for two independent copies of each client.

    |E e^(i phi X)|^2 = 1 - 2 sum_d P(X' = X + d) (1 - cos d phi) <= 1 - 2 c (1 - cos phi), with c of d = 1 alone.
    """
    mean, variance, fall = 0.0, 0.0, 0.0
    prob = np.empty(max(cap.max(), 0) + 1)
    log_prob = np.empty(prob.size)
    zero = np.zeros(1, dtype=np.int64)
    for i in range(cap.size):
        if cap[i] == 1:
            odds = np.exp(-abs(log_factor[first[i] + 1] + log_r))
            less, more = odds / (1.0 + odds), 1.0 / (1.0 + odds)
            mean += count[i] * (less if log_factor[first[i] + 1] + log_r < 0.0 else more)
            variance += count[i] * less * more
            fall += count[i] * less * more
        elif cap[i] == NONE:
            ratio, linked = np.exp(log_load[i] + log_r), np.exp(log_link[i] + log_r)
            rest = -np.expm1(log_load[i] + log_r)
            mean += count[i] * (ratio / rest + linked)
            variance += count[i] * (ratio / (rest * rest) + linked)
            fall += count[i] * (ratio * rest / (1.0 + ratio) + linked)
        else:
            size = cap[i] + 1
            log_prob[:size] = log_factor[first[i] : first[i] + size]
            _tilt(cap[i : i + 1], zero, log_prob, log_r, prob)
            centre, square, next_to = 0.0, 0.0, 0.0
            for k in range(1, size):
                centre += k * prob[k]
                next_to += prob[k - 1] * prob[k]
            for k in range(size):
                square += (k - centre) ** 2 * prob[k]
            mean += count[i] * centre
            variance += count[i] * square
            fall += count[i] * next_to
    return mean, variance, fall
