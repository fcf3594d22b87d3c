"""Exact analysis of a fleet under a plan: queues, utilisation, throughput, staleness, times, gradients.

Symbols: p_i sampling, mu_i rate, theta_i = p_i / mu_i, C concurrency, Lambda throughput. Client i's tasks are in its
queue (X_i), on its links, or at the server. By the arrival theorem a dispatched task finds the network with C - 1
tasks, and by Little's law over server steps E[staleness | sent to i] = E_{C-1}[tasks of i] / p_i; so
sum_i p_i staleness_i = C - 1.

All links together are one delay station, where no task waits. A busy server (rate mu_s) is one more queue, first come
first served, which every task passes after its uplink: load 1/mu_s. Of its E[X_s] tasks a share p_i is client i's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.frozen import Frozen, read_only
from sojourn.laws.law import EXPONENTIAL
from sojourn.plan import Plan, plan_for
from sojourn.tabular import Tabular
from sojourn.timing.exact.jackson import ClosedNetwork, Solver
from sojourn.types import Floats

Reading = Literal["conditional", "indicator"]
Count = Literal["between", "inclusive"]


@dataclass(frozen=True, eq=False, repr=False)
class Analysis(Frozen, Tabular):
    """Exact stationary values for one client of each group, for exponential service. Times are in seconds."""

    fleet: Fleet
    """The fleet analysed."""
    plan: Plan
    """The plan analysed."""
    network: ClosedNetwork
    """The solved network behind the numbers: a queue for each group, and last the server's queue if the server takes
    time.
    """
    throughput: float
    """Server steps per second (Lambda)."""
    queue: Floats
    """Mean number of tasks at a client, waiting or in service: E_C[X_i]."""
    on_links: Floats
    """Mean number of a client's tasks on its uplink and downlink."""
    utilisation: Floats
    """Probability that a client is busy."""
    sojourn: Floats
    """Mean time from dispatch to application."""
    waiting: Floats
    """Mean time spent waiting in the client's queue."""
    server_rate: float = np.inf
    """Updates that the server applies per second while it is busy; inf = the server takes no time."""
    server_queue: float = 0.0
    """Mean number of tasks at the server, waiting or being applied: E_C[X_s]."""
    server_utilisation: float = 0.0
    """Probability that the server is busy."""

    def __post_init__(self) -> None:
        for key in ("queue", "on_links", "utilisation", "sojourn", "waiting"):
            object.__setattr__(self, key, read_only(getattr(self, key)))

    def _title(self) -> str:
        many = f"{self.fleet.clients:,} clients and {self.plan.concurrency:,} tasks in flight"
        return f"Analysis of {many}: {self.throughput:.6g} updates per unit of time"

    def _table(self) -> dict[str, Any]:
        shown = {"name": self.fleet.name, "count": self.fleet.count, "sampling": self.plan.sampling}
        shown |= {key: getattr(self, key) for key in ("queue", "utilisation", "sojourn", "waiting")}
        return {**shown, "staleness": self.staleness()}

    def staleness(self, reading: Reading = "conditional", count: Count = "between") -> Floats:
        """Return the mean staleness of one client of each group, in updates.

        - `reading="conditional"`: of a task, given that it was sent to client i: E_{C-1}[tasks of i] / p_i
        - `reading="indicator"`: the paper's m_i, which contains the indicator that the task went to i: p_i times that
        - `count="between"`: updates applied strictly between dispatch and application, as in a Trace
        - `count="inclusive"`: one more, since the task's own update counts too
        """
        self._check(reading, count)
        p = self.plan.sampling
        on_links = self.network.throughput_before * p * self.fleet.link_time
        pending = self._clients(self.network.queue_before) + on_links + p * self._at_server(self.network.queue_before)
        indicator = pending + (p if count == "inclusive" else 0.0)
        return np.asarray(indicator / p if reading == "conditional" else indicator)

    @property
    def share(self) -> Floats:
        """Share of all updates that come from one client of each group (s_i); it is the sampling if tasks queue."""
        return self.plan.sampling

    @staticmethod
    def _check(reading: str, count: str) -> None:
        if reading not in ("conditional", "indicator"):
            raise InvalidInput(f"reading must be conditional or indicator, got '{reading}'")
        if count not in ("between", "inclusive"):
            raise InvalidInput(f"count must be between or inclusive, got '{count}'")

    def queue_distribution(self, group: str) -> Floats:
        """Return P(X_i = k), k = 0..C, for one client of the group."""
        return self.network.distribution(self.fleet.index(group))

    def queue_covariances(self) -> tuple[Floats, Floats]:
        """Return the variance of one client's queue by group, and the covariance of two different clients' queues by
        groups.
        """
        variance, pair = self.network.covariances()
        return self._clients(variance), pair[: self.fleet.groups, : self.fleet.groups]

    def throughput_gradient(self, wrt: Literal["sampling", "rate"] = "sampling") -> Floats:
        """Return the derivative of the throughput by p_j or mu_j of one client of each group.

        p is not renormalised: tasks visit client j more often, and the server as often as before.
        """
        link, total = _link_share(self)
        by_load = self._clients(self.network.throughput_gradient())
        by_delay = self.network.throughput_gradient_delay() * link / total if total else np.zeros_like(link)
        return _by(wrt, self, by_load, by_delay)

    def queue_gradient(self, weights: Floats, wrt: Literal["sampling", "rate"] = "sampling") -> Floats:
        """Return the derivative of sum_i w_i E[X_i] (w by group, sum over all clients) by one client's p_j or mu_j."""
        values = np.zeros(self.network.load.size)
        values[: self.fleet.groups] = weights
        return self._gradient(values, wrt, before=False)

    def staleness_gradient(self, weights: Floats, wrt: Literal["sampling", "rate"] = "sampling") -> Floats:
        """Return the derivative of sum_i w_i m_i (w by group, sum over all clients) by one client's p_j or mu_j.

        m_i is the indicator staleness: tasks of i in its queue, on its links and at the server. A task is on a link if
        it is in no queue; therefore the mean weight v of tasks on links is subtracted from every queue's weight.
        """
        p, link, w = self.plan.sampling, self.fleet.link_time, np.asarray(weights, dtype=np.float64)
        mass, delay = self.fleet.count * p * w, self.network.delay
        v = float((mass * link).sum()) / delay if delay else 0.0
        values = np.full(self.network.load.size, float(mass.sum()))
        values[: self.fleet.groups] = w
        through_queues = self._gradient(values - v, wrt, before=True)
        if wrt == "rate":
            return through_queues
        at_server = self._at_server(self.network.queue_before)
        return through_queues + self.network.throughput_before * link * (w - v) + w * at_server

    def _gradient(self, values: Floats, wrt: str, before: bool) -> Floats:
        link, total = _link_share(self)
        by_load, delay = self.network.queue_gradient(values, before=before)
        by_delay = delay * link / total if total else np.zeros_like(link)
        return _by(wrt, self, self._clients(by_load), by_delay)

    @property
    def exact_for_any_law(self) -> bool:
        """Whether the values depend only on mean durations; that needs a cap of 1."""
        return False

    @property
    def exact(self) -> bool:
        """Whether the values are exact for this fleet: every service time is exponential."""
        return all(law == EXPONENTIAL for law in self.fleet.law)

    @property
    def solver(self) -> Solver:
        """How the network was solved: mean value analysis, or contour quadrature."""
        return self.network.solver

    @property
    def error(self) -> float:
        """Relative error of the numbers: certified for contour quadrature, rounding for mean value analysis."""
        return self.network.error

    def _clients(self, values: Floats) -> Floats:
        return values[: self.fleet.groups]

    def _at_server(self, values: Floats) -> float:
        return float(values[self.fleet.groups :].sum())


def analyze(
    fleet: Fleet,
    plan: Plan,
    progress: Callable[[int, int], None] | None = None,
    *,
    server_rate: float | None = None,
    solver: Solver | None = None,
) -> Analysis:
    """Compute the exact stationary queues, throughput and staleness of `fleet` under `plan`.

    - `server_rate`: updates that the server applies per second, one at a time; by default applying takes no time
    - `solver`: `mva` (mean value analysis) or `contour` (contour quadrature); by default the quicker one that certifies
      its result

    Returns an Analysis. The values are exact for exponential service. A plan with a cap is solved by `capped_network`;
    with a cap of 1 the values are exact for any service law.

    >>> fleet = Fleet.of(first=(1, 1.0), second=(1, 2.0))
    >>> analysis = analyze(fleet, Plan.uniform(fleet, concurrency=3))
    >>> round(analysis.throughput, 6)
    1.866667
    >>> analysis.staleness().round(6)
    array([2.857143, 1.142857])
    """
    plan = plan_for(fleet, plan)
    if plan.capped:
        from sojourn.timing.exact.capped_analysis import analyze_capped

        return analyze_capped(fleet, plan, server_rate)
    p, mu, groups = plan.sampling, fleet.rate, fleet.groups
    link_time = fleet.link_time
    server = _server_time(server_rate)
    load = np.append(p / mu, server) if server else p / mu
    count = np.append(fleet.count, 1) if server else fleet.count
    delay = float((fleet.count * p * link_time).sum())
    network = ClosedNetwork.solve(load, count, plan.concurrency, delay, progress, solver)
    waiting = network.queue_before[:groups] / mu
    at_server = server * (1 + float(network.queue_before[groups:].sum()))
    return Analysis(
        fleet=fleet,
        plan=plan,
        network=network,
        throughput=network.throughput,
        queue=network.queue[:groups],
        on_links=network.throughput * p * link_time,
        utilisation=network.utilisation[:groups],
        sojourn=waiting + 1 / mu + link_time + at_server,
        waiting=waiting,
        server_rate=np.inf if server_rate is None else float(server_rate),
        server_queue=float(network.queue[groups:].sum()),
        server_utilisation=float(network.utilisation[groups:].sum()),
    )


def _server_time(rate: float | None) -> float:
    """Return the mean time that the server needs for an update; 0 = none."""
    if rate is None:
        return 0.0
    if not rate > 0:
        raise InvalidInput(f"server_rate must be positive, got {rate}; leave it out for a server that takes no time")
    return 1 / rate


def _link_share(analysis: Analysis) -> tuple[Floats, float]:
    """Return the part of the network's delay that one client of each group causes, and the whole delay."""
    return analysis.plan.sampling * analysis.fleet.link_time, analysis.network.delay


def _by(wrt: str, analysis: Analysis, by_load: Floats, by_delay: Floats) -> Floats:
    if wrt == "sampling":
        return (by_load + by_delay) / analysis.plan.sampling
    if wrt == "rate":
        return -by_load / analysis.fleet.rate
    raise InvalidInput(f"wrt must be sampling or rate, got '{wrt}'")
