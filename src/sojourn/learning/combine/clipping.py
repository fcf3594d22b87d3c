"""Centred clipping: updates are pulled towards what the buffer before gave, as far as they are more than a radius away.

    v <- v + (1/Z) sum_j (u_j - v) min(1, r / |u_j - v|)        `rounds` times, beginning with the last v, 0 at first

A liar moves the result by r/Z per round at most. r must be about the spread of honest updates: much smaller slows
training down, much larger lets liars in. With r = inf it is the mean. The buffer takes Z models of memory,
and one for v.

Karimireddy, He, Jaggi, "Learning from history for Byzantine robust optimization", ICML 2021.
"""

from dataclasses import dataclass
from math import isinf

import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.learning.combine.base import Each


@dataclass(frozen=True)
class Clipping(Each):
    """The mean of updates that are clipped around the last result."""

    radius: float = 1.0
    """Distance from the last result up to which an update counts fully (r)."""
    rounds: int = 1
    """How often the centre is moved."""

    follows = True

    def __post_init__(self) -> None:
        if not self.radius > 0:
            raise InvalidInput(f"clipping: radius must be positive, got {self.radius}")
        if self.rounds < 1:
            raise InvalidInput(f"clipping: rounds must be at least 1, got {self.rounds}")

    def is_mean(self, many: int) -> bool:
        """Where nothing is clipped."""
        return isinf(self.radius)

    def combined(self, held: tuple[Tensor, ...], many: int, last: Tensor | None) -> tuple[Tensor, float]:
        """Return the new centre."""
        updates = torch.stack(held)
        centre = torch.zeros_like(updates[0]) if last is None else last
        for _ in range(self.rounds):
            away = updates - centre
            far = torch.linalg.vector_norm(away, dim=1, keepdim=True)
            scale = torch.where(far > self.radius, self.radius / far, torch.ones_like(far))
            centre = centre + (away * scale).mean(dim=0)
        return centre, 1.0
