"""Layout: where each parameter of a model lies in its flat vector."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """The parameters of a flat vector, in their order."""

    names: tuple[str, ...]
    """Their names in the module."""
    shapes: tuple[torch.Size, ...]
    """Their shapes."""
    channels_last: bool = False
    """Whether convolution kernels lie in the vector with their channels last, which is fast on GPUs."""

    @property
    def size(self) -> int:
        """Number of numbers in the vector."""
        return sum(shape.numel() for shape in self.shapes)

    def flatten(self, parts: Sequence[Tensor]) -> Tensor:
        """Return one vector of tensors with these shapes."""
        if self.channels_last:
            parts = [part.permute(0, 2, 3, 1) if part.dim() == 4 else part for part in parts]
        return torch.cat([part.reshape(-1) for part in parts])

    def parts(self, flat: Tensor) -> list[Tensor]:
        """Return the parameters as views of a vector, or of many stacked vectors."""
        many, sizes = flat.shape[:-1], [shape.numel() for shape in self.shapes]
        pieces = zip(torch.split(flat, sizes, dim=-1), self.shapes, strict=True)
        return [_kernel(piece, shape) if self.channels_last else piece.view(*many, *shape) for piece, shape in pieces]


def _kernel(piece: Tensor, shape: torch.Size) -> Tensor:
    many = piece.shape[:-1]
    if len(shape) != 4:
        return piece.view(*many, *shape)
    out, depth, height, width = shape
    return piece.view(*many, out, height, width, depth).movedim(-1, -3)
