"""Stochastic gradients of many clients at one point, boiled down to what noise and heterogeneity need.

Only sums survive: of a client's gradients over the rounds of a group, and squared lengths. Two vectors a client are
held at a time, however many rounds there are. BatchNorm runs as in training, on each batch's own statistics.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sojourn.learning.calibrate.sample import Design, batch, generator, still
from sojourn.learning.replay.federation import Federation
from sojourn.types import Flags, Floats

MODEL_SEED = 0x7FFF_FFFF_FFFF_FFFF


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
    still: Flags
    """Clients asked whose gradients are the same in every round, up to rounding."""


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
    share = torch.as_tensor(weights, dtype=params.dtype, device=params.device)
    for group in range(design.groups):
        total = params.new_zeros(design.asked.size, params.numel())
        for k in range(design.size):
            stack = _round(federation, params, stats, design, (seed, group, k))
            total += stack
            found["squares"][group] += _lengths(stack, directions)
            found["away_squares"][group] += _lengths(stack - share @ stack, directions)
            if watch is not None:
                watch()
        found["squared_sum"][group] = _lengths(total, directions)
        found["away_squared_sum"][group] = _lengths(total - share @ total, directions)
    return Sums(design.size, **found, still=still(federation)[design.asked])


def _round(federation: Federation, params: Tensor, stats: Tensor, design: Design, name: tuple[int, ...]) -> Tensor:
    """One gradient of every client asked, one row each."""
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
    """Squared length of each row, and its squared coordinates."""
    whole = rows.square().sum(1, dtype=torch.float64)[:, None]
    along = (rows @ directions.T).double().square()
    return np.asarray(torch.cat([whole, along], dim=1).cpu().numpy())
