"""Mean: all updates count. One liar can move it anywhere. The buffer takes one model of memory."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Mean:
    """The mean of the updates."""

    follows = False
    keeps_each = False

    def is_mean(self, many: int) -> bool:
        """It is."""
        return True

    def add(self, held: Tensor | None, update: Tensor, factor: float) -> Tensor:
        """Add the update to the sum."""
        return update * factor if held is None else torch.add(held, update, alpha=factor)

    def combined(self, held: Tensor, many: int, last: Tensor | None) -> tuple[Tensor, float]:
        """Return the sum, and one over the number of updates."""
        return held, 1.0 / many
