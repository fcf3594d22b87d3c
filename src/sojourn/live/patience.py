"""Patience: how long the server waits for an update, by what it knows of the client.

The time from handing over a task to its update is taken as lognormal. Its mean and spread are estimated for each client
from its own updates, late ones included, with a prior from the fleet. A task is given up after `FACTOR` spreads above
the mean, and never before `least` seconds.
"""

from math import exp, log, sqrt

import numpy as np

from sojourn.types import Floats

FACTOR = 4.0
SPREAD = 0.75  # prior standard deviation of the logarithm: twenty times the mean time is too long
PRIOR = 2.0  # worth of the prior, in updates


class Patience:
    """The time that each client may take.

    >>> patience = Patience([1.0], least=0.0)
    >>> before = patience.of(0)
    >>> for _ in range(50): patience.note(0, 0.5)
    >>> bool(0.5 < patience.of(0) < before)
    True
    """

    def __init__(self, expected: list[float], least: float = 30.0) -> None:
        """`expected` is the mean time in seconds of each client's tasks, as far as is known."""
        self.least = least
        self._mean = [log(max(one, 1e-3)) for one in expected]
        self._square = [SPREAD**2 * PRIOR for _ in expected]  # summed squares of deviations
        self._many = [PRIOR for _ in expected]

    def note(self, client: int, seconds: float) -> None:
        """Learn from a task that took this long."""
        value = log(max(seconds, 1e-3))
        self._many[client] += 1
        before = value - self._mean[client]
        self._mean[client] += before / self._many[client]
        self._square[client] += before * (value - self._mean[client])

    def snapshot(self) -> Floats:
        """Return what is known: a row of three numbers for each client."""
        return np.array([self._mean, self._square, self._many]).T

    def restore(self, rows: Floats) -> None:
        """Take over what a snapshot knew."""
        self._mean, self._square, self._many = rows.T.tolist()

    def usual(self, client: int) -> float:
        """Return the seconds that a task of the client takes, as a rule: half of them take less."""
        return exp(min(self._mean[client], 30.0))

    def of(self, client: int) -> float:
        """Return the seconds after which a task of the client is given up."""
        spread = sqrt(self._square[client] / self._many[client])
        return max(self.least, exp(min(self._mean[client] + FACTOR * spread, 30.0)))
