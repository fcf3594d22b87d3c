"""The loss f = sum q_i f_i, or one client's, on examples: its value, gradient, and products with its Hessian.

Where there are not too many examples, all of them are taken, and the numbers are exact. Otherwise examples are drawn
in proportion to their weight, in independent groups whose spread tells how far the numbers may be off.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call

from sojourn.train.calibration.estimates import Estimate
from sojourn.train.calibration.sample import generator
from sojourn.train.federation import Federation
from sojourn.train.waves import Lossy

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
GROUPS = 8  # of drawn examples
AT_ONCE = 512  # examples computed together
VALUES_AT_ONCE = 2**20  # of large examples fewer: two passes through a network have to fit


@dataclass(frozen=True)
class Piece:
    """Examples computed together."""

    rows: Integers
    """Their numbers."""
    weight: float
    """Of their mean loss."""


@dataclass(frozen=True)
class Chosen:
    """The examples that stand for a loss, in one group if they are all, else in several independent ones."""

    groups: tuple[tuple[Piece, ...], ...]
    """The pieces of each group; their weights sum to 1."""

    @property
    def exact(self) -> bool:
        """Whether these are all examples."""
        return len(self.groups) == 1

    def halves(self) -> "tuple[Chosen, Chosen]":
        """The two halves of the groups."""
        return Chosen(self.groups[::2]), Chosen(self.groups[1::2])


def choose(federation: Federation, weights: Floats, most: int, seed: int) -> Chosen:
    """Examples for the loss with these clients' weights; `most` of them, or all."""
    held = np.flatnonzero(weights > 0)
    sizes = federation.partition.sizes[held]
    each = np.repeat(weights[held] / sizes, sizes)
    rows = np.concatenate([federation.partition.of(int(client)) for client in held])
    owner = np.repeat(held, sizes)
    if rows.size <= most:
        return Chosen((_pieces(federation, rows, each, owner),))
    chance = generator(federation.seed, 2, seed)
    groups = []
    for _ in range(GROUPS):
        drawn = chance.choice(rows.size, max(1, most // GROUPS), p=each / each.sum())
        groups.append(_pieces(federation, rows[drawn], np.full(drawn.size, 1 / drawn.size), owner[drawn]))
    return Chosen(tuple(groups))


def _pieces(federation: Federation, rows: Integers, each: Floats, owner: Integers) -> tuple[Piece, ...]:
    """Examples of one weight together; with BatchNorm also of one client, in batches as it would make them."""
    apart = federation.model.stats.numel() > 0
    size = federation.local.batch_size if apart else _at_once(federation)
    label = owner if apart else np.unique(each, return_inverse=True)[1]
    pieces = []
    for value in np.unique(label):
        mine = np.flatnonzero(label == value)
        for part in np.array_split(mine, -(-mine.size // size)):
            pieces.append(Piece(rows[part], float(each[part].sum())))
    total = sum(piece.weight for piece in pieces)
    return tuple(Piece(piece.rows, piece.weight / total) for piece in pieces)


def _at_once(federation: Federation) -> int:
    values = int(federation.dataset.train_x[0].size)
    return max(1, min(AT_ONCE, VALUES_AT_ONCE // max(1, values)))


class Objective:
    """A loss on chosen examples, around one point."""

    def __init__(self, federation: Federation, params: Tensor, stats: Tensor, chosen: Chosen) -> None:
        self._federation, self._stats, self.chosen = federation, stats, chosen
        self.params = params.detach()
        self._lossy = Lossy(federation.model)
        self._names = [name for name, _ in self._lossy.named_parameters()]

    def on(self, chosen: Chosen) -> "Objective":
        """The same on other examples."""
        return Objective(self._federation, self.params, self._stats, chosen)

    def losses(self) -> Floats:
        """Loss of each group."""
        with torch.no_grad():
            return np.array([sum(p.weight * float(self._loss(self.params, p)) for p in g) for g in self.chosen.groups])

    def loss(self) -> Estimate:
        """The loss."""
        return mean_of_groups(self.losses())

    def product(self, vector: Tensor) -> Tensor:
        """Hessian times vector."""
        return torch.stack([self._product(group, vector) for group in self.chosen.groups]).mean(0)

    def along(self, vector: Tensor) -> Estimate:
        """Curvature along a unit vector."""
        found = [float(torch.dot(vector, self._product(group, vector))) for group in self.chosen.groups]
        return mean_of_groups(np.array(found))

    def gradient(self) -> Tensor:
        """Gradient of the loss."""
        point = self.params.clone().requires_grad_()
        total = torch.zeros_like(self.params)
        for group in self.chosen.groups:
            for piece in group:
                (slope,) = torch.autograd.grad(self._loss(point, piece), point)
                total.add_(slope, alpha=piece.weight / len(self.chosen.groups))
        return total

    def _product(self, group: tuple[Piece, ...], vector: Tensor) -> Tensor:
        point = self.params.clone().requires_grad_()
        total = torch.zeros_like(vector)
        for piece in group:
            (slope,) = torch.autograd.grad(self._loss(point, piece), point, create_graph=True)
            if slope.requires_grad:  # else the loss is linear
                (image,) = torch.autograd.grad(slope, point, vector)
                total.add_(image, alpha=piece.weight)
        return total

    def _loss(self, point: Tensor, piece: Piece) -> Tensor:
        """Mean loss of a piece; dice fall the same way each time."""
        model = self._federation.model
        model.module.train()
        model.begin(self._stats)
        key = int(piece.rows[0])
        if model.random:
            torch.manual_seed(key)
        x, y = self._federation.examples.batch(piece.rows, key, 0)
        value = functional_call(self._lossy, dict(zip(self._names, model.parts(point), strict=True)), (x, y))
        assert isinstance(value, Tensor)
        return value


def mean_of_groups(values: Floats) -> Estimate:
    """The mean of independent values with its standard error; of a single one, which is exact, without."""
    if values.size == 1:
        return Estimate(float(values[0]))
    return Estimate(float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size)), values.size - 1)
