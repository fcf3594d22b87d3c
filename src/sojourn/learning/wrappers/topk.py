"""Top-k: a client sends only the largest numbers of its update, and keeps the rest for the next one.

    C(v) = v at the k places where |v| is largest, 0 elsewhere;     |v - C(v)|^2 <= (1 - k/d) |v|^2

d is the number of parameters and k = ceil(share d). Of equal numbers those that PyTorch's `topk` returns are sent. A
number that is sent takes 32 bits and its place ceil(log2 d) bits; where one bit for each of the d places is shorter,
that is counted.

With share = 1 nothing is left out and the run is the same to the bit.

Stich, Cordonnier, Jaggi, "Sparsified SGD with memory", NeurIPS 2018; Alistarh et al., NeurIPS 2018.
"""

from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.learning.replay.local import Update
from sojourn.learning.wrappers.base import FLOAT, Wrapper, besides, packed
from sojourn.learning.wrappers.feedback import Residual, corrected, left_out

ROUNDING = 1e-9  # a share such as 0.07 of 100 is not a whole number in floating point


@dataclass(frozen=True)
class TopK(Wrapper):
    """Clients send the largest numbers of their updates, with error feedback."""

    share: float = 0.01
    """Share of the numbers that is sent, above 0 and at most 1."""
    feedback: bool = True
    """Whether a client adds what it left out to its next update."""

    name = "topk"

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InvalidInput(f"topk: share must lie above 0 and at most at 1, got {self.share}")

    @property
    def remembers(self) -> bool:  # type: ignore[override]
        """Whether clients keep what they left out."""
        return self.feedback

    def leave(self, kept: Residual | None, update: Update) -> tuple[Residual | None, Update]:
        """Send the largest numbers."""
        wanted = corrected(kept, update.vector)
        sent = self.compressed(wanted)
        bits = packed(wanted.numel(), self.many(wanted.numel()), FLOAT) + besides(update)
        return left_out(wanted, sent, self.feedback), update.with_vector(sent, bits)

    def many(self, size: int) -> int:
        """Return how many of `size` numbers are sent (k)."""
        return min(size, max(1, ceil(self.share * size - ROUNDING)))

    def compressed(self, vector: Tensor) -> Tensor:
        """Return the vector with all but the largest numbers set to zero."""
        many = self.many(vector.numel())
        if many == vector.numel():
            return vector
        places = torch.topk(vector.abs(), many, sorted=False).indices
        return torch.zeros_like(vector).scatter_(0, places, vector[places])
