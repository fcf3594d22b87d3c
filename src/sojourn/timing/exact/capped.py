"""The exact stationary network in which each client may hold only a limited number of tasks.

Symbols: w_i sampling weight, mu_i rate, b_i cap, C concurrency, x_i tasks held by client i: on its way down, queued, in
service, on the way up. A finished task is followed by one for client j with probability proportional to w_j among the
clients with room; the finisher's place is free before the draw. Without links

    pi(x) ~ prod (w_i / mu_i)^(x_i),   sum x = C,  x_i <= b_i

and with links the factors are those of `held`. lambda_i is the rate at which tasks are sent to i, Lambda the sum,
s_i = lambda_i / Lambda the share of i, which is not w_i. At a completion the C - 1 other tasks Y have a law
proportional to prod f_i(y_i) W(y), W the weights of all with room, and staleness of i = E[Y_i] / s_i, so that
sum_i s_i staleness_i = C - 1. Caps of C and more never bind; then it is the routed network with p = w.

A network with all caps 1 has these values for any law of service and links with the same means.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.frozen import Frozen, read_only
from sojourn.laws.law import EXPONENTIAL
from sojourn.plan import check_concurrency
from sojourn.tabular import Tabular
from sojourn.timing.exact.circle import FIRST, SECOND, Circle, circle
from sojourn.timing.exact.circle_moments import covariances, gradient, held_law, queue_law
from sojourn.timing.exact.held import NONE, Factors
from sojourn.types import Floats, Integers

Caps = int | float | ArrayLike | None
By = Literal["sampling", "rate"]


@dataclass(frozen=True, eq=False, repr=False)
class CappedNetwork(Frozen, Tabular):
    """Exact stationary values for one client of each group."""

    fleet: Fleet
    """The fleet."""
    weights: Floats
    """w of one client of each group."""
    concurrency: int
    """Tasks in flight (C)."""
    cap: Integers
    """Most tasks that a client of each group may hold; at most C, where a cap no longer binds."""
    circle: Circle
    """The points from which the values are computed."""
    entries: Floats
    """Tasks sent to a client per second: lambda_i."""
    held: Floats
    """Mean number of a client's tasks, wherever they are: E[x_i]."""
    queue: Floats
    """Mean number of tasks at a client, waiting or in service."""
    pending: Floats
    """lambda_i times the mean staleness of i."""
    error: float
    """Certified relative error: the largest difference from a second circle with other points, or from a known sum."""

    def __post_init__(self) -> None:
        for key in ("weights", "cap", "entries", "held", "queue", "pending"):
            object.__setattr__(self, key, read_only(getattr(self, key)))

    def _title(self) -> str:
        many = f"{self.fleet.clients:,} clients and {self.concurrency:,} tasks in flight"
        return f"Capped network of {many}: {self.throughput:.6g} updates per unit of time"

    def _table(self) -> dict[str, Any]:
        shown = {"name": self.fleet.name, "count": self.fleet.count, "weight": self.weights, "cap": self.cap}
        keys = ("share", "busy", "queue", "on_links", "sojourn", "waiting", "staleness")
        return {**shown, **{key: getattr(self, key) for key in keys}}

    @property
    def throughput(self) -> float:
        """Server steps per second: Lambda."""
        return float((self.fleet.count * self.entries).sum())

    @property
    def share(self) -> Floats:
        """Share of one client in all updates: s_i."""
        return np.asarray(self.entries / self.throughput)

    @property
    def busy(self) -> Floats:
        """Probability that a client is computing: lambda_i / mu_i."""
        return np.asarray(self.entries / self.fleet.rate)

    @property
    def on_links(self) -> Floats:
        """Mean number of a client's tasks on its links."""
        return np.asarray(self.entries * self.fleet.link_time)

    @property
    def sojourn(self) -> Floats:
        """Mean time in seconds from dispatch to application."""
        return np.asarray(self.held / self.entries)

    @property
    def waiting(self) -> Floats:
        """Mean time in seconds spent waiting in the client's queue; 0 with a cap of 1."""
        waits = np.maximum(self.queue / self.entries - 1 / self.fleet.rate, 0.0)
        return np.where(self.cap == 1, 0.0, waits)

    @property
    def staleness(self) -> Floats:
        """Mean number of updates applied strictly between a task's dispatch and its own, given that i has the task."""
        return np.asarray(self.pending / self.entries)

    @property
    def exact_for_any_law(self) -> bool:
        """Whether the values depend only on the means of service and links, because no client holds two tasks."""
        return bool((self.cap == 1).all())

    @property
    def exact(self) -> bool:
        """Whether the values are exact for this fleet: service is exponential wherever a client may hold two tasks."""
        return all(law == EXPONENTIAL for law, cap in zip(self.fleet.law, self.cap, strict=True) if cap > 1)

    def held_distribution(self, group: str) -> Floats:
        """P(x_i = k), k = 0..cap: a client's tasks wherever they are. Absolute accuracy, about 1e-15."""
        index = self.fleet.index(group)
        return held_law(self.circle, index, int(self.cap[index]))

    def queue_distribution(self, group: str) -> Floats:
        """Return the same for a client's tasks that wait or are in service."""
        index = self.fleet.index(group)
        on_links = float(self.fleet.rate[index] * self.fleet.link_time[index])
        return queue_law(self.held_distribution(group), on_links)

    def covariances(self) -> tuple[Floats, Floats]:
        """Variance of the tasks that one client holds by group, and covariance of two different clients by groups."""
        return covariances(self.circle, self.held)

    def gradient(
        self,
        by: By = "sampling",
        *,
        entries: ArrayLike = 0.0,
        pending: ArrayLike = 0.0,
        held: ArrayLike = 0.0,
    ) -> Floats:
        """Derivative of sum_i a_i lambda_i + b_i lambda_i staleness_i + h_i E[x_i], over all clients.

        a, b and h are `entries`, `pending` and `held`, by group. The derivative is by log w_j or log mu_j of one client
        of each group: divide it by w_j or mu_j for the derivative by w_j or mu_j themselves.
        """
        if by not in ("sampling", "rate"):
            raise InvalidInput(f"by must be sampling or rate, got '{by}'")
        a, b, h = (np.broadcast_to(np.asarray(x, np.float64), (self.fleet.groups,)) for x in (entries, pending, held))
        if self.concurrency == 1:
            b = np.zeros_like(b)
        return gradient(self.circle, by == "rate", a, b, h, self.held)

    def throughput_gradient(self, by: By = "sampling") -> Floats:
        """Derivative of Lambda by log w_j or log mu_j of one client of each group.

        By log w_j it is lambda_j (staleness_j + 1) - Lambda E[x_j].
        """
        return self.gradient(by, entries=1.0)

    def share_gradient(self, values: ArrayLike, by: By = "sampling") -> Floats:
        """Derivative of sum_i v_i s_i over all clients, v by group."""
        v = np.asarray(values, dtype=np.float64)
        mean = float((self.fleet.count * v * self.share).sum())
        return self.gradient(by, entries=(v - mean) / self.throughput)

    def staleness_gradient(self, values: ArrayLike, by: By = "sampling") -> Floats:
        """Derivative of sum_i v_i staleness_i over all clients, v by group."""
        each = np.asarray(values, dtype=np.float64) / self.entries
        return self.gradient(by, entries=-each * self.staleness, pending=each)


def capped_network(fleet: Fleet, weights: ArrayLike, concurrency: int, cap: Caps = None) -> CappedNetwork:
    """Solve the network of `fleet` with these sampling weights, tasks in flight and caps.

    `weights` has one value per group, the weight of each of its clients, in any scale. `cap` is one number for all
    clients or one per group; None or inf = no cap.

    >>> fleet = Fleet.of(fast=(90, 8.0), slow=(10, 1.0))
    >>> solved = capped_network(fleet, [1.0, 1.0], concurrency=50, cap=1)
    >>> round(solved.throughput, 6)
    338.866946
    >>> solved.staleness.round(6)
    array([ 41.380843, 337.017363])
    """
    check_concurrency(concurrency)
    w = _weights(fleet, weights)
    limit = caps(fleet, cap, concurrency)
    room = float((fleet.count * limit.astype(np.float64)).sum())
    if room < concurrency:
        raise InvalidInput(
            f"concurrency must be at most the sum of the caps of all clients, got {concurrency} > {room:.0f}; "
            "raise the cap or lower the concurrency"
        )
    free = np.where((limit == concurrency) & (limit > 1), NONE, limit)
    factors = Factors.of(w / w.max(), fleet.rate, fleet.link_time, fleet.count, free)
    at = factors.saddle(concurrency)
    first = circle(factors, concurrency, at, FIRST)
    held, queue, entries, pending = first.means()
    if concurrency == 1:
        pending = np.zeros_like(pending)  # no other task is in flight
    seen = (held, entries, pending + entries)
    second = circle(factors, concurrency, at, SECOND).means()
    other = (second[0], second[2], second[3] * (concurrency > 1) + second[2])
    apart = [float(np.abs(theirs / ours - 1).max()) for ours, theirs in zip(seen, other, strict=True)]
    flow = float((fleet.count * entries).sum())
    defects = [(fleet.count * held).sum() / concurrency - 1, (fleet.count * seen[2]).sum() / concurrency / flow - 1]
    error = max(*apart, *(abs(float(defect)) for defect in defects))
    return CappedNetwork(fleet, w, int(concurrency), limit, first, entries, held, queue, pending, error)


def caps(fleet: Fleet, cap: Caps, concurrency: int) -> Integers:
    """Return the cap of each group as a whole number, at most C."""
    given = np.asarray(np.inf if cap is None else cap)
    if given.dtype == object:
        given = np.array([np.inf if one is None else one for one in given.ravel().tolist()])
    values = np.asarray(given, dtype=np.float64)
    if values.ndim and values.shape != (fleet.groups,):
        raise InvalidInput(f"cap must be one number or one for each of {fleet.groups} groups, got {values.size}")
    each = np.broadcast_to(values, (fleet.groups,))
    wrong = ~((each >= 1) & ((each == np.floor(each)) | np.isinf(each)))
    if wrong.any():
        bad = int(np.argmax(wrong))
        raise InvalidInput(
            f"cap of group '{fleet.name[bad]}' must be a whole number of at least 1, got {each[bad]:g}; "
            "leave it out for no cap"
        )
    return np.minimum(each, concurrency).astype(np.int64)


def _weights(fleet: Fleet, weights: ArrayLike) -> Floats:
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (fleet.groups,):
        raise InvalidInput(f"weights must have one value for each of {fleet.groups} groups, got {w.size}")
    wrong = ~(np.isfinite(w) & (w > 0))
    if wrong.any():
        bad = int(np.argmax(wrong))
        raise InvalidInput(
            f"weight of group '{fleet.name[bad]}' must be positive and finite, got {w[bad]}; "
            "a client that is never sampled must leave the fleet"
        )
    return w
