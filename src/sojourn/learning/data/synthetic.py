"""Two problems whose constants are known: quadratic, where they hold everywhere, and logistic regression."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import InvalidInput, SojournError
from sojourn.learning.data.dataset import POINTS, Dataset, generator
from sojourn.learning.data.problem import Problem
from sojourn.machine_memory import check_memory
from sojourn.shown import quoted
from sojourn.types import Floats, Integers
from sojourn.values import LARGEST

NEWTON_STEPS = 100


@dataclass(frozen=True, eq=False)
class Quadratic(Problem):
    """Loss 1/2 (w - x_j)' H (w - x_j) of a model w on the point x_j, H diagonal.

    All clients share H, so noise and dissimilarity do not depend on w.

    >>> problem = quadratic(dimension=2, clients=3, largest=2, condition=4)
    >>> problem.curvature
    array([2. , 0.5])
    >>> problem.gap(problem.optimum())
    0.0
    """

    curvature: Floats
    """Diagonal of H."""

    @cached_property
    def means(self) -> Floats:
        """Mean b_i of each client's points, where its own loss is least; one row per client."""
        return np.array([self.points[self.partition.of(i)].mean(axis=0) for i in range(self.partition.clients)])

    @cached_property
    def covariances(self) -> Floats:
        """Covariance of each client's points around their mean, one matrix per client."""
        centred = [self.points[self.partition.of(i)] - mean for i, mean in enumerate(self.means)]
        return np.array([points.T @ points / len(points) for points in centred])

    @property
    def smoothness(self) -> float:
        """L: the largest eigenvalue of H."""
        return float(self.curvature.max())

    def example_losses(self, w: Floats, rows: Integers | slice) -> Floats:
        """Loss of the model on each of these points."""
        return 0.5 * np.square(w - self.points[rows]) @ self.curvature

    def example_gradients(self, w: Floats, rows: Integers | slice) -> Floats:
        """Return H (w - x_j), one row per point."""
        return (w - self.points[rows]) * self.curvature

    def optimum(self, weights: ArrayLike | None = None) -> Floats:
        """Weighted mean of the clients' means."""
        return self.client_weights(weights) @ self.means

    def noise(self, w: Floats | None = None, batch_size: int = 1, replace: bool = True) -> Floats:
        """Trace of H S_i H over the batch size, S_i a client's covariance; the same at every w."""
        spread = np.diagonal(self.covariances, axis1=1, axis2=2) @ np.square(self.curvature)
        return spread * self._batch_factor(batch_size, replace)

    def dissimilarity(self, w: Floats | None = None, weights: ArrayLike | None = None) -> float:
        """Largest |H (b_i - mean b)|^2; the same at every w."""
        return float(np.square((self.means - self.optimum(weights)) * self.curvature).sum(axis=1).max())


@dataclass(frozen=True, eq=False)
class Logistic(Problem):
    """Loss log(1 + exp(-s_j x_j'w)) + l2/2 |w|^2, where s_j is 1 for label 1 and -1 for label 0; no intercept.

    >>> problem = logistic(dimension=3, clients=4)
    >>> bool(np.abs(problem.gradient(problem.optimum())).max() < 1e-12)
    True
    """

    l2: float
    """Weight of the squared norm."""

    @cached_property
    def _signed(self) -> Floats:
        return self.points * (2.0 * self.dataset.train_y - 1)[:, None]

    @cached_property
    def smoothness(self) -> float:
        """L: the largest eigenvalue, over the clients, of X'X / (4 examples), plus l2."""
        mine = [self.points[self.partition.of(i)] for i in range(self.partition.clients)]
        return float(max(np.linalg.norm(x, 2) ** 2 / (4 * len(x)) for x in mine)) + self.l2

    def example_losses(self, w: Floats, rows: Integers | slice) -> Floats:
        """Loss of the model on each of these examples, the squared norm in each."""
        return np.logaddexp(0, -self._signed[rows] @ w) + self.l2 / 2 * (w @ w)

    def example_gradients(self, w: Floats, rows: Integers | slice) -> Floats:
        """Gradient of each of these losses, one row per example."""
        x = self._signed[rows]
        return -np.exp(-np.logaddexp(0, x @ w))[:, None] * x + self.l2 * w

    def optimum(self, weights: ArrayLike | None = None) -> Floats:
        """Find it by Newton's method until the gradient is below 1e-12; a step is halved until it
        reduces the gradient.
        """
        share, w = self._example_weights(weights), np.zeros(self.dimension)
        gradient = self.gradient(w, weights)
        for _ in range(NEWTON_STEPS):
            if np.linalg.norm(gradient) < 1e-12:
                return w
            margin = self._signed @ w
            bend = share * np.exp(-np.logaddexp(0, margin) - np.logaddexp(0, -margin))
            way = np.linalg.solve((self.points.T * bend) @ self.points + self.l2 * np.eye(w.size), gradient)
            for length in 0.5 ** np.arange(40):
                ahead = self.gradient(w - length * way, weights)
                if np.linalg.norm(ahead) <= (1 - length / 4) * np.linalg.norm(gradient):
                    break
            w, gradient = w - length * way, ahead
        raise SojournError(
            f"no optimum to 1e-12 in {NEWTON_STEPS} Newton steps, l2 is {self.l2}; raise l2 or lower shift"
        )


def quadratic(
    dimension: int = 10,
    clients: int = 10,
    examples: int = 100,
    largest: float = 1.0,
    condition: float = 10.0,
    heterogeneity: float = 1.0,
    noise: float = 1.0,
    seed: int = 0,
) -> Quadratic:
    """Make a quadratic problem: each client has points around its own centre.

    The eigenvalues of H fall evenly on a logarithmic scale from `largest` to `largest / condition`; coordinates of the
    centres have standard deviation `heterogeneity`, those of the `examples` points of each client around it `noise`.
    """
    _at_least(1, "quadratic", dimension=dimension, clients=clients, examples=examples, condition=condition)
    _at_least(0, "quadratic", heterogeneity=heterogeneity, noise=noise)
    _check_room("quadratic", dimension, clients, examples)
    if not 0 < largest < math.inf:
        raise InvalidInput(f"quadratic: largest must be positive and finite, got {largest}")
    rng = generator(seed, POINTS)
    with np.errstate(over="ignore", invalid="ignore"):  # the dataset refuses what is too large
        centres = heterogeneity * rng.standard_normal((clients, dimension))
        train, test = (
            _rows(centres[:, None] + noise * rng.standard_normal((clients, many, dimension)))
            for many in (examples, _tests(examples))
        )
    owner = np.repeat(np.arange(clients), examples)
    dataset = Dataset("quadratic", train, np.zeros(len(train)), test, np.zeros(len(test)), owner=owner)
    return Quadratic(dataset, largest * condition ** -(np.arange(dimension) / max(1, dimension - 1)))


def logistic(
    dimension: int = 10,
    clients: int = 10,
    examples: int = 100,
    l2: float = 0.01,
    shift: float = 1.0,
    angle: float = 0.5,
    seed: int = 0,
) -> Logistic:
    """Make a logistic problem: all clients have the same two classes, rotated and shifted differently for each client.

    Feature k has standard deviation k^-1/2 and labels follow a common random model. Then each client's examples are
    rotated by up to `angle` radians in a random plane and shifted by a vector with standard deviation `shift`.
    """
    _at_least(1, "logistic", dimension=dimension, clients=clients, examples=examples)
    _at_least(0, "logistic", shift=shift, angle=angle)
    _check_room("logistic", dimension, clients, examples)
    if not 0 < l2 < math.inf:
        raise InvalidInput(f"logistic: l2 must be positive and finite, else there may be no optimum, got {l2}")
    rng = generator(seed, POINTS)
    both = examples + _tests(examples)
    x = rng.standard_normal((clients, both, dimension)) / np.sqrt(np.arange(1, dimension + 1))
    truth = 2 * rng.standard_normal(dimension)
    y = (rng.random((clients, both)) < 1 / (1 + np.exp(-x @ truth))).astype(np.int64)
    with np.errstate(over="ignore", invalid="ignore"):  # the dataset refuses what is too large
        for client in range(clients):
            x[client] = x[client] @ _turn(dimension, angle, rng) + shift * rng.standard_normal(dimension)
    train, test = _rows(x[:, :examples]), _rows(x[:, examples:])
    owner = np.repeat(np.arange(clients), examples)
    return Logistic(
        Dataset("logistic", train, y[:, :examples].ravel(), test, y[:, examples:].ravel(), classes=2, owner=owner), l2
    )


def _turn(dimension: int, angle: float, rng: np.random.Generator) -> Floats:
    """Return a rotation by a random angle, at most `angle`, in a random plane; the identity in one dimension."""
    if dimension == 1:
        return np.eye(1)
    plane, _ = np.linalg.qr(rng.standard_normal((dimension, 2)))
    by = angle * rng.uniform(-1, 1)
    change = np.array([[math.cos(by) - 1, -math.sin(by)], [math.sin(by), math.cos(by) - 1]])
    return np.asarray(np.eye(dimension) + plane @ change @ plane.T)


def _rows(points: Floats) -> NDArray[np.float32]:
    """Return the points as rows, in the precision of training."""
    with np.errstate(over="ignore", invalid="ignore"):
        return points.reshape(-1, points.shape[-1]).astype(np.float32)


def _tests(examples: int) -> int:
    """Return the number of test examples of a client: a quarter of its training examples."""
    return max(1, examples // 4)


def _at_least(low: int, what: str, **values: float) -> None:
    for key, value in values.items():
        if isinstance(value, int) and value > LARGEST:
            raise InvalidInput(f"{what}: {key} must be a whole number below 2^63, got {quoted(value)}")
        if not (math.isfinite(value) and value >= low):
            raise InvalidInput(f"{what}: {key} must be finite and at least {low}, got {value}")


def _check_room(what: str, dimension: int, clients: int, examples: int) -> None:
    """Check the memory: a few arrays of eight-byte numbers, and a matrix per rotation of the logistic problem."""
    numbers = dimension * (4 * clients * examples + (2 * dimension if what == "logistic" else 0))
    check_memory(8 * numbers, f"dataset {what}", "lower its dimension, clients or examples")
