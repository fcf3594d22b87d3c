"""Scaled sign: a client sends the signs of its numbers and their mean size, with error feedback.

    C(v) = (|v|_1 / d) sgn(v),     |v - C(v)|^2 = |v|^2 - |v|_1^2 / d <= (1 - 1/d) |v|^2

|v|_1 is the sum of absolute values and d the number of parameters; the sign of zero is plus, so that a sign takes one
bit. An update takes d bits and 32 for its scale. Without error feedback the method need not converge.

Karimireddy, Rebjock, Stich, Jaggi, "Error feedback fixes SignSGD", ICML 2019.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from sojourn.learning.replay.local import Update
from sojourn.learning.wrappers.base import FLOAT, Wrapper, besides
from sojourn.learning.wrappers.feedback import Residual, corrected, left_out


@dataclass(frozen=True)
class Sign(Wrapper):
    """Clients send the signs of their numbers and one scale, with error feedback."""

    feedback: bool = True
    """Whether a client adds what it left out to its next update."""

    name = "sign"

    @property
    def remembers(self) -> bool:  # type: ignore[override]
        """Whether clients keep what they left out."""
        return self.feedback

    def leave(self, kept: Residual | None, update: Update) -> tuple[Residual | None, Update]:
        """Send signs and scale."""
        wanted = corrected(kept, update.vector)
        sent = self.compressed(wanted)
        bits = wanted.numel() + FLOAT + besides(update)
        return left_out(wanted, sent, self.feedback), update.with_vector(sent, bits)

    def compressed(self, vector: Tensor) -> Tensor:
        """Return the mean size with the vector's signs."""
        scale = vector.abs().mean()
        return torch.where(vector >= 0, scale, -scale)
