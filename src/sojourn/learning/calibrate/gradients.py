"""Stochastic gradients of many clients at one point, reduced to the sums that noise and heterogeneity need.

A `Design` says which clients compute gradients, how often, and on which of their examples. Only sums are kept: of a
client's gradients over the rounds of a group, and of squared lengths. Two vectors per client are held at a time,
however many rounds there are. BatchNorm runs as in training, on each batch's own statistics.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.learning.replay.federation import Federation
from sojourn.types import Flags, Floats, Integers

ROUNDS = 4  # fewest gradients of a client: two groups of two
FREEDOM = 16  # degrees of freedom that the groups of all clients together should have
_MEASURE = 0x63616C69  # keeps these streams apart from all others of the same seed
MODEL_SEED = 0x7FFF_FFFF_FFFF_FFFF


def generator(seed: int, *purpose: int) -> np.random.Generator:
    """Return the random generator of a seed for one purpose."""
    return np.random.default_rng(np.random.SeedSequence((seed, _MEASURE, *purpose)))


@dataclass(frozen=True)
class Design:
    """In each of `groups` * `size` rounds every client asked computes one gradient; rounds are independent."""

    asked: Integers
    """The clients that compute gradients: all, or a random sample."""
    clients: int
    """Number of clients."""
    groups: int
    """Number of groups of rounds; every group gives its own estimate."""
    size: int
    """Rounds of a group, at least two."""

    @property
    def gradients(self) -> int:
        """Gradients at one point."""
        return self.asked.size * self.groups * self.size

    @classmethod
    def of(cls, clients: int, gradients: int, seed: int, pace: Floats | None = None) -> "Design":
        """Plan as many clients as `gradients` per point allow with four rounds each, and then more rounds.

        If not all are asked, every client is equally likely; with their `pace`, fast and slow ones are taken in
        proportion.

        >>> design = Design.of(clients=10, gradients=133, seed=0)
        >>> design.asked.size, design.groups, design.size
        (10, 3, 4)
        """
        least = min(clients, 2) * ROUNDS
        if gradients < least:
            raise InvalidInput(f"gradients must be at least {least} for each point, got {gradients}; give more")
        many = min(clients, gradients // ROUNDS)
        rounds = gradients // many
        groups = min(rounds // 2, 1 + max(1, -(-FREEDOM // many)))
        chance = generator(seed, 0)
        queue = chance.permutation(clients)
        if pace is None or many == clients or np.unique(pace).size == 1:
            return cls(np.sort(queue[:many]), clients, groups, rounds // groups)
        queue = queue[np.argsort(pace[queue], kind="stable")]
        places = ((np.arange(many) + chance.random()) * clients / many).astype(np.int64)
        return cls(np.sort(queue[places]), clients, groups, rounds // groups)


def still(federation: Federation) -> Flags:
    """Return which clients' gradients have no noise: every batch holds all their examples, and
    nothing else is random.
    """
    chance = federation.order == "independent" or federation.model.random or federation.examples.augmented
    return np.asarray((federation.partition.sizes <= federation.local.batch_size) & (not chance))


def batch(federation: Federation, client: int, chance: np.random.Generator) -> Integers:
    """Return the examples of a client's stochastic gradient, drawn as in training."""
    mine, size = federation.partition.of(client), federation.batches.size(client)
    if federation.order == "independent":
        return mine[chance.integers(mine.size, size=size)]
    return mine[chance.permutation(mine.size)[:size]]


@dataclass(frozen=True)
class Sums:
    """Sums over the rounds k of each group, [groups, clients asked, directions]; g are gradients, d = g - mean g.

    Direction 0 is the whole space, with squared lengths; the others are given unit vectors, with squared coordinates.
    """

    size: int
    """Rounds of a group."""
    squares: Floats
    """sum |g_k|^2"""
    squared_sum: Floats
    """|sum g_k|^2"""
    away_squares: Floats
    """sum |d_k|^2; the mean is that over the clients in the same round."""
    away_squared_sum: Floats
    """|sum d_k|^2"""
    products: Floats
    """<g_i, g_j> of two clients' mean gradients, from different rounds: [clients asked, clients asked]"""
    still: Flags
    """Which clients have the same gradient in every round, up to rounding."""


def gather(
    federation: Federation,
    params: Tensor,
    stats: Tensor,
    design: Design,
    weights: Floats,
    directions: Tensor,
    seed: int,
    watch: Callable[[], None] | None = None,
) -> Sums:
    """Compute the gradients of a design at a point; `weights` are those of the clients asked, with sum 1."""
    shape = (design.groups, design.asked.size, 1 + len(directions))
    found = {key: np.zeros(shape) for key in ("squares", "squared_sum", "away_squares", "away_squared_sum")}
    products = params.new_zeros(design.asked.size, design.asked.size, dtype=torch.float64)
    share = torch.as_tensor(weights, dtype=params.dtype, device=params.device)
    for group in range(design.groups):
        total = params.new_zeros(design.asked.size, params.numel())
        for k in range(design.size):
            stack = _round(federation, params, stats, design, (seed, group, k))
            total += stack
            products -= (stack @ stack.T).double()
            found["squares"][group] += _lengths(stack, directions)
            found["away_squares"][group] += _lengths(stack - share @ stack, directions)
            if watch is not None:
                watch()
        products += (total @ total.T).double()
        found["squared_sum"][group] = _lengths(total, directions)
        found["away_squared_sum"][group] = _lengths(total - share @ total, directions)
    pairs = design.groups * design.size * (design.size - 1)
    return Sums(design.size, **found, products=products.cpu().numpy() / pairs, still=still(federation)[design.asked])


def _round(federation: Federation, params: Tensor, stats: Tensor, design: Design, name: tuple[int, ...]) -> Tensor:
    """Return one gradient of every client asked, one row each."""
    model = federation.model
    model.module.train()
    rows = []
    for client in design.asked.tolist():
        chance = generator(federation.seed, 1, *name, client)
        examples = batch(federation, client, chance)
        key = int(chance.integers(MODEL_SEED))
        model.begin(stats)
        if model.random:
            torch.manual_seed(key)
        rows.append(model.gradient(params, *federation.examples.batch(examples, key, 0))[0])
    return torch.stack(rows)


def _lengths(rows: Tensor, directions: Tensor) -> Floats:
    """Return the squared length of each row, and its squared coordinates."""
    whole = rows.square().sum(1, dtype=torch.float64)[:, None]
    along = (rows @ directions.T).double().square()
    return np.asarray(torch.cat([whole, along], dim=1).cpu().numpy())
