"""What a plan means for a fleet, exactly: queues, utilisation, throughput, staleness, times, gradients.

Symbols: p_i sampling, mu_i rate, theta_i = p_i / mu_i, C concurrency, Lambda throughput. Client i's tasks are in its
queue (X_i) or on its links. By the arrival theorem a dispatched task finds the network with C - 1 tasks, and by
Little's law over server steps E[staleness | sent to i] = E_{C-1}[tasks of i] / p_i; so sum_i p_i staleness_i = C - 1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.law import EXPONENTIAL
from sojourn.plan import Plan
from sojourn.theory.jackson import ClosedNetwork

Floats = NDArray[np.float64]
Reading = Literal["conditional", "indicator"]
Count = Literal["between", "inclusive"]


@dataclass(frozen=True, eq=False)
class Analysis:
    """Exact stationary values for one client of each group (exact for exponential service)."""

    fleet: Fleet
    """The fleet analysed."""
    plan: Plan
    """The plan analysed."""
    network: ClosedNetwork
    """The solved network behind the numbers."""
    throughput: float
    """Server steps per unit of time (Lambda)."""
    queue: Floats
    """Mean number of tasks at a client, waiting or in service: E_C[X_i]."""
    on_links: Floats
    """Mean number of a client's tasks on its uplink and downlink."""
    utilisation: Floats
    """Probability that a client is busy."""
    sojourn: Floats
    """Mean clock time from dispatch to application."""
    waiting: Floats
    """Mean clock time spent waiting in the client's queue."""

    def staleness(self, reading: Reading = "conditional", count: Count = "between") -> Floats:
        """Mean staleness of one client of each group.

        reading `conditional`: of a task, given that it was sent to i: E_{C-1}[tasks of i] / p_i.
        reading `indicator`: the paper's m_i, which carries the indicator that the task went to i: p_i times that.
        count `between`: updates applied strictly between dispatch and application (the Trace's staleness).
        count `inclusive`: one more, the task's own update counted too.
        """
        if reading not in ("conditional", "indicator"):
            raise InvalidInput(f"reading must be conditional or indicator, got '{reading}'")
        if count not in ("between", "inclusive"):
            raise InvalidInput(f"count must be between or inclusive, got '{count}'")
        p = self.plan.sampling
        pending = self.network.queue_before + self.network.throughput_before * p * _link_time(self.fleet)
        indicator = pending + (p if count == "inclusive" else 0.0)
        return np.asarray(indicator / p if reading == "conditional" else indicator)

    def queue_distribution(self, group: str) -> Floats:
        """P(X_i = k), k = 0..C, for one client of the group."""
        return self.network.distribution(self.fleet.index(group))

    def queue_covariances(self) -> tuple[Floats, Floats]:
        """Variance of one client's queue by group, and covariance of two different clients' queues by groups."""
        return self.network.covariances()

    def throughput_gradient(self, wrt: Literal["sampling", "rate"] = "sampling") -> Floats:
        """Derivative of the throughput by p_j or mu_j of one client of each group (p not renormalised)."""
        link, total = _link_share(self)
        by_load = self.network.throughput_gradient()
        by_delay = self.network.throughput_gradient_delay() * link / total if total else np.zeros_like(link)
        return _by(wrt, self, by_load, by_delay)

    def queue_gradient(
        self, weights: Floats, wrt: Literal["sampling", "rate"] = "sampling", arriving: bool = False
    ) -> Floats:
        """Derivative of sum_i w_i E[X_i] (w given by group, summed over all clients) by one client's p_j or mu_j.

        With `arriving`, of sum_i w_i E_{C-1}[X_i]: for a fleet without links the indicator staleness.
        """
        link, total = _link_share(self)
        by_load, delay = self.network.queue_gradient(np.asarray(weights, dtype=np.float64), before=arriving)
        by_delay = delay * link / total if total else np.zeros_like(link)
        return _by(wrt, self, by_load, by_delay)

    @property
    def exact(self) -> bool:
        """Whether the numbers are exact for this fleet: every service time exponential."""
        return all(law == EXPONENTIAL for law in self.fleet.law)


def analyze(fleet: Fleet, plan: Plan, progress: Callable[[int, int], None] | None = None) -> Analysis:
    """Solve the closed network of `fleet` under `plan`.

    >>> fleet = Fleet.of(first=(1, 1.0), second=(1, 2.0))
    >>> analysis = analyze(fleet, Plan.uniform(fleet, concurrency=3))
    >>> round(analysis.throughput, 6)
    1.866667
    >>> analysis.staleness().round(6)
    array([2.857143, 1.142857])
    """
    plan.check(fleet)
    p, mu, count = plan.sampling, fleet.rate, fleet.count
    link_time = _link_time(fleet)
    delay = float((count * p * link_time).sum())
    network = ClosedNetwork.solve(p / mu, count, plan.concurrency, delay, progress)
    waiting = network.queue_before / mu
    return Analysis(
        fleet=fleet,
        plan=plan,
        network=network,
        throughput=network.throughput,
        queue=network.queue,
        on_links=network.throughput * p * link_time,
        utilisation=network.utilisation,
        sojourn=waiting + 1 / mu + link_time,
        waiting=waiting,
    )


def _link_time(fleet: Fleet) -> Floats:
    return 1 / fleet.uplink_rate + 1 / fleet.downlink_rate


def _link_share(analysis: Analysis) -> tuple[Floats, float]:
    """Part of the network's delay that one client of each group causes, and the whole delay."""
    return analysis.plan.sampling * _link_time(analysis.fleet), analysis.network.delay


def _by(wrt: str, analysis: Analysis, by_load: Floats, by_delay: Floats) -> Floats:
    if wrt == "sampling":
        return (by_load + by_delay) / analysis.plan.sampling
    if wrt == "rate":
        return -by_load / analysis.fleet.rate
    raise InvalidInput(f"wrt must be sampling or rate, got '{wrt}'")
