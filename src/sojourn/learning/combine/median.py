"""Coordinate median: each number is the median of the updates' numbers at its place.

With Z updates, fewer than Z/2 liars cannot move a number beyond the honest ones. The median of clients' updates is not
their mean even if nobody lies: with unlike data it is biased. The buffer takes Z models of memory, and as much again
when it is full.

Yin, Chen, Ramchandran, Bartlett, ICML 2018.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from sojourn.learning.combine.base import Each


@dataclass(frozen=True)
class Median(Each):
    """The median at each place; of an even number the mean of the two in the middle."""

    def is_mean(self, many: int) -> bool:
        """Of two updates it is."""
        return many <= 2

    def combined(self, held: tuple[Tensor, ...], many: int, last: Tensor | None) -> tuple[Tensor, float]:
        """Return the median."""
        ordered = torch.stack(held).sort(dim=0).values
        return (ordered[(many - 1) // 2] + ordered[many // 2]) / 2, 1.0
