"""Descent over the free numbers of a family, by exact gradients (L-BFGS)."""

from collections.abc import Callable

import numpy as np

from sojourn.planning.bound.family import EDGE
from sojourn.planning.bound.objective import Prediction
from sojourn.planning.bound.problem import Problem
from sojourn.types import Floats

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
