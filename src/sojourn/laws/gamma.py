"""The gamma law; with a whole shape it is Erlang's law, the sum of that many exponential stages."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, lgamma, log
from typing import Any

import numpy as np
from scipy.special import gammaincc

from sojourn.compiled import bare
from sojourn.errors import InvalidInput
from sojourn.laws.kind import LawKind, register
from sojourn.laws.tails import TINY, ratio
from sojourn.random import MOVE, mix, normal, unit
from sojourn.shown import short
from sojourn.types import Floats, Integers


@bare
def draw_gamma(shape: float, key: np.uint64) -> tuple[float, np.uint64]:
    """Draw a gamma variable divided by its shape, so that the mean is one (Marsaglia and Tsang)."""
    lifted = shape if shape >= 1.0 else shape + 1.0
    d = lifted - 1.0 / 3.0
    c = 1.0 / np.sqrt(9.0 * d)
    while True:
        z, key = normal(key)
        v = (1.0 + c * z) ** 3
        key += MOVE
        if v > 0.0 and np.log(1.0 - unit(mix(key))) < 0.5 * z * z + d - d * v + d * np.log(v):
            break
    value = d * v
    if shape < 1.0:
        key += MOVE
        value *= (1.0 - unit(mix(key))) ** (1.0 / shape)
    return value / shape, key


@register
@dataclass(frozen=True)
class Gamma(LawKind):
    """Density x^(k-1) exp(-k x), up to a factor."""

    name = "gamma"
    smooth = True
    searched = (0.02, 1e6)
    longest = inf

    shape: float
    """Shape k: 1 is exponential, more is more regular."""

    def __post_init__(self) -> None:
        self.check_above("shape", 0.0)

    @classmethod
    def read(cls, name: str, inside: str | None) -> dict[str, Any]:
        """Read the shape; that of `erlang` must be a whole number."""
        if name == "erlang" and inside is not None:
            value = inside.partition("=")[2].strip()
            if not value.isdecimal() or float(value) < 1:
                raise InvalidInput(
                    f"law erlang: shape must be a whole number of at least 1, got '{short(value)}'; or use gamma"
                )
        return super().read(name if inside is None else "gamma", inside)

    @property
    def scv(self) -> float:
        """Return 1 / k."""
        return 1.0 / self.shape

    def log_survival(self, x: Floats) -> Floats:
        """Compute it from the incomplete gamma function."""
        return np.asarray(np.log(np.maximum(gammaincc(self.shape, self.shape * x), TINY)))

    def log_density(self, x: Floats) -> Floats:
        """Return k log k - log Gamma(k) + (k - 1) log x - k x."""
        k = self.shape
        return k * log(k) - lgamma(k) + (k - 1) * np.log(x) - k * x

    def mean_beyond(self, x: Floats) -> Floats:
        """Return the mean of the part beyond `x`, divided by its probability."""
        k = self.shape
        return ratio(gammaincc(k + 1, k * x), gammaincc(k, k * x), x)

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """Draw durations at random."""
        return rng.gamma(self.shape, 1 / self.shape, size)

    def numbers(self) -> tuple[float, ...]:
        """Return the shape."""
        return (self.shape,)

    @staticmethod
    def compiled_draw(numbers: Floats, key: np.uint64) -> tuple[float, np.uint64]:
        """Draw by rejection from a cubed normal variable."""
        return draw_gamma(numbers[0], key)

    def information(self) -> float:
        """Return the shape k."""
        return self.shape

    def likelihood_by_block(
        self, logs: Floats, block: Integers, count: Floats
    ) -> tuple[Callable[[Floats], Floats], Floats]:
        """Compute it from the sums of the durations and of their logarithms in each block."""
        k = self.shape
        total = np.bincount(block, np.exp(logs), count.size)
        fixed = count * (k * log(k) - lgamma(k)) + k * np.bincount(block, logs, count.size)
        return lambda u: fixed + k * (count * u - np.exp(u) * total), np.log(count / total)
