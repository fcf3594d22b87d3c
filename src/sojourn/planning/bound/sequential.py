"""Sequential quadratic programming under a cap on staleness; every group's staleness is a separate constraint.

It is for fleets of few groups, where it is affordable to compute the gradient of every group's staleness.
"""

from typing import Any, NamedTuple

import numpy as np

from sojourn.planning.bound.family import EDGE
from sojourn.planning.bound.objective import Prediction
from sojourn.planning.bound.problem import Problem, log_value
from sojourn.types import Floats

STEPS = 300  # most steps
NEAR = 1.0  # above this logarithm of cap / staleness a group's gradient is not needed


class _Looked(NamedTuple):
    value: float
    """Logarithm of the value."""
    slope: Floats
    """Its derivatives by the free numbers."""
    room: Floats
    """log(cap / staleness) of each group."""
    room_slope: Floats
    """Its derivatives by the free numbers, one row per group; zero if the staleness is far below the cap."""


class _Sight:
    """Evaluates free numbers. The last result is kept, because its parts are requested one by one."""

    def __init__(self, problem: Problem, concurrency: int) -> None:
        self._problem, self._concurrency = problem, concurrency
        self._last: tuple[bytes, _Looked] | None = None

    def __call__(self, free: Floats) -> _Looked:
        key = free.tobytes()
        if self._last is None or key != self._last[0]:
            self._last = key, self._look(free)
        return self._last[1]

    def _look(self, free: Floats) -> _Looked:
        problem = self._problem
        plan, share = problem.plan(free, self._concurrency)
        prediction = problem.objective.predict(problem.fleet, plan, gradient=True)
        value, by_sampling = log_value(prediction)
        room = np.log(problem.most_staleness / prediction.analysis.staleness())
        rows = np.zeros((room.size, free.size))
        for group in np.flatnonzero(room < NEAR):
            rows[group] = -problem.slope(_slope(prediction, int(group)), share)
        return _Looked(value, problem.slope(by_sampling, share), room, rows)


def _slope(prediction: Prediction, group: int) -> Floats:
    """Return the derivative of a group's log staleness by p of one client of each group."""
    analysis = prediction.analysis
    p, m, count = analysis.plan.sampling, analysis.staleness("indicator"), analysis.fleet.count
    one = np.zeros(count.size)
    one[group] = 1 / count[group]  # the gradient sums over clients
    return np.asarray(analysis.staleness_gradient(one / m) - one / p)


def best_in_valley(problem: Problem, concurrency: int, start: Floats, steps: int = STEPS) -> Floats:
    """Return the free numbers with the least value within the cap, in the valley of `start`."""
    look = _Sight(problem, concurrency)
    caps = {"type": "ineq", "fun": lambda free: look(free).room, "jac": lambda free: look(free).room_slope}
    accuracy = 1e-11 if problem.rough else 1e-14
    return _minimised(lambda free: (look(free).value, look(free).slope), start, caps, accuracy, steps)


def least_staleness(problem: Problem, concurrency: int, start: Floats) -> Floats:
    """Return free numbers within the cap in the valley of `start`; if there are none, those with the least staleness.

    It minimises t >= 0 subject to log(staleness_i / cap) <= t for every group.
    """
    look = _Sight(problem, concurrency)
    down, ones = np.append(np.zeros(start.size), 1.0), np.ones((problem.fleet.groups, 1))
    caps = {
        "type": "ineq",
        "fun": lambda both: both[-1] + look(both[:-1]).room,
        "jac": lambda both: np.hstack([look(both[:-1]).room_slope, ones]),
    }
    first = np.append(start, max(0.0, -look(start).room.min()))
    return _minimised(lambda both: (both[-1], down), first, caps, 1e-9, STEPS, least=0.0)[:-1]


def _minimised(
    target: Any, start: Floats, caps: dict[str, Any], accuracy: float, steps: int, least: float | None = None
) -> Floats:
    """Minimise by SLSQP; `least` bounds the last number in place of the usual edges."""
    from scipy.optimize import minimize

    options = {"maxiter": steps, "ftol": accuracy}
    bounds: list[tuple[float, float | None]] = [(-EDGE, EDGE)] * start.size
    if least is not None:
        bounds[-1] = (least, None)
    first = np.clip(start, *np.array([(low, np.inf if high is None else high) for low, high in bounds]).T)
    result = minimize(target, first, jac=True, method="SLSQP", bounds=bounds, constraints=[caps], options=options)
    return np.asarray(result.x)
