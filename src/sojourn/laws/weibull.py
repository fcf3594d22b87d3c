"""The Weibull law: a power of an exponential variable."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, gamma, inf, lgamma, log

import numpy as np
from scipy.special import gammaincc

from sojourn.compiled import bare
from sojourn.errors import InvalidInput
from sojourn.laws.kind import LawKind, register
from sojourn.laws.tails import ratio
from sojourn.random import EDGE, HEIGHT, exponential
from sojourn.types import Floats, Integers

LEAST = 0.006  # below this the mean of the standard form overflows


@bare
def draw_weibull(shape: float, scale: float, key: np.uint64) -> tuple[float, np.uint64]:
    """Draw a duration and return it with the stream's next key."""
    x, key = exponential(key, EDGE, HEIGHT)
    return scale * x ** (1.0 / shape), key


@register
@dataclass(frozen=True)
class Weibull(LawKind):
    """P(duration > x) = exp(-(x / s)^k), where s is chosen so that the mean is one."""

    name = "weibull"
    smooth = True
    searched = (0.05, 1e3)
    longest = inf

    shape: float
    """Shape k: 1 is exponential; a smaller k means more long durations."""

    def __post_init__(self) -> None:
        self.check_above("shape", 0.0)

    @property
    def scv(self) -> float:
        """Return Gamma(1 + 2/k) / Gamma(1 + 1/k)^2 - 1, by its series where the logarithms would cancel."""
        x = 1 / self.shape
        if x < 1e-3:
            return math.expm1(1.6449340668482264 * x**2 - 2.4041138063191886 * x**3 + 3.788131317988 * x**4)
        logarithm = lgamma(1 + 2 * x) - 2 * lgamma(1 + x) if x < 1e300 else inf
        return math.expm1(logarithm) if logarithm < 700 else inf

    def _power(self, x: Floats) -> Floats:
        """Return (x / s)^k."""
        return np.exp(np.minimum(self.shape * (np.log(x) + lgamma(1 + 1 / self.shape)), 700.0))

    def log_survival(self, x: Floats) -> Floats:
        """Return -(x / s)^k."""
        return -self._power(x)

    def log_density(self, x: Floats) -> Floats:
        """Return log k + k log(x / s) - log x - (x / s)^k."""
        k, v = self.shape, np.log(x)
        return log(k) + k * (v + lgamma(1 + 1 / k)) - v - self._power(x)

    def mean_beyond(self, x: Floats) -> Floats:
        """Return the mean of the part beyond `x`, divided by its probability."""
        t = self._power(x)
        return ratio(gammaincc(1 + 1 / self.shape, t), np.exp(-t), x)

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """Draw durations at random."""
        return rng.weibull(self.shape, size) / exp(lgamma(1 + 1 / self.shape))

    def numbers(self) -> tuple[float, ...]:
        """Return the shape and the scale s."""
        if self.shape < LEAST:
            raise InvalidInput(f"law weibull: shape must be at least {LEAST:g} to be simulated, got {self.shape:g}")
        return self.shape, 1 / gamma(1 + 1 / self.shape)

    @staticmethod
    def compiled_draw(numbers: Floats, key: np.uint64) -> tuple[float, np.uint64]:
        """Draw from one exponential variable."""
        return draw_weibull(numbers[0], numbers[1], key)

    def information(self) -> float:
        """Return k^2."""
        return self.shape * self.shape

    def likelihood_by_block(
        self, logs: Floats, block: Integers, count: Floats
    ) -> tuple[Callable[[Floats], Floats], Floats]:
        """Compute it from the sums of the powers and of the logarithms in each block."""
        k, size = self.shape, count.size
        shift = lgamma(1 + 1 / k)
        top = np.full(size, -np.inf)
        np.maximum.at(top, block, logs)
        power = k * (top + shift) + np.log(np.bincount(block, np.exp(k * (logs - top[block])), size))
        fixed = count * (log(k) + k * shift) + k * np.bincount(block, logs, size)
        return lambda u: fixed + k * count * u - np.exp(k * u + power), (np.log(count) - power) / k
