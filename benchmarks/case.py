"""A case of the simulator's benchmark, and what every side of it must offer."""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sojourn import Analysis, Fleet, Law, Plan, analyze
from sojourn.timing.exact.capped import CappedNetwork, capped_network
from sojourn.timing.simulate.start import place


@dataclass(frozen=True)
class Case:
    """A fleet, uniform p, and C tasks; each client holds at most as many as the cap allows."""

    name: str
    fleet: Fleet
    concurrency: int
    start: str = "stationary"
    cap: int | None = None

    @property
    def plan(self) -> Plan:
        """Every client with the same probability."""
        return Plan.uniform(self.fleet, concurrency=self.concurrency, cap=self.cap)

    @property
    def exact(self) -> NDArray[np.float64]:
        """Mean staleness of one client of each group, exact where service is exponential."""
        return self._exponential.staleness() if self.cap is None else self._capped.staleness

    @property
    def throughput(self) -> float:
        """Server steps per unit of simulated time, exact where service is exponential."""
        return float((self._exponential if self.cap is None else self._capped).throughput)

    @property
    def _capped(self) -> CappedNetwork:
        return capped_network(replace(self.fleet, law=()), self.plan.sampling, self.concurrency, self.cap)

    @property
    def _exponential(self) -> Analysis:
        fleet = replace(self.fleet, law=())
        return analyze(fleet, Plan.uniform(fleet, concurrency=self.concurrency))

    @property
    def rates(self) -> list[float]:
        """Service rate of each client."""
        return self.fleet.rate[self.fleet.group_of_client].tolist()

    @property
    def laws(self) -> list[Law]:
        """Service law of each client."""
        return [self.fleet.law[group] for group in self.fleet.group_of_client]

    @property
    def warmup(self) -> int:
        """Steps until the initial tasks, whose age is not known, are forgotten."""
        return int(8 * (self.exact.max() + 1))

    def queues(self, seed: int) -> list[int]:
        """Tasks at each client at the beginning, placed as `start` says."""
        return place(self.start, self.fleet, self.plan, np.random.default_rng(seed)).tolist()


class Side(Protocol):
    """One simulator of a case, set up and warmed up; `advance` is what is timed."""

    name: str

    def advance(self, steps: int) -> int:
        """Continue for about `steps` server steps; return the steps done."""

    def tally(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return updates applied and the sum of their staleness by group, since the warm-up."""


CASES = (
    Case("n=10, C=1000", Fleet.of(fast=(5, 1.2), slow=(5, 1.0)), 1000),
    Case("n=100, C=100", Fleet.of(fast=(50, 4.0), slow=(50, 1.0)), 100),
)

ONE_EACH_CASES = (
    Case("n=100, C=50, cap 1", Fleet.of(fast=(90, 8.0), slow=(10, 1.0)), 50, cap=1),
    Case("n=1e6, C=3e5, cap 1", Fleet.of(fast=(900_000, 8.0), slow=(100_000, 1.0)), 300_000, "one-each", cap=1),
)

EVENT_CASES = tuple(
    Case(f"{case.name}, {law.name}", replace(case.fleet, law=(law,) * case.fleet.groups), case.concurrency, "even")
    for law in (Law("lognormal", 1.0), Law())
    for case in CASES
)
