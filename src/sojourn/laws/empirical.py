"""The empirical law: measured durations, scaled to mean one, each as likely as the others."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sojourn.compiled import bare
from sojourn.errors import InvalidInput
from sojourn.laws.kind import LawKind, register
from sojourn.random import MOVE, mix, unit
from sojourn.shown import short
from sojourn.types import Floats


@bare
def draw_empirical(values: Floats, first: int, size: int, key: np.uint64) -> tuple[float, np.uint64]:
    """Return one of the `size` values from `first` on, and the stream's next key."""
    key += MOVE
    return values[first + np.int64(unit(mix(key)) * size)], key


@register
@dataclass(frozen=True)
class Empirical(LawKind):
    """Equally likely values with mean one."""

    name = "empirical"
    smooth = False

    durations: tuple[float, ...]
    """The values, sorted."""

    def __post_init__(self) -> None:
        if not abs(float(np.mean(self.durations)) - 1) < 1e-9:
            raise InvalidInput("the durations of an empirical law must have mean one; use Law.empirical to scale them")

    @classmethod
    def read(cls, name: str, inside: str | None) -> dict[str, Any]:
        """Read durations with spaces between them."""
        try:
            return {"durations": [float(word) for word in (inside or "").split()]}
        except ValueError:
            text = f"empirical({inside})"
            raise InvalidInput(
                f"empirical law: durations must be numbers with spaces between, got '{short(text)}'"
            ) from None

    def inside(self) -> str:
        """Return the durations with spaces between them."""
        return " ".join(map(repr, self.durations))

    @property
    def scv(self) -> float:
        """Return the variance of the values."""
        return float(np.var(self.durations))

    @property
    def longest(self) -> float:
        """Return the largest value."""
        return max(self.durations)

    def log_survival(self, x: Floats) -> Floats:
        """Count the values above `x`."""
        known = np.array(self.durations)
        return np.log(1 - np.searchsorted(known, x, side="right") / known.size)

    def mean_beyond(self, x: Floats) -> Floats:
        """Return the mean of the values above `x`."""
        known = np.array(self.durations)
        above = np.append(np.cumsum(known[::-1])[::-1], 0.0)
        first = np.searchsorted(known, x, side="right")
        return np.where(first < known.size, above[first] / np.maximum(known.size - first, 1), x)

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """Draw durations at random."""
        return rng.choice(np.array(self.durations), size)

    def numbers(self) -> tuple[float, ...]:
        """Return the values."""
        return self.durations

    @staticmethod
    def compiled_draw(numbers: Floats, key: np.uint64) -> tuple[float, np.uint64]:
        """Pick one of the values by a uniform number."""
        return draw_empirical(numbers, 0, numbers.size, key)
