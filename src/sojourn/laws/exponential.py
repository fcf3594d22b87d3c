"""The exponential law: durations without memory, the paper's law and the only one with exact formulas for queues."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np

from sojourn.laws.kind import LawKind, register
from sojourn.random import EDGE, HEIGHT, exponential
from sojourn.types import Floats, Integers


@register
@dataclass(frozen=True)
class Exponential(LawKind):
    """P(duration > x) = exp(-x)."""

    name = "exponential"
    smooth = True
    scv = 1.0
    longest = inf

    def log_survival(self, x: Floats) -> Floats:
        """Return -x."""
        return -x

    def log_density(self, x: Floats) -> Floats:
        """Return -x."""
        return -x

    def mean_beyond(self, x: Floats) -> Floats:
        """Return x + 1: the rest lasts as long as if the duration had just begun."""
        return 1 + x

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """Draw durations at random."""
        return rng.exponential(size=size)

    def numbers(self) -> tuple[float, ...]:
        """Return no numbers: the draw needs none."""
        return ()

    @staticmethod
    def compiled_draw(numbers: Floats, key: np.uint64) -> tuple[float, np.uint64]:
        """Draw by the ziggurat of `sojourn.random`."""
        return exponential(key, EDGE, HEIGHT)

    def information(self) -> float:
        """Return one."""
        return 1.0

    def likelihood_by_block(
        self, logs: Floats, block: Integers, count: Floats
    ) -> tuple[Callable[[Floats], Floats], Floats]:
        """Compute it from the sum of each block."""
        total = np.bincount(block, np.exp(logs), count.size)
        fixed = np.bincount(block, logs, count.size)
        return lambda u: fixed + (count * u - np.exp(u) * total), np.log(count / total)
