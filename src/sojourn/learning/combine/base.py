"""Combination: how a server turns the updates in its buffer into one.

A combination is a frozen dataclass with two methods, which change nothing in place:

    add(held, update, factor) -> held             put `factor` times an update into the buffer; None = it is empty
    combined(held, many, last) -> (vector, factor)   what the server steps along: `factor` times the vector, of `many`
                                                  updates; `last` is the vector of the buffer before, None at first

A buffered method keeps `held` in its state, and calls `add` for each update and `combined` when the buffer is full.
`held` is a tensor or a tuple of tensors.

For `sojourn algorithms` it may also say `keeps_each`, whether the buffer keeps every update instead of a sum, and
`is_mean(many)`, whether it is the mean where the buffer holds `many` updates, so that the method stays unbiased.
"""

from typing import Any, Protocol

from torch import Tensor


class Combination(Protocol):
    """What a combination must define."""

    @property
    def follows(self) -> bool:
        """Whether it needs the vector of the buffer before."""

    def add(self, held: Any, update: Tensor, factor: float) -> Any:
        """Return the buffer with one more update."""

    def combined(self, held: Any, many: int, last: Tensor | None) -> tuple[Tensor, float]:
        """Return a vector and the factor by which it counts."""


class Each:
    """Base of combinations that need every update of the buffer: as many models as the buffer has places."""

    follows = False
    keeps_each = True

    def add(self, held: tuple[Tensor, ...] | None, update: Tensor, factor: float) -> tuple[Tensor, ...]:
        """Keep the update."""
        return (*(held or ()), update * factor)
