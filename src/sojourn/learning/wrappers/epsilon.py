"""Epsilon of a client's updates, by the library dp-accounting: how much they may tell about its data.

k Gaussian mechanisms of noise z on the same client's data are together one of noise z / sqrt(k), also when each of them
is chosen by what the ones before gave out (Dong, Roth, Su, "Gaussian differential privacy", 2022, Corollary 3.3). Its
epsilon at delta is exact (Balle and Wang, ICML 2018), not a bound.

The library is imported when an epsilon is computed, and at no other time.
"""

from functools import cache
from importlib.util import find_spec
from math import inf, sqrt
from typing import Any

from sojourn.errors import InvalidInput

MOST = 2**40  # updates of a client


def check_library() -> None:
    """Raise an error if the library is not installed."""
    if find_spec("dp_accounting") is None:
        raise InvalidInput(
            "epsilon needs dp-accounting, which is not installed; pip install 'sojourn[privacy]', or write delta=0 to "
            "train without an epsilon"
        )


@cache
def epsilon_of(noise: float, updates: int, delta: float) -> float:
    """Return epsilon of `updates` updates, each with noise of `noise` times its sensitivity.

    No amplification: every update counts, whoever was sampled.
    """
    if updates == 0:
        return 0.0
    if noise == 0:
        return inf
    return float(_library().get_epsilon_gaussian(noise / sqrt(updates), delta))


@cache
def most_updates(noise: float, delta: float, budget: float) -> int:
    """Return how many updates a client may send until its epsilon is above the budget."""
    if epsilon_of(noise, 1, delta) > budget:
        return 0
    low, high = 1, 2
    while high < MOST and epsilon_of(noise, high, delta) <= budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if epsilon_of(noise, middle, delta) <= budget else (low, middle)
    return low


def least_noise(delta: float, budget: float) -> float:
    """Return the noise with which the epsilon of one update is the budget."""
    return float(_library().get_sigma_gaussian(budget, delta))


def _library() -> Any:
    check_library()
    import dp_accounting

    return dp_accounting
