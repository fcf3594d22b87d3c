"""A planning problem at any concurrency: fleet, objective, family of samplings and constraints; and what was found.

The free numbers of a family are descended by exact gradients (L-BFGS).
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

ROUNDING = 1e-12  # of n times a floor of 1/n
MET = 1e-6  # relative excess over the cap that counts as met
PRICE = 10.0  # of a relative excess over the cap, against a relative change of the value
POWERS = (0.0, 1.0, 0.5, -0.5)  # of speed, from which descents start


class Infeasible(InvalidInput):
    """No sampling was found that keeps the limits."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A fleet, an objective, a family of samplings and the constraints."""

    fleet: Fleet
    """The fleet."""
    objective: Objective
    """What is minimised."""
    family: Family
    """Where the sampling is looked for."""
    floor: float = 0.0
    """Least probability of every client."""
    most_staleness: float = np.inf
    """Largest mean staleness of every client."""
    only: tuple[Floats, ...] = ()
    """Free numbers to choose among; none = all that there are."""
    iterations: int = 2000
    """Most steps of one descent."""
    rough: bool = False
    """Whether a relative accuracy of 1e-10 of the value is enough, while looking around."""

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
        """The plan of these free numbers, and each client's share before the floor."""
        count = self.fleet.count.astype(np.float64)
        p, share = sampling(self.family.logs(free), count, self.floor)
        return Plan(self.fleet.name, self.fleet.count, p / (count * p).sum(), concurrency), share

    def predict(self, free: Floats, concurrency: int) -> Prediction:
        """What the objective expects of these free numbers."""
        return self.objective.predict(self.fleet, self.plan(free, concurrency)[0])

    def slope(self, by_sampling: Floats, share: Floats) -> Floats:
        """Derivative by the free numbers, from that by p of one client of each group."""
        count = self.fleet.count.astype(np.float64)
        return self.family.pull(slope_of_logs(by_sampling, share, count, self.floor))

    def starts(self, more: int, seed: int) -> list[Floats]:
        """Free numbers of uniform sampling, of powers of speed, and of `more` random ones."""
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
    """What is expected of it."""
    excess: float
    """Relative excess of the worst client over the cap on staleness; at most 1e-6 is met."""

    @property
    def value(self) -> float:
        """What is minimised; inf where the cap is not met."""
        return self.prediction.value if self.excess <= MET else np.inf

    @property
    def merit(self) -> float:
        """The logarithm of the value and a price for the excess: what a sampling near the cap is worth."""
        return float(np.log(self.prediction.value)) + PRICE * self.excess

    @property
    def order(self) -> tuple[float, float]:
        """The better of two is the one that comes first."""
        return self.value, self.excess


def judged(problem: Problem, concurrency: int, free: Floats) -> Candidate:
    """What these free numbers are worth."""
    prediction = problem.predict(free, concurrency)
    cap = problem.most_staleness
    over = 0.0 if np.isinf(cap) else float(prediction.analysis.staleness().max()) / max(cap, 1e-9) - 1
    return Candidate(free, prediction, max(0.0, over))


Target = Callable[[Prediction], tuple[float, Floats]]  # a value and its slope by p of one client of each group


def log_value(prediction: Prediction) -> tuple[float, Floats]:
    """The logarithm of what is minimised, and its slope by the sampling."""
    assert prediction.gradient is not None
    return float(np.log(prediction.value)), prediction.gradient / prediction.value


def descend(problem: Problem, concurrency: int, start: Floats, target: Target = log_value) -> Floats:
    """The free numbers in whose valley `start` lies, where `target` is least."""
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
