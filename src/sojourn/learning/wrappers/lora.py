"""LoRA: every linear layer gets an adapter of low rank, and only the adapters are trained and sent.

    y = W x + b + (scale / r) B A x

W and b are frozen, A is r x in and begins at random, B is out x r and begins at zero, so that the first model computes
what it did before. Everything else in the model is frozen too. The server sends and averages the adapters alone; the
mean of B_i A_i over clients is not the product of the means, which is the usual approximation. model.safetensors has
all parameters, the adapters as `adapter_a` and `adapter_b` of their layer.

It is meant for models that were trained before; from random weights only adapters learn.

Hu, Shen, Wallis, Allen-Zhu, Li, Wang, Wang, Chen, ICLR 2022.
"""

from dataclasses import dataclass
from math import isfinite, sqrt

import torch
from torch import Tensor, nn

from sojourn.errors import InvalidInput
from sojourn.learning.wrappers.base import Wrapper


@dataclass(frozen=True)
class Lora(Wrapper):
    """Linear layers get adapters of low rank, and only these are trained and sent."""

    rank: int = 4
    """Rank of the adapters (r)."""
    scale: float = 4.0
    """Factor of the adapters, divided by the rank."""

    name = "lora"

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise InvalidInput(f"lora: rank must be at least 1, got {self.rank}")
        if not (isfinite(self.scale) and self.scale > 0):
            raise InvalidInput(f"lora: scale must be positive and finite, got {self.scale}")

    def of_module(self, module: nn.Module, seed: int) -> nn.Module:
        """Freeze the module and put adapters into its linear layers."""
        random = torch.Generator().manual_seed(seed)
        module.requires_grad_(False)
        if isinstance(module, nn.Linear):
            return AdaptedLinear(module, self.rank, self.scale, random)
        many = 0
        for parent in list(module.modules()):
            for name, child in list(parent.named_children()):
                if type(child) is nn.Linear:
                    setattr(parent, name, AdaptedLinear(child, self.rank, self.scale, random))
                    many += 1
        if many == 0:
            raise InvalidInput(f"lora needs linear layers, {type(module).__name__} has none; use lowrank or subset")
        return module


class AdaptedLinear(nn.Module):
    """A frozen linear layer with an adapter."""

    def __init__(self, layer: nn.Linear, rank: int, scale: float, random: torch.Generator) -> None:
        super().__init__()
        self.weight, self.bias, self.scale = layer.weight, layer.bias, scale / rank
        like = layer.weight
        first = torch.randn(rank, layer.in_features, generator=random) / sqrt(layer.in_features)
        self.adapter_a = nn.Parameter(first.to(like.device, like.dtype))
        self.adapter_b = nn.Parameter(torch.zeros(layer.out_features, rank, device=like.device, dtype=like.dtype))

    def forward(self, x: Tensor) -> Tensor:
        """The layer and its adapter."""
        adapted = nn.functional.linear(nn.functional.linear(x, self.adapter_a), self.adapter_b)
        return nn.functional.linear(x, self.weight, self.bias) + self.scale * adapted
