"""The paper's convergence bound, its step sizes, and the rows it is compared with.

Symbols: A, L, B constants of the problem, q_i weight of client i in the objective sum q_i f_i (1/n in the paper),
p_i sampling, m_i staleness of client i (reading `indicator` unless another is passed in), C concurrency, T steps.

    S1 = sum_i q_i^2 / p_i         S2 = sum_i q_i^2 m_i / p_i^2
    G(p, eta) = A / (eta (T+1)) + eta L B S1 + eta^2 L^2 B C S2                    (Theorem 1)
    eta <= eta_max = min( (C S2)^(-1/2), 1 / (2 S1) ) / (4 L)

The paper prints 2 / S1 as the second limit of eta_max. Its proof needs a quarter of that: the descent lemma asks for
-eta/2 + 2 eta^2 L S1 <= -eta/4, that is eta <= 1 / (8 L S1). By default this code uses the proven limit; the printed
one is available on request.

Under strong growth the two limits are divided by (1 + rho^2)^(1/2) and (1 + rho^2), and B is `Constants.noise`.
In physical time U the steps are T = Lambda U. m may come from the stationary network or, transient, from simulation.
"""

from dataclasses import dataclass
from math import inf, sqrt
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from sojourn.constants import Constants
from sojourn.errors import InvalidInput

Limit = Literal["proof", "printed"]


def sums(sampling: ArrayLike, staleness: ArrayLike, weights: ArrayLike, count: ArrayLike = 1.0) -> tuple[float, float]:
    """Return S1 and S2 from p, m and q of one client of each group.

    >>> sums([0.5, 0.5], [1.0, 1.0], [0.5, 0.5])
    (1.0, 2.0)
    """
    p, m, q, n = (np.asarray(values, dtype=np.float64) for values in (sampling, staleness, weights, count))
    if (m < 0).any():
        raise InvalidInput(f"staleness must not be negative, got {m.min()}")
    return float((n * q**2 / p).sum()), float((n * q**2 * m / p**2).sum())


def bound(step_size: float, steps: float, concurrency: int, S1: float, S2: float, constants: Constants) -> float:
    """Return G(p, eta) of Theorem 1, an upper bound of the mean squared gradient norm over steps 0..T.

    >>> bound(0.1, 99, 1, 1.0, 0.0, Constants(A=1, L=1, B=1))
    0.2
    """
    eta, A, L, B = step_size, constants.A, constants.L, constants.noise
    return A / (eta * (steps + 1)) + eta * L * B * S1 + eta**2 * L**2 * B * concurrency * S2


def largest_step(concurrency: int, S1: float, S2: float, constants: Constants, limit: Limit = "proof") -> float:
    """Return eta_max: the limit that the proof of Theorem 1 allows, or the one that the theorem prints.

    For transient staleness S2 is the largest over the steps. The two differ where C S2 < 4 S1^2: at uniform
    sampling with one or two tasks in flight.

    >>> one = Constants(A=1, L=1, B=1)
    >>> largest_step(1, 1.0, 0.0, one), largest_step(1, 1.0, 0.0, one, "printed")
    (0.125, 0.5)
    """
    if limit not in get_args(Limit):
        raise InvalidInput(f"limit must be one of {', '.join(get_args(Limit))}, got '{limit}'")
    by_staleness, by_spread = step_limits(concurrency, S1, S2, constants, limit)
    return min(by_staleness, by_spread)


def step_limits(
    concurrency: int, S1: float, S2: float, constants: Constants, limit: Limit = "proof"
) -> tuple[float, float]:
    """Return the two limits of the step size, by staleness (S2) and by the sampling (S1); the smaller is eta_max."""
    growth, quarter = 1 + constants.rho2, 1 / (4 * constants.L)
    by_staleness = quarter / sqrt(concurrency * S2 * growth) if S2 > 0 else inf
    return by_staleness, quarter * (2.0 if limit == "printed" else 0.5) / (S1 * growth)


def best_step(steps: float, concurrency: int, S1: float, S2: float, constants: Constants) -> float:
    """Return the step size that minimises G, not clipped: the positive root of 2 L^2 B C S2 eta^3 + L B S1 eta^2 = A /
    (T+1).
    """
    L, B = constants.L, constants.noise
    return _root(2 * L**2 * B * concurrency * S2, L * B * S1, constants.A / (steps + 1))


def _root(cubic: float, square: float, value: float) -> float:
    """Return the positive root of cubic x^3 + square x^2 = value, by Newton's method from the right."""
    x = min(sqrt(value / square), (value / cubic) ** (1 / 3) if cubic > 0 else inf)
    for _ in range(60):
        step = ((cubic * x + square) * x * x - value) / ((3 * cubic * x + 2 * square) * x)
        x -= step
        if abs(step) <= 1e-16 * x:
            break
    return x


def steps_to(
    epsilon: float, concurrency: int, S1: float, S2: float, constants: Constants, free: bool = False
) -> "Fewest":
    """Return the fewest steps after which G <= epsilon, and the step size for which they are enough.

    T + 1 = A / (eta (epsilon - a eta - b eta^2)) with a = L B S1, b = L^2 B C S2 is least where
    3 b eta^2 + 2 a eta = epsilon; above eta_max the limit is used, unless the step size is free.
    """
    if not epsilon > 0:
        raise InvalidInput(f"epsilon must be positive, got {epsilon}")
    a = constants.L * constants.noise * S1
    b = constants.L**2 * constants.noise * concurrency * S2
    best = epsilon / (a + sqrt(a * a + 3 * b * epsilon))
    eta = best if free else min(best, largest_step(concurrency, S1, S2, constants))
    return Fewest(constants.A / (eta * (epsilon - a * eta - b * eta**2)), eta, best)


@dataclass(frozen=True)
class Fewest:
    """The fewest steps to epsilon."""

    steps: float
    """T + 1."""
    step_size: float
    """The step size for which they are enough."""
    free_step_size: float
    """The best step size without the limit eta_max."""


@dataclass(frozen=True)
class Row:
    """A row of the paper's Table 1: the bound of another algorithm."""

    value: float
    """The bound; inf if it does not apply."""
    largest_step: float
    """The largest step size for which it holds; 0 if there is none."""
    empty: str | None = None
    """Why the bound does not apply; None = it applies."""


_EMPTY = "empty: the longest staleness is infinite (as for exponential service), so the bound holds for no step size"


def fedbuff(step_size: float, steps: float, clients: int, longest: float, constants: Constants) -> Row:
    """Return FedBuff's row of Table 1: A/(eta(T+1)) + eta L B + eta^2 tau_max^2 L^2 B n, for eta <= 1 / (L
    tau_max^(3/2)).
    """
    if longest == inf:
        return Row(inf, 0.0, _EMPTY)
    eta, L, B = step_size, constants.L, constants.noise
    value = constants.A / (eta * (steps + 1)) + eta * L * B + eta**2 * longest**2 * L**2 * B * clients
    return Row(value, 1 / (L * sqrt(longest**3)) if longest else inf)


def fedbuff_step(steps: float, clients: int, longest: float, constants: Constants) -> float:
    """Return the step size that minimises FedBuff's row, not clipped."""
    L, B = constants.L, constants.noise
    return _root(2 * L**2 * B * clients * longest**2, L * B, constants.A / (steps + 1))


def asyncsgd(
    step_size: float, steps: float, concurrency: int, mean: float, longest: float, constants: Constants
) -> Row:
    """Return AsyncSGD's row of Table 1: A/(eta(T+1)) + eta L B + eta^2 tau_c L^2 B sum_i tau_sum^i / (T+1).

    tau_c = C tasks in flight, and sum_i tau_sum^i / (T+1) is the `mean` staleness, C - 1 in a closed network: then
    the row equals G at uniform sampling. It holds for eta <= 1 / (L (tau_c tau_max)^(1/2)).
    """
    if longest == inf:
        return Row(inf, 0.0, _EMPTY)
    eta, L, B = step_size, constants.L, constants.noise
    value = constants.A / (eta * (steps + 1)) + eta * L * B + eta**2 * concurrency * L**2 * B * mean
    return Row(value, 1 / (L * sqrt(concurrency * longest)) if longest else inf)


def asyncsgd_step(steps: float, concurrency: int, mean: float, constants: Constants) -> float:
    """Return the step size that minimises AsyncSGD's row, not clipped."""
    L, B = constants.L, constants.noise
    return _root(2 * L**2 * B * concurrency * mean, L * B, constants.A / (steps + 1))


def longest_wait(concurrency: int, slowest_rate: float, deterministic: bool) -> float:
    """Return tau_max as the paper defines it, a time: C services of the slowest client; inf if
    services are unbounded.
    """
    return concurrency / slowest_rate if deterministic else inf


def longest_staleness(concurrency: int, slowest_rate: float, throughput: float, deterministic: bool) -> float:
    """Return tau_max in server steps, the unit that the bounds need: the steps that pass in the longest wait."""
    return throughput * longest_wait(concurrency, slowest_rate, deterministic)
