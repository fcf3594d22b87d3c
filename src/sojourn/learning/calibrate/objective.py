"""The loss f = sum q_i f_i, or one client's, on examples: its value, gradient, and products with its Hessian.

If there are not too many examples, all of them are used, and the numbers are exact. Otherwise examples are drawn in
proportion to their weight, in independent groups whose spread gives the error of the numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call

from sojourn.learning.calibrate.estimates import Estimate
from sojourn.learning.calibrate.gradients import batch, generator
from sojourn.learning.execute.waves import Lossy
from sojourn.learning.replay.federation import Federation
from sojourn.types import Floats, Integers

GROUPS = 8  # of drawn examples
AT_ONCE = 512  # examples computed together
VALUES_AT_ONCE = 2**20  # limits the number of large examples, since two passes through a network must fit into memory


@dataclass(frozen=True)
class Piece:
    """Examples computed together."""

    rows: Integers
    """Their numbers."""
    weight: float
    """Weight of their mean loss."""


@dataclass(frozen=True)
class Chosen:
    """The examples that represent a loss: all of them in one group, or a sample in several independent groups."""

    groups: tuple[tuple[Piece, ...], ...]
    """The pieces of each group; their weights sum to 1."""

    @property
    def exact(self) -> bool:
        """Whether all examples are used."""
        return len(self.groups) == 1

    def halves(self) -> "tuple[Chosen, Chosen]":
        """Return the two halves of the groups."""
        return Chosen(self.groups[::2]), Chosen(self.groups[1::2])


def choose(federation: Federation, weights: Floats, most: int, seed: int) -> Chosen:
    """Choose examples for the loss with these clients' weights: at most `most` of them.

    With BatchNorm, where an example's loss depends on its batch, examples are taken in batches of one client.
    """
    held = np.flatnonzero(weights > 0)
    sizes = federation.partition.sizes[held]
    batches = federation.model.stats.numel() > 0
    if sizes.sum() <= most:
        return Chosen((_all(federation, held, weights[held] / sizes, batches),))
    chance = generator(federation.seed, 2, seed)
    each = max(1, most // GROUPS)
    if batches:
        many = max(1, each // federation.local.batch_size)
        return Chosen(tuple(_drawn_batches(federation, weights, many, chance) for _ in range(GROUPS)))
    rows = np.concatenate([federation.partition.of(int(client)) for client in held])
    share = np.repeat(weights[held] / sizes, sizes)
    drawn = (rows[chance.choice(rows.size, each, p=share / share.sum())] for _ in range(GROUPS))
    return Chosen(tuple(tuple(_cut(one, 1 / each, _at_once(federation))) for one in drawn))


def _all(federation: Federation, held: Integers, share: Floats, batches: bool) -> tuple[Piece, ...]:
    """Return all examples; those of equal weight are put together, unless they must stay in batches."""
    sets = [(federation.partition.of(int(client)), one) for client, one in zip(held, share, strict=True)]
    if not batches:
        alike = {one: [rows for rows, other in sets if other == one] for _, one in sets}
        sets = [(np.concatenate(rows), one) for one, rows in alike.items()]
    size = federation.local.batch_size if batches else _at_once(federation)
    return tuple(piece for rows, one in sets for piece in _cut(rows, float(one), size))


def _drawn_batches(
    federation: Federation, weights: Floats, many: int, chance: np.random.Generator
) -> tuple[Piece, ...]:
    clients = chance.choice(weights.size, many, p=weights / weights.sum())
    return tuple(Piece(batch(federation, int(client), chance), 1 / many) for client in clients)


def _cut(rows: Integers, share: float, size: int) -> Iterator[Piece]:
    """Yield pieces of at most `size` examples, each with its share of the loss."""
    for part in np.array_split(rows, -(-rows.size // size)):
        yield Piece(part, share * part.size)


def _at_once(federation: Federation) -> int:
    values = int(federation.dataset.train_x[0].size)
    return max(1, min(AT_ONCE, VALUES_AT_ONCE // max(1, values)))


class Objective:
    """A loss on chosen examples, around one point."""

    def __init__(self, federation: Federation, params: Tensor, stats: Tensor, chosen: Chosen) -> None:
        self._federation, self.stats, self.chosen = federation, stats, chosen
        self.params = params.detach()
        self._lossy = Lossy(federation.model)
        self._names = [f"module.{name}" for name in federation.model.names]

    def on(self, chosen: Chosen) -> "Objective":
        """Return the same loss on other examples."""
        return Objective(self._federation, self.params, self.stats, chosen)

    def at(self, params: Tensor) -> "Objective":
        """Return the same loss at another point."""
        return Objective(self._federation, params, self.stats, self.chosen)

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
            if slope.requires_grad:  # otherwise the loss is linear
                (image,) = torch.autograd.grad(slope, point, vector)
                total.add_(image, alpha=piece.weight)
        return total

    def _loss(self, point: Tensor, piece: Piece) -> Tensor:
        """Return the mean loss of a piece; random layers draw the same numbers each time."""
        model = self._federation.model
        model.module.train()
        model.begin(self.stats)
        key = int(piece.rows[0])
        if model.random:
            torch.manual_seed(key)
        x, y = self._federation.examples.batch(piece.rows, key, 0)
        value = functional_call(self._lossy, dict(zip(self._names, model.parts(point), strict=True)), (x, y))
        assert isinstance(value, Tensor)
        return value


def mean_of_groups(values: Floats) -> Estimate:
    """Return the mean of independent values with its standard error; a single value is exact and has none."""
    if values.size == 1:
        return Estimate(float(values[0]))
    return Estimate(float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size)), values.size - 1)
