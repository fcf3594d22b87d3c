r"""The lognormal law: exp(\sigma z - \sigma^2 / 2), z standard normal."""

from collections.abc import Callable
from dataclasses import dataclass
from math import expm1, inf, log, pi

import numpy as np
from scipy.special import log_ndtr, ndtr

from sojourn.compiled import bare
from sojourn.laws.kind import LawKind, register
from sojourn.laws.tails import ratio
from sojourn.random import normal
from sojourn.types import Floats, Integers


@bare
def draw_lognormal(sigma: float, key: np.uint64) -> tuple[float, np.uint64]:
    """Draw a duration and return it with the stream's next key."""
    z, key = normal(key)
    return np.exp(sigma * z - 0.5 * sigma * sigma), key


@register
@dataclass(frozen=True)
class Lognormal(LawKind):
    """The logarithm is normal with standard deviation sigma."""

    name = "lognormal"
    smooth = True
    searched = (1e-3, 5.0)
    longest = inf

    sigma: float
    """Standard deviation of the logarithm."""

    def __post_init__(self) -> None:
        self.check_above("sigma", 0.0)

    @property
    def scv(self) -> float:
        """Return exp(sigma^2) - 1."""
        return expm1(self.sigma * self.sigma) if self.sigma < 26 else inf

    def log_survival(self, x: Floats) -> Floats:
        """Compute it from the normal law of the logarithm."""
        return np.asarray(log_ndtr(-(np.log(x) + self.sigma * self.sigma / 2) / self.sigma))

    def log_density(self, x: Floats) -> Floats:
        """Compute it from the normal law of the logarithm."""
        v = np.log(x)
        z = (v + self.sigma**2 / 2) / self.sigma
        return -0.5 * z * z - v - 0.5 * log(2 * pi) - log(self.sigma)

    def mean_beyond(self, x: Floats) -> Floats:
        """Return the mean of the part beyond `x`, divided by its probability."""
        z = np.log(x) / self.sigma
        return ratio(ndtr(self.sigma / 2 - z), ndtr(-self.sigma / 2 - z), x)

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """Draw durations at random."""
        return rng.lognormal(-self.sigma * self.sigma / 2, self.sigma, size)

    def numbers(self) -> tuple[float, ...]:
        """Return sigma."""
        return (self.sigma,)

    @staticmethod
    def compiled_draw(numbers: Floats, key: np.uint64) -> tuple[float, np.uint64]:
        """Draw from one normal variable."""
        return draw_lognormal(numbers[0], key)

    def information(self) -> float:
        """Return 1 / sigma^2."""
        return 1 / (self.sigma * self.sigma)

    def likelihood_by_block(
        self, logs: Floats, block: Integers, count: Floats
    ) -> tuple[Callable[[Floats], Floats], Floats]:
        """Compute it from the sum and the squares of the logarithms in each block."""
        value, total = self.sigma, np.bincount(block, logs, count.size)
        squares = np.bincount(block, logs * logs, count.size)
        spread = squares - total**2 / count
        fixed = count * (-0.5 * log(2 * pi) - log(value))
        middle = -total / count - value * value / 2
        return lambda u: fixed - (spread + count * (u - middle) ** 2) / (2 * value * value), middle
