"""An augmented Lagrangian for a cap on staleness; its multipliers are the weights of one staleness gradient.

It is for fleets of many groups, where only one gradient for all of them is affordable.
"""

from dataclasses import replace

import numpy as np

from sojourn.planning.bound.objective import Prediction
from sojourn.planning.bound.problem import MET, Candidate, Problem, Target, descend, judged, log_value
from sojourn.types import Floats

ROUNDS = 20  # rounds of multipliers
SETTLED = 1e-6  # relative change of the multipliers at which the rounds end
HARDER = 4.0  # factor of the penalty if the excess does not fall
POWERS = (10.0, 100.0, 1000.0)  # powers of the means that approximate the largest staleness
STEPS = 200  # steps for each of them


def best_in_valley(problem: Problem, concurrency: int, start: Floats) -> Candidate:
    """Return the sampling with the least value within the cap, in the valley of `start`."""
    cap, free = problem.most_staleness, start
    multiplier, strength = np.zeros(problem.fleet.groups), 1.0
    found = best = judged(problem, concurrency, free)
    for _ in range(ROUNDS):
        free = descend(problem, concurrency, free, _penalised(cap, multiplier, strength))
        before, found = found.excess, judged(problem, concurrency, free)
        best = min(best, found, key=lambda one: one.order)
        over = found.prediction.analysis.staleness() / cap - 1
        pushed = np.maximum(0.0, multiplier + strength * over)
        settled = np.abs(pushed - multiplier).sum() <= SETTLED * pushed.sum()
        if found.excess <= MET and settled:
            break
        multiplier = pushed
        strength *= HARDER if found.excess > 0.25 * before else 1.0
    return best


def _penalised(cap: float, multiplier: Floats, strength: float) -> Target:
    """Return the logarithm of the value plus the terms for staleness_i / cap - 1 <= 0 of every group."""

    def target(prediction: Prediction) -> tuple[float, Floats]:
        value, by_sampling = log_value(prediction)
        analysis = prediction.analysis
        p, m = analysis.plan.sampling, analysis.staleness("indicator")
        push = np.maximum(0.0, multiplier + strength * (m / p / cap - 1))
        penalty = float((push**2 - multiplier**2).sum()) / (2 * strength)
        per_client = push / analysis.fleet.count  # one constraint per group; the gradient sums over clients
        slope = analysis.staleness_gradient(per_client / p / cap) - per_client * m / p**2 / cap
        return value + penalty, by_sampling + slope

    return target


def least_staleness(problem: Problem, concurrency: int, start: Floats) -> Floats:
    """Return the free numbers whose largest staleness is least in the valley of `start`, by means
    of increasing powers.
    """
    free, quick = start, replace(problem, iterations=STEPS)
    for power in POWERS:
        free = descend(quick, concurrency, free, _power_mean(power))
    return free


def _power_mean(power: float) -> Target:
    """Return the logarithm of (sum over the groups of staleness^power)^(1 / power)."""

    def target(prediction: Prediction) -> tuple[float, Floats]:
        analysis = prediction.analysis
        p, m = analysis.plan.sampling, analysis.staleness("indicator")
        largest = (m / p).max()
        parts = (m / p / largest) ** power
        per_client = parts / parts.sum() / analysis.fleet.count
        slope = analysis.staleness_gradient(per_client / m) - per_client / p
        return float(np.log(largest) + np.log(parts.sum()) / power), np.asarray(slope)

    return target
