"""sigma^2: the variance of a client's stochastic gradient, for batches of the size and order of training.

Within a group of s rounds a client's gradients g_k have the sample variance
(sum |g_k|^2 - |sum g_k|^2 / s) / (s - 1), unbiased whatever their law. Theory asks for the largest over the clients.
If one batch holds all examples of a client there is no noise; the formula then gives only rounding, which counts as
zero.

G^2: how far the clients' gradients lie from their mean, |grad f_i - grad f|^2, without the noise of the batches.

With d_k = g_k - (mean over the clients of g_k) in round k, d_k and d_l are independent for k != l and each has mean
grad f_i - grad f. So the mean of <d_k, d_l> over the pairs of a group, (|sum d_k|^2 - sum |d_k|^2) / (s (s - 1)), is
unbiased: what noise adds to squared lengths it does not add to products of different rounds. It may be negative if
there is little heterogeneity. Theory asks for the largest over the clients.
"""

from dataclasses import replace
from math import inf, sqrt

import numpy as np
from scipy.optimize import nnls

from sojourn.learning.calibrate.estimates import (
    Bounded,
    Bracket,
    Displaced,
    Estimate,
    Largest,
    largest_over_clients,
    mean_over_clients,
)
from sojourn.learning.calibrate.gradients import Sums
from sojourn.types import Floats


def variances(sums: Sums) -> Floats:
    """Return the variance for each group and client, in total and along the directions."""
    values = (sums.squares - sums.squared_sum / sums.size) / (sums.size - 1)
    values[:, sums.still] = 0.0
    return np.maximum(values, 0.0)


def mean_noise(sums: Sums, weights: Floats, clients: int) -> list[Estimate]:
    """Return the mean over the clients: first the total, then along each direction."""
    found = variances(sums)
    return [mean_over_clients(found[:, :, j], weights, clients, positive=True) for j in range(found.shape[2])]


def largest_noise(sums: Sums, mean: Estimate, others: int = 0) -> Bounded:
    """Return the largest over the clients asked and `others` that were not; equal relative errors are assumed.

    Clients that have no noise are left out.
    """
    whole = variances(sums)[:, ~sums.still, 0]
    if whole.shape[1] == 0:
        return Bracket(0.0, Estimate(0.0), Estimate(inf if others else 0.0))
    squares = np.square(whole.mean(axis=0))
    relative = whole.var(axis=0, ddof=1).sum() / max(float(squares.sum()), 1e-300)
    return largest_over_clients(whole, relative * squares, mean, positive=True, others=others)


def distances(sums: Sums) -> Floats:
    """Squared distance of each group and client, whole and along the directions."""
    values = (sums.away_squared_sum - sums.away_squares) / (sums.size * (sums.size - 1))
    return (
        np.broadcast_to(values[:1], values.shape) if sums.still.all() else values
    )  # differences between groups would be rounding


def mean_heterogeneity(sums: Sums, weights: Floats, everyone: Floats) -> list[Estimate]:
    """Return the mean over all clients (weights `everyone`) from those asked: first the total, then along each
    direction.

    The clients asked are nearer to their own mean than to that of all, which is corrected for. Their noise is, too, and
    so the spread of each client's estimates is smaller than its part in the spread of the mean.
    """
    found = distances(sums) * farther(weights, everyone)
    return [
        mean_over_clients(found[:, :, j], weights, everyone.size, positive=False, factor=_nearer(weights))
        for j in range(found.shape[2])
    ]


def _nearer(weights: Floats) -> float:
    share = weights / weights.sum()
    return float(1 / (1 - np.square(share).sum())) if share.size > 1 else 1.0


def farther(weights: Floats, everyone: Floats) -> float:
    """Return the mean squared distance from the mean of all clients, divided by that of those asked from their own
    mean.
    """
    return _nearer(weights) * float(1 - np.square(everyone).sum()) if weights.size > 1 else 1.0


def largest_heterogeneity(sums: Sums, mean: Estimate, others: int = 0, farther: float = 1.0) -> Largest:
    """Return the largest over the clients asked, and over `others` that were not asked.

    The variance of a client's estimate is that of a product: a part that grows with noise times distance, and one
    with squared noise. The amount of each is fitted to the spread between the groups of all clients. If not all clients
    were asked, distances are multiplied by `farther`, and the mean from which they are measured has an error itself.
    """
    whole, noise = distances(sums)[:, :, 0] * farther, variances(sums)[:, :, 0].mean(axis=0) * farther
    columns = np.stack([noise * np.maximum(whole.mean(axis=0), 0.0), noise**2], axis=1)
    scale = max(float(columns.max()), 1e-300)
    parts, _ = nnls(columns / scale, whole.var(axis=0, ddof=1) / scale)
    found = largest_over_clients(whole, columns @ parts, mean, positive=False, others=others)
    if not others:
        return found
    asked = whole.shape[1]
    off = sqrt(max(mean.value, 0.0) * others / (asked + others) / asked)
    return replace(found, parts=[*(Displaced(part, off) for part in found.parts[:asked]), *found.parts[asked:]])
