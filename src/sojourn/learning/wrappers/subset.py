"""Subset: only some parameters are trained and sent; the others stay as they are at the start.

The others are no part of the model that the server sends, so that both ways take fewer bits, and the local steps
compute no gradients for them. The names are those of the module; `*` stands for anything, `+` separates several:
`subset(names=head.*+*.bias)`. model.safetensors has all parameters.

Zaken, Goldberg, Ravfogel, "BitFit", ACL 2022, trains the biases; Sun, Khalid, Mendieta, Wang, Chen, "FedPEFT", 2022,
sends subsets in a federation.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import nn

from sojourn.errors import InvalidInput
from sojourn.learning.wrappers.base import Wrapper


@dataclass(frozen=True)
class Subset(Wrapper):
    """Only the parameters with these names are trained and sent."""

    names: str = "*"
    """Names of the parameters, with * for anything and + between several."""

    name = "subset"

    def __post_init__(self) -> None:
        if not self.names.strip("+ "):
            raise InvalidInput(f"subset: names must name parameters, got '{self.names}'; write names=*.bias")

    def of_module(self, module: nn.Module, seed: int) -> nn.Module:
        """Freeze the other parameters."""
        wanted = [one.strip() for one in self.names.split("+")]
        known = [name for name, _ in module.named_parameters()]
        for one in wanted:
            if not any(fnmatchcase(name, one) for name in known):
                raise InvalidInput(f"subset: the model must have a parameter {one}, its names are {', '.join(known)}")
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(parameter.requires_grad and any(fnmatchcase(name, one) for one in wanted))
        return module
