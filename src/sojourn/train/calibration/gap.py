"""A: the loss at the start minus the least loss there is.

Nobody knows the least loss of a network. From below A is bounded by what a short training gained: the first loss
minus the lowest that was reached, which is also the estimate. From above, where no loss is negative, by the first
loss itself.
"""

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import SojournError
from sojourn.train.calibration.estimates import Bracket, Estimate
from sojourn.train.calibration.objective import mean_of_groups

Floats = NDArray[np.float64]


def gap(first: Floats, later: Sequence[Floats]) -> Bracket:
    """A from the losses of the first model and of later ones, by groups of the same examples."""
    gains = [mean_of_groups(first - one) for one in later]
    best = max(gains, key=lambda gain: gain.value)
    if not best.value > 0:
        raise SojournError(
            f"the training reached no loss below its first, {first.mean():.6g}; give it more steps, or another rate"
        )
    start = mean_of_groups(first)
    negative = min(float(one.min()) for one in (first, *later)) < 0
    return Bracket(best.value, best, Estimate(inf) if negative else start)
