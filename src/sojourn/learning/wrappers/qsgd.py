"""QSGD: a client rounds its numbers at random to a few levels, so that the mean of what it sends is its update.

    Q(v)_i = |v| sgn(v_i) r_i / s,    r_i = floor(a_i + U),  U uniform on [0, 1),  a_i = s |v_i| / |v|

s is the number of levels and |v| the norm of the bucket that v_i lies in. E Q(v) = v, and E |Q(v) - v|^2 is at most
min(b/s^2, sqrt(b)/s) |v|^2 for buckets of b numbers. A number takes one bit for its sign and ceil(log2(s + 1)) bits for
its level; a bucket takes 32 bits for its norm. Where many numbers are zero, as after topk, only the others and their
places are counted. (Elias coding, as in the paper, would be shorter still.)

There is no error feedback: the rounding is unbiased. With levels = inf nothing is rounded and the run is the same to
the bit.

Alistarh, Grubic, Li, Tomioka, Vojnovic, NeurIPS 2017.
"""

from dataclasses import dataclass
from math import isinf
from typing import Any

import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.learning.replay.local import Update
from sojourn.learning.wrappers.base import FLOAT, Wrapper, besides, nonzeros, packed, random_of


@dataclass(frozen=True)
class Qsgd(Wrapper):
    """Clients round their numbers at random to a few levels, without a bias."""

    levels: float = 15
    """Levels above zero (s), a whole number; inf = no rounding."""
    bucket: int = 512
    """Numbers that share a norm (b)."""

    name = "qsgd"

    def __post_init__(self) -> None:
        if not (self.levels >= 1 and (isinf(self.levels) or self.levels == int(self.levels) <= 2**24)):
            raise InvalidInput(f"qsgd: levels must be a whole number from 1 to 2^24, or inf, got {self.levels}")
        if self.bucket < 1:
            raise InvalidInput(f"qsgd: bucket must be at least 1, got {self.bucket}")

    def leave(self, kept: Any, update: Update) -> tuple[Any, Update]:
        """Send the rounded numbers."""
        if isinf(self.levels):
            return kept, update
        sent = self.rounded(update.vector, random_of(self, update))
        size, width = sent.numel(), 1 + int(self.levels).bit_length()
        norms = FLOAT * -(-size // self.bucket)
        return kept, update.with_vector(sent, packed(size, nonzeros(sent), width) + norms + besides(update))

    def rounded(self, vector: Tensor, random: torch.Generator) -> Tensor:
        """Return the vector rounded at random."""
        size = vector.numel()
        many = -(-size // self.bucket)
        rows = torch.zeros(many * self.bucket, dtype=vector.dtype, device=vector.device)
        rows[:size] = vector
        rows = rows.view(many, self.bucket)
        norm = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        scaled = rows.abs() * (self.levels / torch.where(norm > 0, norm, torch.ones_like(norm)))
        chance = torch.rand(rows.shape, generator=random, dtype=vector.dtype, device=vector.device)
        level = torch.floor(scaled + chance).clamp_(max=self.levels)
        rounded: Tensor = level * (norm / self.levels) * rows.sign()
        return rounded.view(-1)[:size]
