"""A planning problem at any concurrency (fleet, objective, family of samplings, constraints), and its candidates.

The free numbers of a family are optimised by exact gradients (L-BFGS).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.planning.bound.family import EDGE, Family, sampling, slope_of_logs
from sojourn.planning.bound.objective import Objective, Prediction
from sojourn.types import Floats

ROUNDING = 1e-12  # rounding error of n times a floor of 1/n
MET = 1e-6  # up to this relative excess the cap counts as met
PRICE = 10.0  # weight of a relative excess over the cap against a relative change of the value
POWERS = (0.0, 1.0, 0.5, -0.5)  # powers of speed from which descents start


class Infeasible(InvalidInput):
    """No sampling was found that keeps the limits."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A fleet, an objective, a family of samplings and the constraints."""

    fleet: Fleet
    """The fleet."""
    objective: Objective
    """The objective to minimise."""
    family: Family
    """The family in which to search the sampling."""
    floor: float = 0.0
    """Smallest probability of any client."""
    most_staleness: float = np.inf
    """Largest mean staleness of any client."""
    only: tuple[Floats, ...] = ()
    """Free numbers to choose among; empty = all."""
    iterations: int = 2000
    """Most steps of one descent."""
    rough: bool = False
    """Whether a relative accuracy of 1e-10 of the value is enough during the search."""

    def __post_init__(self) -> None:
        n = self.fleet.clients
        if not 0 <= self.floor * n <= 1 + ROUNDING:
            raise InvalidInput(
                f"floor must lie between 0 and 1/n = {1 / n:g}, got {self.floor}; {n} clients cannot all have it"
            )
        if not self.most_staleness >= 0:
            raise InvalidInput(f"most_staleness must not be negative, got {self.most_staleness}")

    @property
    def fixed(self) -> bool:
        """Whether there is only one sampling to choose."""
        return self.family.size == 1 and bool(np.ptp(self.family.logs(np.ones(1))) == 0)

    def plan(self, free: Floats, concurrency: int) -> tuple[Plan, Floats]:
        """Return the plan of these free numbers, and each client's share before the floor."""
        count = self.fleet.count.astype(np.float64)
        p, share = sampling(self.family.logs(free), count, self.floor)
        return Plan(self.fleet.name, self.fleet.count, p / (count * p).sum(), concurrency), share

    def predict(self, free: Floats, concurrency: int) -> Prediction:
        """Return the objective's prediction for these free numbers."""
        return self.objective.predict(self.fleet, self.plan(free, concurrency)[0])

    def slope(self, by_sampling: Floats, share: Floats) -> Floats:
        """Return the derivative by the free numbers, from that by p of one client of each group."""
        count = self.fleet.count.astype(np.float64)
        return self.family.pull(slope_of_logs(by_sampling, share, count, self.floor))

    def starts(self, more: int, seed: int) -> list[Floats]:
        """Return free numbers of uniform sampling, of powers of speed, and `more` random ones."""
        logs, mass = np.log(self.fleet.rate), self.fleet.count.astype(np.float64)
        rng = np.random.default_rng(seed)
        found = [self.family.nearest(power * logs, mass) for power in POWERS]
        base = found[0]
        return [*found, *(base + rng.normal(0.0, 1.0, base.size) for _ in range(more))]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A sampling at one concurrency."""

    free: Floats
    """The free numbers."""
    prediction: Prediction
    """The prediction for it."""
    excess: float
    """Relative excess of the worst client over the cap on staleness; up to 1e-6 the cap counts as met."""

    @property
    def value(self) -> float:
        """The value of the objective; inf if the cap is not met."""
        return self.prediction.value if self.excess <= MET else np.inf

    @property
    def merit(self) -> float:
        """The logarithm of the value plus a penalty for the excess, to compare samplings near the cap."""
        return float(np.log(self.prediction.value)) + PRICE * self.excess

    @property
    def order(self) -> tuple[float, float]:
        """Sort key: of two candidates the better one comes first."""
        return self.value, self.excess


def judged(problem: Problem, concurrency: int, free: Floats) -> Candidate:
    """Return the candidate of these free numbers."""
    prediction = problem.predict(free, concurrency)
    cap = problem.most_staleness
    over = 0.0 if np.isinf(cap) else float(prediction.analysis.staleness().max()) / max(cap, 1e-9) - 1
    return Candidate(free, prediction, max(0.0, over))


Target = Callable[[Prediction], tuple[float, Floats]]  # a value and its slope by p of one client of each group


def log_value(prediction: Prediction) -> tuple[float, Floats]:
    """Return the logarithm of the value, and its slope by the sampling."""
    assert prediction.gradient is not None
    return float(np.log(prediction.value)), prediction.gradient / prediction.value


def descend(problem: Problem, concurrency: int, start: Floats, target: Target = log_value) -> Floats:
    """Return the free numbers with the least `target` in the valley of `start`."""
    from scipy.optimize import minimize

    if problem.fixed:
        return start

    def at(free: Floats) -> tuple[float, Floats]:
        plan, share = problem.plan(free, concurrency)
        value, by_sampling = target(problem.objective.predict(problem.fleet, plan, gradient=True))
        return value, problem.slope(by_sampling, share)

    ends = {"ftol": 1e-11, "gtol": 1e-6} if problem.rough else {"ftol": 1e-15, "gtol": 1e-9}
    options = {"maxiter": problem.iterations, "maxfun": 2 * problem.iterations, "maxcor": 20, **ends}
    bounds = [(-EDGE, EDGE)] * problem.family.size
    result = minimize(at, np.clip(start, -EDGE, EDGE), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(result.x)
