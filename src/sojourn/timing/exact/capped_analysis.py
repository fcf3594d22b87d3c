"""Analysis of a plan under a cap: the same quantities as for the routed network, from the capped one."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.timing.exact.analysis import Analysis, Count, Reading
from sojourn.timing.exact.capped import CappedNetwork, capped_network
from sojourn.timing.exact.jackson import Solver
from sojourn.types import Floats

Wrt = Literal["sampling", "rate"]


@dataclass(frozen=True, eq=False, repr=False)
class CappedAnalysis(Analysis):
    """Exact stationary values for one client of each group, if clients may hold only a limited number of tasks."""

    network: CappedNetwork  # type: ignore[assignment]
    """The solved network behind the numbers."""

    @property
    def share(self) -> Floats:
        """Share of all updates that come from one client of each group (s_i); under a cap it differs from the sampling
        weight.
        """
        return self.network.share

    def staleness(self, reading: Reading = "conditional", count: Count = "between") -> Floats:
        """Mean staleness of one client of each group; reading `indicator` is the share times that."""
        self._check(reading, count)
        found = self.network.staleness + (1.0 if count == "inclusive" else 0.0)
        return np.asarray(found if reading == "conditional" else self.share * found)

    def queue_distribution(self, group: str) -> Floats:
        """P(x_i = k) of the tasks that one client of the group has in its queue or in service."""
        return self.network.queue_distribution(group)

    def queue_covariances(self) -> tuple[Floats, Floats]:
        """Variance of what one client holds by group, and covariance of two different clients by groups."""
        return self.network.covariances()

    def throughput_gradient(self, wrt: Wrt = "sampling") -> Floats:
        """Derivative of the throughput by w_j or mu_j of one client of each group."""
        return np.asarray(self.network.throughput_gradient(wrt) / self._unit(wrt))

    def staleness_gradient(self, weights: Floats, wrt: Wrt = "sampling") -> Floats:
        """Derivative of the sum of weights times conditional staleness, over all clients, by w_j or mu_j of one."""
        return np.asarray(self.network.staleness_gradient(weights, wrt) / self._unit(wrt))

    def _unit(self, wrt: Wrt) -> Floats:
        """Return the divisor that turns a derivative by a logarithm into a plain one."""
        return self.plan.sampling if wrt == "sampling" else self.fleet.rate

    def queue_gradient(self, weights: Floats, wrt: Wrt = "sampling") -> Floats:
        """Raise an error: this gradient is not implemented under a cap."""
        raise InvalidInput(
            "the gradient of queues under a cap is not implemented; leave the cap out, or take differences"
        )

    @property
    def exact_for_any_law(self) -> bool:
        """Whether the values depend only on mean durations, because no client holds two tasks."""
        return self.network.exact_for_any_law

    @property
    def exact(self) -> bool:
        """Whether the values are exact for this fleet: service is exponential, or no client holds two tasks."""
        return self.network.exact

    @property
    def solver(self) -> Solver:
        """How the network was solved: by an integral on a circle."""
        return "circle"


def analyze_capped(fleet: Fleet, plan: Plan, server_rate: float | None) -> CappedAnalysis:
    """Solve the network of a plan with a cap."""
    if server_rate is not None:
        raise InvalidInput(
            f"under a cap there is no exact theory of a server that takes time, got server_rate {server_rate:g}; "
            "simulate, or leave one of them out"
        )
    solved = capped_network(fleet, plan.sampling, plan.concurrency, plan.cap)
    values: dict[str, Any] = {key: getattr(solved, key) for key in ("throughput", "queue", "on_links", "sojourn")}
    return CappedAnalysis(
        fleet=fleet, plan=plan, network=solved, utilisation=solved.busy, waiting=solved.waiting, **values
    )
