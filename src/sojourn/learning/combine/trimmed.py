"""Trimmed mean: at each place the largest and the smallest numbers are left out, then the mean is taken.

Of Z updates b = ceil(share Z) are left out at either end, so up to b liars cannot move a number beyond the honest ones.
With share = 0 it is the mean. The buffer takes Z models of memory, and as much again when it is full.

Yin, Chen, Ramchandran, Bartlett, ICML 2018.
"""

from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.learning.combine.base import Each

ROUNDING = 1e-9  # a share such as 0.28 of 25 is not a whole number in floating point


@dataclass(frozen=True)
class Trimmed(Each):
    """The mean without the largest and smallest numbers at each place."""

    share: float = 0.1
    """Share of the updates that is left out at either end, from 0 to below one half."""

    def __post_init__(self) -> None:
        if not 0 <= self.share < 0.5:
            raise InvalidInput(f"trimmed: share must lie in [0, 0.5), got {self.share}")

    def is_mean(self, many: int) -> bool:
        """Where nothing is left out."""
        return self._left_out(many) == 0

    def _left_out(self, many: int) -> int:
        return min(ceil(self.share * many - ROUNDING), (many - 1) // 2)

    def combined(self, held: tuple[Tensor, ...], many: int, last: Tensor | None) -> tuple[Tensor, float]:
        """Return the trimmed mean; of one or two updates, which leave nothing to trim, the mean."""
        out = self._left_out(many)
        ordered = torch.stack(held).sort(dim=0).values
        return ordered[out : many - out].mean(dim=0), 1.0
