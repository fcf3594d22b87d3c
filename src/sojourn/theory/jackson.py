"""A closed network of single-server queues and one delay station, solved exactly.

Symbols: theta_i = p_i / mu_i load, C population, X_i queue (waiting and in service), Lambda throughput, H_c
normalising constant with Lambda(c) = H_{c-1} / H_c.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sojourn.theory import mva

Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]

_SEGMENT = 100_000_000  # group updates between two reports of progress


@dataclass(frozen=True, eq=False)
class ClosedNetwork:
    """The stationary network with `population` tasks, by groups of equal queues."""

    load: Floats
    """theta of one queue of each group."""
    count: Floats
    """Queues in each group."""
    delay: float
    """Mean time that a task spends away from all queues, per cycle."""
    population: int
    """Tasks in the network (C)."""
    throughput_by_population: Floats
    """Lambda(c) for c = 0..C."""
    queue: Floats
    """E_C[X_i]."""
    queue_before: Floats
    """E_{C-1}[X_i], the queue that an arriving task finds."""

    @classmethod
    def solve(
        cls,
        load: Floats,
        count: NDArray[np.int64] | Floats,
        population: int,
        delay: float = 0.0,
        progress: Progress | None = None,
    ) -> "ClosedNetwork":
        """Solve by mean value analysis in O(groups * population)."""
        theta = np.ascontiguousarray(load, dtype=np.float64)
        number = np.ascontiguousarray(count, dtype=np.float64)
        throughput = np.zeros(population + 1)
        stretch = np.zeros(theta.size)
        stride = max(1, _SEGMENT // theta.size)
        done = 0
        while done < population - 1:
            stop = min(done + stride, population - 1)
            mva.advance(stretch, theta, number, delay, throughput, done, stop)
            done = stop
            if progress is not None:
                progress(done, population)
        before = throughput[done] * stretch
        mva.advance(stretch, theta, number, delay, throughput, done, population)
        return cls(theta, number, delay, population, throughput, throughput[population] * stretch, before)

    @property
    def throughput(self) -> float:
        """Lambda(C), tasks per unit of time."""
        return float(self.throughput_by_population[self.population])

    @property
    def throughput_before(self) -> float:
        """Lambda(C-1)."""
        return float(self.throughput_by_population[self.population - 1])

    @property
    def utilisation(self) -> Floats:
        """P(X_i >= 1) = Lambda theta_i."""
        return np.asarray(self.throughput * self.load)

    def tail(self, group: int) -> Floats:
        """P(X_i >= k) = theta_i^k H_{C-k} / H_C for k = 0..C, one queue of the group."""
        factors = self.load[group] * self.throughput_by_population[:0:-1]
        return np.concatenate([[1.0], np.cumprod(factors)])

    def distribution(self, group: int) -> Floats:
        """P(X_i = k) for k = 0..C, one queue of the group."""
        tail = self.tail(group)
        return np.asarray(tail - np.append(tail[1:], 0.0))

    def covariances(self) -> tuple[Floats, Floats]:
        """Variance of a queue of each group, and covariance of two different queues by groups; O(groups^2 C)."""
        return mva.covariances(self.load, self.count, self.delay, self.throughput_by_population, self.population)

    def throughput_gradient(self) -> Floats:
        """Derivative of Lambda by log theta_j of one queue of each group: Lambda (E_{C-1}[X_j] - E_C[X_j])."""
        return self.throughput * (self.queue_before - self.queue)

    def throughput_gradient_delay(self) -> float:
        """Derivative of Lambda by log delay, when the mean time away from the queues changes."""
        return -self.throughput * self.delay * (self.throughput - self.throughput_before)

    def queue_gradient(self, weights: Floats, before: bool = False) -> tuple[Floats, float]:
        """Gradient of sum_i w_i E[X_i] over all queues, with C tasks (or C - 1: `before`).

        Returns the derivatives by log theta_j of one queue of each group, and by log delay.
        """
        population = self.population - 1 if before else self.population
        values = np.ascontiguousarray(weights, dtype=np.float64)
        if population == 0:
            return np.zeros(self.load.size), 0.0
        expected = mva.weighted_queues(self.load, self.count, self.delay, values, population)
        flows = self.throughput_by_population
        by_load = mva.covariance_with_queues(self.load, flows, values, expected, population)
        by_delay = float(flows[population]) * self.delay * float(expected[population - 1] - expected[population])
        return by_load, by_delay
