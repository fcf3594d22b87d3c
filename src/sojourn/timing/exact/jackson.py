"""A closed network of single-server queues and one delay station, solved exactly.

Symbols: theta_i = p_i / mu_i load, C population, X_i queue (waiting and in service), Z delay, Lambda throughput, H_c
normalising constant with Lambda(c) = H_{c-1} / H_c.

There are two ways to the same numbers: mean value analysis takes O(groups * C) and is exact up to rounding; contour
quadrature takes O(groups) passes that do not depend on C, with a certified error. `ClosedNetwork.solve` takes the first
if it is quick, and also if the second cannot certify its result.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import InvalidInput
from sojourn.timing.exact import mva
from sojourn.timing.exact.contour import Contour, certified, throughputs
from sojourn.types import Floats

Progress = Callable[[int, int], None]
Solver = Literal["mva", "contour", "circle"]

_SEGMENT = 100_000_000  # group updates between two reports of progress
_QUICK = 20_000_000  # most group updates for mean value analysis, if the solver may be chosen
_PER_TASK = 16  # further cost of a task, in group updates
_MANY = 256  # from this many tasks on a contour may be cheaper, for any number of groups
_TRUSTED = 1e-10  # certified error up to which a contour is accepted
_NOTHING = 1e-30  # below this probability the tail of a queue is ignored


@dataclass(frozen=True, eq=False)
class ClosedNetwork(ABC):
    """A solved stationary network with `population` tasks, by groups of equal queues."""

    load: Floats
    """Load theta of one queue of each group."""
    count: Floats
    """Number of queues in each group."""
    delay: float
    """Mean time that a task spends away from all queues, per cycle."""
    population: int
    """Tasks in the network (C)."""
    throughput: float
    """Lambda(C), tasks per unit of time."""
    throughput_before: float
    """Lambda(C-1)."""
    queue: Floats
    """E_C[X_i]."""
    queue_before: Floats
    """E_{C-1}[X_i], the queue that an arriving task finds."""
    solver: Solver
    """The solver that was used."""
    error: float
    """Relative error of throughput and queues: certified by a second contour; rounding for mean value analysis."""

    @staticmethod
    def solve(
        load: Floats,
        count: NDArray[np.int64] | Floats,
        population: int,
        delay: float = 0.0,
        progress: Progress | None = None,
        solver: Solver | None = None,
    ) -> "ClosedNetwork":
        """Solve the network with the solver named, or with the cheapest one that certifies its result."""
        if solver not in (None, "mva", "contour"):
            raise InvalidInput(f"solver must be mva or contour, got '{solver}'; leave it out to have it chosen")
        theta = np.ascontiguousarray(load, dtype=np.float64)
        number = np.ascontiguousarray(count, dtype=np.float64)
        quick = population < _MANY or (theta.size + _PER_TASK) * population <= _QUICK
        if solver == "mva" or (solver is None and quick):
            return MeanValueNetwork.of(theta, number, population, delay, progress)
        network = ContourNetwork.of(theta, number, population, delay)
        if solver is None and not network.error <= _TRUSTED:
            return MeanValueNetwork.of(theta, number, population, delay, progress)
        if progress is not None:
            progress(population, population)
        return network

    @property
    @abstractmethod
    def throughput_by_population(self) -> Floats:
        """Lambda(c) for c = 0..C."""

    @abstractmethod
    def covariances(self) -> tuple[Floats, Floats]:
        """Variance of a queue of each group, and covariance of two different queues by groups."""

    @abstractmethod
    def throughput_gradient(self) -> Floats:
        """Derivative of Lambda by log theta_j of one queue of each group: Lambda (E_{C-1}[X_j] - E_C[X_j])."""

    @abstractmethod
    def queue_gradient(self, weights: Floats, before: bool = False) -> tuple[Floats, float]:
        """Gradient of sum_i w_i E[X_i] over all queues, with C tasks (or C - 1: `before`).

        Returns the derivatives by log theta_j of one queue of each group, and by log delay.
        """

    @abstractmethod
    def _throughputs(self) -> Iterator[Floats]:
        """Lambda(C), Lambda(C-1), ..., Lambda(1), in pieces."""

    @property
    def utilisation(self) -> Floats:
        """P(X_i >= 1) = Lambda theta_i."""
        return np.asarray(self.throughput * self.load)

    def tail(self, group: int) -> Floats:
        """P(X_i >= k) = theta_i^k H_{C-k} / H_C for k = 0..C, one queue of the group (0 far below 1e-30)."""
        tail = np.zeros(self.population + 1)
        tail[0] = 1.0
        done = 0
        for flows in self._throughputs():
            tail[done + 1 : done + 1 + flows.size] = tail[done] * np.cumprod(self.load[group] * flows)
            done += flows.size
            if tail[done] < _NOTHING:
                break
        return tail

    def distribution(self, group: int) -> Floats:
        """P(X_i = k) for k = 0..C, one queue of the group."""
        tail = self.tail(group)
        return np.asarray(np.maximum(tail - np.append(tail[1:], 0.0), 0.0))

    def throughput_gradient_delay(self) -> float:
        """Derivative of Lambda by log delay, when the mean time away from the queues changes."""
        return -self.throughput * self.delay * (self.throughput - self.throughput_before)


@final
@dataclass(frozen=True, eq=False)
class MeanValueNetwork(ClosedNetwork):
    """Solved by mean value analysis."""

    flows: Floats
    """Lambda(c) for c = 0..C."""

    @classmethod
    def of(
        cls, load: Floats, count: Floats, population: int, delay: float, progress: Progress | None = None
    ) -> "MeanValueNetwork":
        """Add the tasks one by one, in O(groups * population)."""
        flows = np.zeros(population + 1)
        stretch = np.zeros(load.size)
        stride = max(1, _SEGMENT // load.size)
        done = 0
        while done < population - 1:
            stop = min(done + stride, population - 1)
            mva.advance(stretch, load, count, delay, flows, done, stop)
            done = stop
            if progress is not None:
                progress(done, population)
        before = flows[done] * stretch
        mva.advance(stretch, load, count, delay, flows, done, population)
        now, past = float(flows[population]), float(flows[population - 1])
        queue = now * stretch
        error = abs(float((count * queue).sum()) + delay * now - population) / population
        return cls(load, count, delay, population, now, past, queue, before, "mva", error, flows)

    @property
    def throughput_by_population(self) -> Floats:
        """Lambda(c) for c = 0..C."""
        return self.flows

    def covariances(self) -> tuple[Floats, Floats]:
        """Return the same in O(groups^2 C)."""
        return mva.covariances(self.load, self.count, self.delay, self.flows, self.population)

    def throughput_gradient(self) -> Floats:
        """Return Lambda (E_{C-1}[X_j] - E_C[X_j])."""
        return self.throughput * (self.queue_before - self.queue)

    def queue_gradient(self, weights: Floats, before: bool = False) -> tuple[Floats, float]:
        """Return the same in O(groups * C)."""
        population = self.population - 1 if before else self.population
        values = np.ascontiguousarray(weights, dtype=np.float64)
        if population == 0:
            return np.zeros(self.load.size), 0.0
        expected = mva.weighted_queues(self.load, self.count, values, self.flows[: population + 1])
        by_load = mva.covariance_with_queues(self.load, self.flows, values, expected, population)
        by_delay = float(self.flows[population]) * self.delay * float(expected[population - 1] - expected[population])
        return by_load, by_delay

    def _throughputs(self) -> Iterator[Floats]:
        yield self.flows[:0:-1]


@final
@dataclass(frozen=True, eq=False)
class ContourNetwork(ClosedNetwork):
    """Solved by contour quadrature."""

    contour: Contour
    """The points and weights behind the numbers."""

    @classmethod
    def of(cls, load: Floats, count: Floats, population: int, delay: float) -> "ContourNetwork":
        """Solve on two contours and keep the first, in O(groups) time and memory."""
        contour, queue, before, error = certified(load, count, delay, population)
        now, past = contour.throughput(), contour.throughput(before=True)
        return cls(load, count, delay, population, now, past, queue, before, "contour", error, contour)

    @cached_property
    def throughput_by_population(self) -> Floats:
        """Return Lambda(c) from one contour per few hundred populations; only this quantity costs more as C grows."""
        return np.concatenate([*self._throughputs(), [0.0]])[::-1]

    def covariances(self) -> tuple[Floats, Floats]:
        """Return the same in O(groups^2)."""
        return self.contour.covariances()

    def throughput_gradient(self) -> Floats:
        """Return the same without subtracting two nearly equal queues."""
        return self.throughput * self.contour.change()

    def queue_gradient(self, weights: Floats, before: bool = False) -> tuple[Floats, float]:
        """Return the same in O(groups)."""
        if before and self.population == 1:
            return np.zeros(self.load.size), 0.0
        return self.contour.covariance_with(self.count, np.asarray(weights, dtype=np.float64), before)

    def _throughputs(self) -> Iterator[Floats]:
        return throughputs(self.load, self.count, self.delay, self.population)
