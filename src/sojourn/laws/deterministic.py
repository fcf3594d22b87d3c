"""The deterministic law: every duration is the mean."""

from dataclasses import dataclass

import numpy as np

from sojourn.laws.kind import LawKind, register
from sojourn.types import Floats


@register
@dataclass(frozen=True)
class Deterministic(LawKind):
    """Every duration is one."""

    name = "deterministic"
    smooth = False
    scv = 0.0
    longest = 1.0

    def log_survival(self, x: Floats) -> Floats:
        """Return 0 before one and minus infinity from there on, since nothing lasts longer than one."""
        return np.where(x < 1 - 1e-9, 0.0, -np.inf)

    def mean_beyond(self, x: Floats) -> Floats:
        """Return one."""
        return np.ones_like(x)

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """Return ones."""
        return np.ones(size)

    def numbers(self) -> tuple[float, ...]:
        """Return no numbers: the draw needs none."""
        return ()

    @staticmethod
    def compiled_draw(numbers: Floats, key: np.uint64) -> tuple[float, np.uint64]:
        """Return one, and take nothing from the stream."""
        return 1.0, key
