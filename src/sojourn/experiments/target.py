"""A target that runs are to reach: a column of the metrics and a value."""

from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import InvalidInput
from sojourn.text import listed

RISING = ("accuracy", "client_worst", "client_10", "client_50", "client_90")
FALLING = ("test_loss", "train_loss")


@dataclass(frozen=True)
class Target:
    """Reached at the first evaluation that is as good.

    >>> str(Target.parse("accuracy=0.9")), Target.parse("test_loss=0.5").first(np.array([2.0, 0.4, 0.6]))
    ('accuracy=0.9', 1)
    """

    key: str
    """Column of the metrics."""
    value: float
    """To be reached from below by accuracies, from above by losses."""

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Read `accuracy=0.9`."""
        key, _, value = (word.strip() for word in text.partition("="))
        if key not in (*RISING, *FALLING):
            raise InvalidInput(f"target must be {listed((*RISING, *FALLING))} with a value, got '{text}'")
        try:
            if not isfinite(float(value)):
                raise ValueError
            return cls(key, float(value))
        except ValueError:
            raise InvalidInput(f"target must read like accuracy=0.9, got '{text}'") from None

    def __str__(self) -> str:
        return f"{self.key}={self.value:g}"

    def first(self, values: NDArray[np.float64]) -> int | None:
        """Number of the first value that is good enough; None = there is none."""
        good = values >= self.value if self.key in RISING else values <= self.value
        return int(np.argmax(good)) if good.any() else None
