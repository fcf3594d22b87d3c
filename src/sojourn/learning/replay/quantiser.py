"""The lattice quantiser of QuAFL: a few bits per number, decoded with the help of the receiver's own vector.

    enc(x) = round(x / a) mod q,     dec(c; y) = a q round( y/(a q) - c/q ) + a c

a side of the lattice, q = 2^bits, y the receiver's own vector. The result is within a/2 of x wherever
|x - y| < a (q - 1) / 2, and silently wrong elsewhere; `Lattice.reach` is that range.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from sojourn.errors import InvalidInput


@dataclass(frozen=True)
class Lattice:
    """A lattice with a side and a number of bits."""

    side: float = 1e-4
    """Distance between neighbouring points (a)."""
    bits: int = 14
    """Bits per number."""

    def __post_init__(self) -> None:
        if not self.side > 0:
            raise InvalidInput(f"the side of the lattice must be positive, got {self.side}")
        if not 1 <= self.bits <= 32:
            raise InvalidInput(f"the bits of the lattice must lie between 1 and 32, got {self.bits}")

    @property
    def reach(self) -> float:
        """Largest allowed difference between the sender's and the receiver's numbers."""
        return self.side * float(2**self.bits - 1) / 2

    def encode(self, x: Tensor) -> Tensor:
        """Return what is sent: whole numbers below 2^bits."""
        return torch.remainder(torch.round(x.double() / self.side), 2.0**self.bits).to(torch.int64)

    def decode(self, code: Tensor, key: Tensor) -> Tensor:
        """Return the vector, decoded with the receiver's own as key."""
        levels = 2.0**self.bits
        whole, exact = self.side * levels, code.double()  # whole numbers would be divided in single precision
        point = whole * torch.round(key.double() / whole - exact / levels) + self.side * exact
        return point.to(key.dtype)

    def through(self, x: Tensor, key: Tensor) -> Tensor:
        """Return what a receiver that has `key` gets when x is sent."""
        return self.decode(self.encode(x), key)
