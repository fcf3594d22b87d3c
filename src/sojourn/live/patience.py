"""Patience: how long the server waits for an update, by what it knows of the client.

The time from handing over a task to its update is taken as lognormal. Its centre is the mean of the client's own
updates, late ones included, and its spread follows from their deviations, with a prior for the spread alone: what the
fleet says of a client may be wrong by orders of magnitude, and that is not variance. A task is given up after `FACTOR`
spreads above the centre, and never before `least` seconds. What the fleet says decides before the first update; and
until there are `FEW`, a task is not given up before that time either, since the first may have been short by chance.

Few tasks are given up by mistake if the fleet knows the mean time, even for `least` = 0. Of exponential times: below
0.3% of a client's first five tasks, and 0.1% of the next five. Hyperexponential with a squared coefficient of variation
of 4: 1% and 0.5%. Lognormal with a sigma of 1.5: 1.5% and 0.8%. Of later tasks it is below a fifth of that.
"""

from math import exp, log, sqrt

import numpy as np

from sojourn.types import Floats

FACTOR = 4.0
SPREAD = 0.75  # prior standard deviation of the logarithm: twenty times the mean time is too long
PRIOR = 2.0  # worth of the prior, in updates
FEW = 2  # own updates from which on the fleet's word does not count


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
        self._expected = [log(max(one, 1e-3)) for one in expected]
        self._mean = [0.0 for _ in expected]  # of the logarithms of the client's own times
        self._square = [0.0 for _ in expected]  # summed squares of their deviations
        self._many = [0.0 for _ in expected]  # of these times

    def note(self, client: int, seconds: float) -> None:
        """Learn from a task that took this long."""
        value = log(max(seconds, 1e-3))
        self._many[client] += 1
        before = value - self._mean[client]
        self._mean[client] += before / self._many[client]
        self._square[client] += before * (value - self._mean[client])

    def snapshot(self) -> Floats:
        """Return what the clients have shown: a row of three numbers for each."""
        return np.array([self._mean, self._square, self._many]).T

    def restore(self, rows: Floats) -> None:
        """Take over what a snapshot knew."""
        self._mean, self._square, self._many = rows.T.tolist()

    def usual(self, client: int) -> float:
        """Return the seconds that a task of the client takes, as a rule: half of them take less."""
        return exp(min(self._mean[client] if self._many[client] else self._expected[client], 30.0))

    def of(self, client: int) -> float:
        """Return the seconds after which a task of the client is given up."""
        many, most = self._many[client], self._expected[client] + FACTOR * SPREAD
        if many:
            variance = (self._square[client] + SPREAD**2 * PRIOR) / (many - 1 + PRIOR)
            own = self._mean[client] + FACTOR * sqrt(variance * (1 + 1 / many))  # the mean itself is uncertain too
            most = own if many >= FEW else max(own, most)
        return max(self.least, exp(min(most, 30.0)))
