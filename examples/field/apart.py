"""A quadratic problem whose fast and slow clients want different models, and whose optimum is known.

Client i has points around its own centre; the loss of a model w on a point x is 1/2 (w - x)' H (w - x). The centres of
fast clients, the first half, lie around (1, ..., 1), those of slow ones around (-1, ..., -1). The objective is the mean
over the clients, so its optimum is the mean of the clients' means, near 0. What favours fast clients ends away from it.
Training starts at (3, ..., 3), far from all of this, so that nothing is gained by staying where one is.
"""

from functools import lru_cache

import numpy as np
import torch
from cells import CLIENTS
from numpy.typing import NDArray
from torch import Tensor, nn

from sojourn.learning.data.dataset import Dataset

DIMENSION, EXAMPLES, TESTS, NOISE, START = 10, 50, 12, 0.5, 3.0
CURVATURE = 4.0 ** -(np.arange(DIMENSION) / (DIMENSION - 1))  # eigenvalues of H, from 1 to 1/4


@lru_cache
def points() -> Dataset:
    """Return the points and who owns them."""
    rng = np.random.default_rng(0)
    side = np.where(np.arange(CLIENTS) < CLIENTS // 2, 1.0, -1.0)[:, None]
    centres = side + 0.5 * rng.standard_normal((CLIENTS, DIMENSION))
    train, test = (
        (centres[:, None] + NOISE * rng.standard_normal((CLIENTS, many, DIMENSION))).reshape(-1, DIMENSION)
        for many in (EXAMPLES, TESTS)
    )
    owner = np.repeat(np.arange(CLIENTS), EXAMPLES)
    none = [np.zeros(len(some), np.float32) for some in (train, test)]
    return Dataset("apart", train.astype(np.float32), none[0], test.astype(np.float32), none[1], owner=owner)


def optimum() -> NDArray[np.float64]:
    """Return the best model: all clients have the same number of points, so it is the mean of all."""
    return np.asarray(points().train_x.astype(np.float64).mean(axis=0))


def settles(speeds: NDArray[np.float64], power: float) -> float:
    """Return how far from the optimum a method settles in which a client counts as its speed to some power.

    All clients have the same curvature, so the limit is the mean of their own optima with these weights, whatever the
    staleness: 1 = updates as they come while everybody is busy, 1/2 = with correction 1/2, 0 = unbiased.
    """
    means = points().train_x.astype(np.float64).reshape(CLIENTS, EXAMPLES, DIMENSION).mean(axis=1)
    return float(np.linalg.norm(np.average(means, axis=0, weights=speeds**power) - optimum()))


class Nearest(nn.Module):
    """A point w that has to be near to all others."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.full((DIMENSION,), START))
        self._curvature = torch.as_tensor(CURVATURE)

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the mean over the batch."""
        away = self.w - x
        return 0.5 * (away.square() * self._curvature.to(away.dtype)).sum(1).mean()
