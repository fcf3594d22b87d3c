"""Low rank: a client sends each matrix of its update as a product of two thin ones, with error feedback.

    P <- orthonormal(M Q),   Q <- M^T P,     C(M) = P Q^T = P P^T M

M is the m x n matrix of a parameter (kernels and higher tensors as m = first dimension), Q is n x r and begins at
random, then with the client's last one, so that P converges to the leading directions of its updates. C(M) is a
projection: |M - C(M)|^2 = |M|^2 - |C(M)|^2. A matrix takes 32 r (m + n) bits; vectors, and matrices for which that is
no less, are sent as they are. So with a large rank nothing is left out and the run is the same to the bit.

Besides the residual a client keeps Q of each matrix. This is PowerSGD's compressor with each client's own power
iteration: clients of an asynchronous federation have no common M.

Vogels, Karimireddy, Jaggi, "PowerSGD", NeurIPS 2019.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, Self

import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.learning.layout import Layout
from sojourn.learning.replay.local import Update
from sojourn.learning.storable import storable
from sojourn.learning.wrappers.base import FLOAT, Wrapper, besides, random_of
from sojourn.learning.wrappers.feedback import Residual, corrected, left_out


@storable("lowrank.kept")
class Kept(NamedTuple):
    """What a client keeps."""

    residual: Residual | None
    """What it has not sent yet."""
    bases: tuple[Tensor, ...]
    """Q of each matrix that is compressed."""


@dataclass(frozen=True)
class LowRank(Wrapper):
    """Clients send matrices of low rank, with error feedback."""

    rank: int = 2
    """Rank of what is sent (r)."""
    feedback: bool = True
    """Whether a client adds what it left out to its next update."""
    layout: Layout | None = field(default=None, repr=False)
    """Where each matrix lies; a run sets it."""

    name = "lowrank"
    remembers = True

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise InvalidInput(f"lowrank: rank must be at least 1, got {self.rank}")

    def for_model(self, layout: Layout) -> Self:
        """Take note of the model's matrices."""
        return type(self)(self.rank, self.feedback, layout)

    def leave(self, kept: Kept | None, update: Update) -> tuple[Kept, Update]:
        """Send matrices of low rank."""
        wanted = corrected(None if kept is None else kept.residual, update.vector)
        bases = () if kept is None else kept.bases
        sent, bases, numbers = self.compressed(wanted, bases, random_of(self, update))
        residual = left_out(wanted, sent, self.feedback)
        return Kept(residual, bases), update.with_vector(sent, FLOAT * numbers + besides(update))

    def compressed(
        self, vector: Tensor, bases: tuple[Tensor, ...], random: torch.Generator
    ) -> tuple[Tensor, tuple[Tensor, ...], int]:
        """Return what is sent, the new bases, and how many numbers are sent."""
        if self.layout is None or self.layout.size != vector.numel():
            raise InvalidInput("lowrank must know the model's matrices, it was not told; write wrap=... for the run")
        parts: list[Tensor] = []
        new: list[Tensor] = []
        numbers = 0
        for part in self.layout.parts(vector):
            rows, columns = (part.shape[0], part[0].numel()) if part.dim() > 1 else (1, part.numel())
            few = self.rank * (rows + columns)
            if few >= part.numel():
                parts.append(part)
                numbers += part.numel()
                continue
            matrix = part.reshape(rows, columns)
            basis = bases[len(new)] if bases else _random(columns, self.rank, random, vector)
            left = torch.linalg.qr(matrix @ basis).Q
            right = matrix.T @ left
            parts.append((left @ right.T).view(part.shape))
            new.append(right)
            numbers += few
        return self.layout.flatten(parts) if new else vector, tuple(new), numbers


def _random(rows: int, columns: int, random: torch.Generator, like: Tensor) -> Tensor:
    return torch.randn(rows, columns, generator=random, dtype=like.dtype, device=like.device)
