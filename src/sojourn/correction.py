"""Correction: how much an update counts, by how often its client's updates come.

    factor of client i = (q_i / s_i)^c / sum_j s_j (q_j / s_j)^c

q_i the client's weight in the objective, s_i its share of all updates, c the correction. c = 1: the long-run mean step
is along the gradient of the objective, whoever is sampled and whoever is free. c = 0: every update counts alike, and
clients count by their shares. c = 1/2 lies between. The sum makes the mean factor one, so that a step size means the
same under every correction.

For c = 1 the sum is that of the q, which is 1: the factor is q_i / s_i, the paper's 1 / (n p_i) where q_i = 1 / n and
clients are drawn with p_i = s_i. Where not all shares are known, as along a trace recorded elsewhere, the sum is the
running mean of (q_i / s_i)^c over the updates received.
"""

from math import isfinite
from typing import Any

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.plan import Plan
from sojourn.types import Floats


class Correction:
    """Factors of updates, as they come."""

    def __init__(self, exponent: float, weights: Floats, share: Floats | None = None) -> None:
        self.exponent = exponent
        self._weight: list[float] = [float(one) for one in weights]
        self._mean: float | None = None
        if share is not None and exponent not in (0.0, 1.0):
            self._mean = float((share * (weights / share) ** exponent).sum())
        self.seen = (0, 0.0)
        """Updates received and the sum of their (q/s)^c, where the mean has to be estimated."""

    def factor(self, client: int, share: float) -> float:
        """Of an update of this client, whose share was believed to be this when its task was sent."""
        if self.exponent == 0.0:
            return 1.0
        if not (isfinite(share) and share > 0):
            raise InvalidInput(
                f"correction {self.exponent:g} needs the share of client {client}, its task has {share}; "
                "use correction 0, or a trace that says it (column prob)"
            )
        if self.exponent == 1.0:
            return self._weight[client] / share
        value = float((self._weight[client] / share) ** self.exponent)
        if self._mean is not None:
            return value / self._mean
        many, total = self.seen
        self.seen = (many + 1, total + value)
        return value / (self.seen[1] / self.seen[0])


def correction_of(algorithm: Any, plan: Plan) -> float:
    """The exponent: named in the plan, or the algorithm's own; none for an algorithm that has no use for it."""
    if not getattr(algorithm, "corrects", False):
        return 0.0
    own: float = algorithm.correction
    return own if plan.correction is None else plan.correction


def client_factors(exponent: float, weights: Floats, share: Floats) -> Floats:
    """Factors of all clients at once, where all shares are known.

    >>> client_factors(1.0, np.array([0.5, 0.5]), np.array([0.8, 0.2]))
    array([0.625, 2.5  ])
    """
    value: Floats = (weights / share) ** exponent
    return np.asarray(value / (share * value).sum() if exponent not in (0.0, 1.0) else value)


def client_shares(count: object, sampling: object) -> Floats:
    """Shares of all clients where each group's clients are drawn with these probabilities: the paper's network."""
    return np.repeat(np.asarray(sampling, dtype=np.float64), np.asarray(count))
