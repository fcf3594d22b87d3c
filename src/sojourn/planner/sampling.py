"""The best sampling of a family at a given concurrency, by exact gradients from several starts.

The logarithm of the value is minimised over the free numbers by L-BFGS. A cap on staleness is met by an augmented
Lagrangian: its multipliers enter as weights of one more staleness gradient.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.planner.family import EDGE, Family, sampling, slope_of_logs
from sojourn.planner.objective import Objective, Prediction

Floats = NDArray[np.float64]

ROUNDS = 12  # of multipliers
MET = 1e-6  # relative excess over the cap that counts as met


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
        if not 0 <= self.floor * n < 1:
            raise InvalidInput(
                f"floor must lie between 0 and 1/n = {1 / n:g}, got {self.floor}; {n} clients cannot all have it"
            )
        if not self.most_staleness >= 0:
            raise InvalidInput(f"most_staleness must not be negative, got {self.most_staleness}")

    def plan(self, free: Floats, concurrency: int) -> tuple[Plan, Floats]:
        """The plan of these free numbers, and each client's share before the floor."""
        count = self.fleet.count.astype(np.float64)
        p, share = sampling(self.family.logs(free), count, self.floor)
        return Plan(self.fleet.name, self.fleet.count, p / (count * p).sum(), concurrency), share

    def predict(self, free: Floats, concurrency: int) -> Prediction:
        """What the objective expects of these free numbers."""
        return self.objective.predict(self.fleet, self.plan(free, concurrency)[0])

    def starts(self, more: int, seed: int) -> list[Floats]:
        """Free numbers of uniform sampling, of powers of speed, and of `more` random ones."""
        logs, mass = np.log(self.fleet.rate), self.fleet.count.astype(np.float64)
        rng = np.random.default_rng(seed)
        found = [self.family.nearest(power * logs, mass) for power in (0.0, 1.0, 0.5, -0.5)]
        base = found[0]
        return [*found, *(base + rng.normal(0.0, 1.0, base.size) for _ in range(more))]


@dataclass(frozen=True, eq=False)
class Found:
    """A best sampling at one concurrency."""

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


def best_sampling(problem: Problem, concurrency: int, starts: Iterable[Floats]) -> Found:
    """The best of the descents from these starts, or of the few that there are to choose among."""
    if problem.only:
        tried = (_found(problem, concurrency, free) for free in problem.only)
        return min(tried, key=lambda one: (one.value, one.excess))
    found = [_constrained(problem, concurrency, start) for start in starts]
    return min(found, key=lambda one: (one.value, one.excess))


def _constrained(problem: Problem, concurrency: int, start: Floats) -> Found:
    cap = problem.most_staleness
    free = _descend(problem, concurrency, start)
    found = _found(problem, concurrency, free)
    if found.excess <= MET or concurrency - 1 > cap * (1 + MET):  # sum_i p_i staleness_i = C - 1: no sampling helps
        return found
    multiplier, strength = np.zeros(problem.fleet.groups), 1.0
    for _ in range(ROUNDS):
        free = _descend(problem, concurrency, free, multiplier, strength)
        found, before = _found(problem, concurrency, free), found.excess
        if found.excess <= MET:
            break
        over = found.prediction.analysis.staleness() / max(cap, 1e-9) - 1
        multiplier = np.maximum(0.0, multiplier + strength * over)
        strength *= 4.0 if found.excess > 0.25 * before else 1.0
    return found


def _found(problem: Problem, concurrency: int, free: Floats) -> Found:
    prediction = problem.predict(free, concurrency)
    cap = problem.most_staleness
    over = 0.0 if np.isinf(cap) else float(prediction.analysis.staleness().max()) / max(cap, 1e-9) - 1
    return Found(free, prediction, max(0.0, over))


def _descend(
    problem: Problem, concurrency: int, start: Floats, multiplier: Floats | None = None, strength: float = 0.0
) -> Floats:
    from scipy.optimize import minimize

    fleet, family = problem.fleet, problem.family
    if family.size == 1 and np.ptp(family.logs(np.ones(1))) == 0:  # nothing to choose
        return start
    count = fleet.count.astype(np.float64)

    def target(free: Floats) -> tuple[float, Floats]:
        plan, share = problem.plan(free, concurrency)
        prediction = problem.objective.predict(fleet, plan, gradient=True)
        assert prediction.gradient is not None
        value, by_sampling = np.log(prediction.value), prediction.gradient / prediction.value
        if multiplier is not None:
            penalty, slope = _penalty(prediction, problem.most_staleness, multiplier, strength)
            value, by_sampling = value + penalty, by_sampling + slope
        return value, family.pull(slope_of_logs(by_sampling, share, count, problem.floor))

    ends = {"ftol": 1e-11, "gtol": 1e-6} if problem.rough else {"ftol": 1e-15, "gtol": 1e-9}
    options = {"maxiter": problem.iterations, "maxfun": 2 * problem.iterations, "maxcor": 20, **ends}
    bounds = [(-EDGE, EDGE)] * family.size
    result = minimize(target, np.clip(start, -EDGE, EDGE), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(result.x)


def _penalty(prediction: Prediction, cap: float, multiplier: Floats, strength: float) -> tuple[float, Floats]:
    """The augmented Lagrangian's terms for staleness_i / cap - 1 <= 0 of every group, and their slope by p."""
    analysis, cap = prediction.analysis, max(cap, 1e-9)
    p, m = analysis.plan.sampling, analysis.staleness("indicator")
    push = np.maximum(0.0, multiplier + strength * (m / p / cap - 1))
    penalty = float((push**2 - multiplier**2).sum()) / (2 * strength)
    per_client = push / analysis.fleet.count  # one constraint a group, the gradient sums over clients
    slope = analysis.staleness_gradient(per_client / p / cap) - per_client * m / p**2 / cap
    return penalty, np.asarray(slope)
