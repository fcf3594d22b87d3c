"""sigma^2: the variance of a client's stochastic gradient, for batches of the size and order of training.

Within a group of s rounds a client's gradients g_k have the sample variance
(sum |g_k|^2 - |sum g_k|^2 / s) / (s - 1), unbiased whatever their law. Theory asks for the largest over the clients.
Where a batch is all that a client holds there is no noise, and what the formula gives is rounding: it counts as zero.
"""

from math import inf

import numpy as np

from sojourn.learning.calibrate.estimates import (
    Bounded,
    Bracket,
    Estimate,
    largest_over_clients,
    mean_over_clients,
)
from sojourn.learning.calibrate.gradients import Sums
from sojourn.types import Floats


def variances(sums: Sums) -> Floats:
    """Of each group and client, whole and along the directions."""
    values = (sums.squares - sums.squared_sum / sums.size) / (sums.size - 1)
    values[:, sums.still] = 0.0
    return np.maximum(values, 0.0)


def mean_noise(sums: Sums, weights: Floats, clients: int) -> list[Estimate]:
    """Mean over the clients: whole first, then along each direction."""
    found = variances(sums)
    return [mean_over_clients(found[:, :, j], weights, clients, positive=True) for j in range(found.shape[2])]


def largest_noise(sums: Sums, mean: Estimate, others: int = 0) -> Bounded:
    """The largest of the clients asked, and of `others` that were not asked; one expects like relative errors.

    Both without clients that have no noise.
    """
    whole = variances(sums)[:, ~sums.still, 0]
    if whole.shape[1] == 0:
        return Bracket(0.0, Estimate(0.0), Estimate(inf if others else 0.0))
    squares = np.square(whole.mean(axis=0))
    relative = whole.var(axis=0, ddof=1).sum() / max(float(squares.sum()), 1e-300)
    return largest_over_clients(whole, relative * squares, mean, positive=True, others=others)
