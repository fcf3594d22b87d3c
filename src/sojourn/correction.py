"""Correction: how much an update counts, depending on how often its client's updates arrive.

    factor of client i = (q_i / s_i)^c / sum_j s_j (q_j / s_j)^c

q_i is the client's weight in the objective, s_i its share of all updates, c the correction. With c = 1 the long-run
mean step is along the gradient of the objective, whoever is sampled and whoever is free. With c = 0 every update counts
the same, so that clients count by their shares. c = 1/2 lies between. The sum makes the mean factor one, so that a step
size means the same under every correction.

For c = 1 the sum is that of the q_i, which is 1, and the factor is q_i / s_i: the paper's 1 / (n p_i), where q_i = 1 /
n and clients are drawn with p_i = s_i. Where not all shares are known, as in a trace recorded elsewhere, the sum is
replaced by the running mean of (q_i / s_i)^c over the updates received.

In a live run that follows its fleet, c and the sum may change with the plan. An update counts as the plan says under
which its task was sent.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from math import inf, isfinite
from typing import Any

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.plan import Plan
from sojourn.types import Floats
from sojourn.values import WrongKind, number


class Correction:
    """Computes the factor of each update as it arrives."""

    def __init__(self, exponent: float, weights: Floats, share: Floats | None = None) -> None:
        self.exponent = exponent
        self._since: list[float] = []
        self._rules: list[tuple[float, float | None]] = []
        self._weight: list[float] = [float(one) for one in weights]
        self._mean: float | None = None
        if share is not None and exponent not in (0.0, 1.0):
            self._mean = mean_factor(exponent, weights, share)
        self.seen = (0, 0.0)
        """Number of updates received and the sum of their (q/s)^c, for when the mean has to be estimated."""

    def follow(self, plans: Sequence[Mapping[str, Any]]) -> None:
        """Take over the plans of a live run, as its trace lists them: what each says holds for tasks sent after its
        time. Under another correction than that of the first plan there is nothing to follow.
        """
        try:
            told = [tuple(number(one[key], key) for key in ("time", "correction", "mean_factor")) for one in plans]
        except (KeyError, TypeError, WrongKind) as error:
            raise InvalidInput(f"the trace lists its plans in a way that cannot be read: {error}; restore it") from None
        if not told or told[0][1] != self.exponent:
            return
        self._since = [time for time, _, _ in told[1:]]
        self._rules = [(exponent, mean) for _, exponent, mean in told[1:]]

    def factor(self, client: int, share: float, sent_at: float = -inf) -> float:
        """Return the factor of an update of `client`; `share` is its share of updates as believed when the task was
        sent, at the time `sent_at`.
        """
        exponent, mean, place = self.exponent, self._mean, bisect_left(self._since, sent_at)
        if place > 0:
            exponent, mean = self._rules[place - 1]
        if exponent == 0.0:
            return 1.0
        if not (isfinite(share) and share > 0):
            raise InvalidInput(
                f"correction {exponent:g} needs the share of client {client}, but its task has {share}; "
                "use correction 0, or a trace with that share (column prob)"
            )
        if exponent == 1.0:
            return self._weight[client] / share
        value = float((self._weight[client] / share) ** exponent)
        if mean is not None:
            return value / mean
        many, total = self.seen
        self.seen = (many + 1, total + value)
        return value / (self.seen[1] / self.seen[0])


def mean_factor(exponent: float, weights: Floats, share: Floats) -> float:
    """Return the mean of (q_i / s_i)^c over updates, by which factors are divided.

    >>> mean_factor(1.0, np.array([0.5, 0.5]), np.array([0.8, 0.2]))
    1.0
    """
    return float((share * (weights / share) ** exponent).sum())


def correction_of(algorithm: Any, plan: Plan) -> float:
    """Return the exponent: the plan's, or the algorithm's own; 0 for an algorithm that does not use one."""
    if not getattr(algorithm, "corrects", False):
        return 0.0
    own: float = algorithm.correction
    return own if plan.correction is None else plan.correction


def client_factors(exponent: float, weights: Floats, share: Floats) -> Floats:
    """Return the factors of all clients at once, where all shares are known.

    >>> client_factors(1.0, np.array([0.5, 0.5]), np.array([0.8, 0.2]))
    array([0.625, 2.5  ])
    """
    value: Floats = (weights / share) ** exponent
    return np.asarray(value / (share * value).sum() if exponent not in (0.0, 1.0) else value)


def client_shares(count: object, sampling: object) -> Floats:
    """Return the shares of all clients in the paper's network, where each group's clients are drawn with these
    probabilities.
    """
    return np.repeat(np.asarray(sampling, dtype=np.float64), np.asarray(count))
