"""The hyperexponential law: a short or a long exponential phase, each with half of the mean."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log, sqrt

import numpy as np

from sojourn.compiled import bare
from sojourn.errors import InvalidInput
from sojourn.laws.kind import LawKind, register
from sojourn.random import EDGE, HEIGHT, MOVE, exponential, mix, unit
from sojourn.types import Floats, Integers

MOST_SCV = 1e12  # above this the probability of the long phase loses its digits, and the mean is wrong


@bare
def draw_hyperexponential(short: float, key: np.uint64) -> tuple[float, np.uint64]:
    """Draw a duration and return it with the stream's next key; `short` is the probability of the short phase."""
    key += MOVE
    u = unit(mix(key))
    x, key = exponential(key, EDGE, HEIGHT)
    return (x / (2.0 * short) if u < short else x / (2.0 * (1.0 - short))), key


@register
@dataclass(frozen=True)
class Hyperexponential(LawKind):
    """Exponential with rate 2p with probability p, with rate 2(1-p) otherwise."""

    name = "hyperexponential"
    smooth = True
    searched = (1e-3, 1e3)
    origin = 1.0
    longest = inf

    scv: float
    """Squared coefficient of variation, above 1."""

    def __post_init__(self) -> None:
        self.check_above("scv", 1.0)

    @property
    def short(self) -> float:
        """Probability p of the short phase."""
        return (1 + sqrt((self.scv - 1) / (self.scv + 1))) / 2

    def log_survival(self, x: Floats) -> Floats:
        """Combine both phases."""
        p = self.short
        return np.asarray(np.logaddexp(np.log(p) - 2 * p * x, np.log1p(-p) - 2 * (1 - p) * x))

    def log_density(self, x: Floats) -> Floats:
        """Combine both phases."""
        p = self.short
        return np.logaddexp(log(2 * p * p) - 2 * p * x, log(2 * (1 - p) ** 2) - 2 * (1 - p) * x)

    def mean_beyond(self, x: Floats) -> Floats:
        """Compute it from the odds of the short phase, given the age."""
        p = self.short
        late = np.exp(-2 * (2 * p - 1) * x) * p / (1 - p)
        return np.asarray(x + (late / (2 * p) + 1 / (2 * (1 - p))) / (late + 1))

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """Draw durations at random."""
        p = self.short
        return rng.exponential(size=size) / np.where(rng.random(size) < p, 2 * p, 2 * (1 - p))

    def numbers(self) -> tuple[float, ...]:
        """Return the probability of the short phase."""
        if self.scv > MOST_SCV:
            raise InvalidInput(
                f"law hyperexponential: scv must be at most {MOST_SCV:g} to be simulated, got {self.scv:g}"
            )
        return (self.short,)

    @staticmethod
    def compiled_draw(numbers: Floats, key: np.uint64) -> tuple[float, np.uint64]:
        """Draw the phase by a uniform number, then an exponential variable."""
        return draw_hyperexponential(numbers[0], key)

    def information(self) -> float:
        """Return 2 / (1 + scv), an approximation."""
        return 2 / (1 + self.scv)

    def likelihood_by_block(
        self, logs: Floats, block: Integers, count: Floats
    ) -> tuple[Callable[[Floats], Floats], Floats]:
        """Compute it duration by duration."""
        x, p, size = np.exp(logs), self.short, count.size
        total = np.bincount(block, logs, size)
        a, b = log(2 * p * p), log(2 * (1 - p) ** 2)

        def mixed(u: Floats) -> Floats:
            rate = np.exp(u)[block] * x
            inner = np.log(np.exp(a - 2 * p * rate) + np.exp(b - 2 * (1 - p) * rate) + 1e-300)
            return np.bincount(block, inner, size) + total + count * u

        return mixed, np.log(count / np.bincount(block, x, size))
