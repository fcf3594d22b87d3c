"""A case of the simulator's benchmark, and what every side of it must offer."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sojourn import Fleet, Plan, analyze
from sojourn.simulation.start import place


@dataclass(frozen=True)
class Case:
    """A fleet with exponential service, uniform p, and C tasks."""

    name: str
    fleet: Fleet
    concurrency: int

    @property
    def plan(self) -> Plan:
        """Every client with the same probability."""
        return Plan.uniform(self.fleet, concurrency=self.concurrency)

    @property
    def exact(self) -> NDArray[np.float64]:
        """Exact mean staleness of one client of each group."""
        return analyze(self.fleet, self.plan).staleness()

    @property
    def throughput(self) -> float:
        """Exact server steps per unit of simulated time."""
        return float(analyze(self.fleet, self.plan).throughput)

    @property
    def rates(self) -> list[float]:
        """Service rate of each client."""
        return self.fleet.rate[self.fleet.group_of_client].tolist()

    @property
    def warmup(self) -> int:
        """Steps until the initial tasks, whose age is not known, are forgotten."""
        return int(8 * (self.exact.max() + 1))

    def queues(self, seed: int) -> list[int]:
        """Tasks at each client at the beginning, drawn from the stationary law."""
        return place("stationary", self.fleet, self.plan, np.random.default_rng(seed)).tolist()


class Side(Protocol):
    """One simulator of a case, set up and warmed up; `advance` is what is timed."""

    name: str

    def advance(self, steps: int) -> int:
        """Go on for about `steps` server steps; returns the steps done."""

    def tally(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Updates applied and sum of their staleness by group, since the warm-up."""


CASES = (
    Case("n=10, C=1000", Fleet.of(fast=(5, 1.2), slow=(5, 1.0)), 1000),
    Case("n=100, C=100", Fleet.of(fast=(50, 4.0), slow=(50, 1.0)), 100),
)
