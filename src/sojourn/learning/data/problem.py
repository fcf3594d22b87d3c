"""Problem: a dataset with a loss so simple that the constants of convergence theory are known exactly.

A model is a vector w. Client i holds the examples j in D_i; its loss f_i is the mean over them of l(w, j), and the
objective is f(w) = sum_i q_i f_i(w), with q_i = 1/n where no weights are given.

L         smoothness      the gradient of each f_i changes by at most L times the distance
sigma^2   noise           E |stochastic gradient - gradient of f_i|^2 for a batch of client i
G^2       dissimilarity   largest |gradient of f_i - gradient of f|^2
A         gap             f(w) - min f
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from sojourn.errors import InvalidInput
from sojourn.learning.data.dataset import Dataset
from sojourn.learning.data.partition import Partition
from sojourn.types import Floats, Integers


@dataclass(frozen=True, eq=False)
class Problem(ABC):
    """What quadratic and logistic problems share; sums over examples run in float64 over the dataset's own values."""

    dataset: Dataset
    """The examples; each has an owner."""

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """L, the largest over the clients."""

    @abstractmethod
    def example_losses(self, w: Floats, rows: Integers | slice) -> Floats:
        """Loss of the model on each of these examples."""

    @abstractmethod
    def example_gradients(self, w: Floats, rows: Integers | slice) -> Floats:
        """Return the gradient of each of these losses, one row per example."""

    @abstractmethod
    def optimum(self, weights: ArrayLike | None = None) -> Floats:
        """The model with the least loss."""

    @cached_property
    def partition(self) -> Partition:
        """The partition of the examples, by their owners."""
        if self.dataset.owner is None:
            raise InvalidInput(
                f"a problem needs owners of its examples, dataset {self.dataset.name} has none; give owner"
            )
        return Partition.by_owner(self.dataset.owner)

    @cached_property
    def points(self) -> Floats:
        """The training examples in float64."""
        return self.dataset.train_x.astype(np.float64)

    @property
    def dimension(self) -> int:
        """Length of a model."""
        return int(self.points.shape[1])

    def loss(self, w: Floats, weights: ArrayLike | None = None) -> float:
        """The objective f at w."""
        return float(self._example_weights(weights) @ self.example_losses(w, slice(None)))

    def gradient(self, w: Floats, weights: ArrayLike | None = None) -> Floats:
        """Gradient of the objective."""
        return self._example_weights(weights) @ self.example_gradients(w, slice(None))

    def client_gradient(self, client: int, w: Floats) -> Floats:
        """Gradient of one client's loss."""
        return self.stochastic_gradient(w, self.partition.of(client))

    def stochastic_gradient(self, w: Floats, rows: Integers) -> Floats:
        """Mean gradient over a batch of examples."""
        return np.asarray(self.example_gradients(w, rows).mean(axis=0))

    def noise(self, w: Floats, batch_size: int = 1, replace: bool = True) -> Floats:
        """Variance of a stochastic gradient of each client at w, its batch drawn with or without replacement.

        sigma^2 is the largest of them.
        """
        spread = np.empty(self.partition.clients)
        for client in range(self.partition.clients):
            gradients = self.example_gradients(w, self.partition.of(client))
            spread[client] = np.square(gradients - gradients.mean(axis=0)).sum(axis=1).mean()
        return spread * self._batch_factor(batch_size, replace)

    def dissimilarity(self, w: Floats, weights: ArrayLike | None = None) -> float:
        """G^2 at w: the largest squared distance of a client's gradient from that of the objective."""
        gradients = np.array([self.client_gradient(client, w) for client in range(self.partition.clients)])
        return float(np.square(gradients - self.client_weights(weights) @ gradients).sum(axis=1).max())

    def gap(self, w: Floats | None = None, weights: ArrayLike | None = None) -> float:
        """Return A: how far the loss at w (by default at zero) is above the minimum."""
        start = np.zeros(self.dimension) if w is None else w
        return self.loss(start, weights) - self.loss(self.optimum(weights), weights)

    def client_weights(self, weights: ArrayLike | None = None) -> Floats:
        """Return the clients' weights q in the objective; by default equal."""
        clients = self.partition.clients
        values = np.full(clients, 1 / clients) if weights is None else np.asarray(weights, dtype=np.float64)
        if values.shape != (clients,) or not (values >= 0).all() or not abs(values.sum() - 1) < 1e-9:
            raise InvalidInput(
                f"weights must be {clients} non-negative numbers, one per client, with sum 1, got {values}"
            )
        return values

    def _example_weights(self, weights: ArrayLike | None) -> Floats:
        share = np.empty(len(self.points))
        share[self.partition.order] = np.repeat(
            self.client_weights(weights) / self.partition.sizes, self.partition.sizes
        )
        return share

    def _batch_factor(self, batch_size: int, replace: bool) -> Floats:
        sizes = self.partition.sizes
        if batch_size < 1 or (not replace and batch_size > sizes.min()):
            raise InvalidInput(
                f"batch_size must be at least 1 and, without replacement, at most the {sizes.min()} examples of the "
                f"smallest client, got {batch_size}"
            )
        return (1.0 if replace else (sizes - batch_size) / np.maximum(sizes - 1, 1)) / np.full(sizes.size, batch_size)
