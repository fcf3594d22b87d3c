"""sigma^2: the variance of a client's stochastic gradient, for batches of the size and order of training.

Within a group of s rounds a client's gradients g_k have the sample variance
(sum |g_k|^2 - |sum g_k|^2 / s) / (s - 1), unbiased whatever their law. Theory asks for the largest over the clients.
"""

import numpy as np
from numpy.typing import NDArray

from sojourn.train.calibration.estimates import Estimate, Largest, largest_over_clients, mean_over_clients
from sojourn.train.calibration.gradients import Sums

Floats = NDArray[np.float64]


def variances(sums: Sums) -> Floats:
    """Of each group and client, whole and along the directions."""
    values = (sums.squares - sums.squared_sum / sums.size) / (sums.size - 1)
    return np.maximum(values, 0.0)


def mean_noise(sums: Sums, weights: Floats, clients: int) -> list[Estimate]:
    """Mean over the clients: whole first, then along each direction."""
    found = variances(sums)
    return [mean_over_clients(found[:, :, j], weights, clients, positive=True) for j in range(found.shape[2])]


def largest_noise(sums: Sums, mean: Estimate) -> Largest:
    """The largest of the clients asked; one would expect their relative errors to be alike."""
    whole = variances(sums)[:, :, 0]
    squares = np.square(whole.mean(axis=0))
    relative = whole.var(axis=0, ddof=1).sum() / max(float(squares.sum()), 1e-300)
    return largest_over_clients(whole, relative * squares, mean, positive=True)
