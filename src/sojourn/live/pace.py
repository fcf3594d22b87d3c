"""Pace: artificial service times from the laws of the fleet, so that a federation on one machine has fast and slow
clients.

A service time belongs to its task: it depends only on the seed, the client and the number of its task.
"""

from typing import TYPE_CHECKING

import numpy as np

from sojourn.timing.shares import as_served

if TYPE_CHECKING:
    from sojourn.fleet import Fleet
    from sojourn.learning.run.build import Built

_PURPOSE = 0x70616365  # keeps these draws apart from all others of the same seed


class Pace:
    """The service time of every task.

    >>> from sojourn import Fleet
    >>> pace = Pace(Fleet.of(fast=(1, 4.0), slow=(1, 1.0)), seed=1)
    >>> pace(0, 5) == pace(0, 5) != pace(1, 5)
    True
    """

    def __init__(self, fleet: "Fleet", seed: int) -> None:
        self._group = fleet.group_of_client
        self._mean, self._law, self._seed = 1 / fleet.rate, fleet.law, seed

    @classmethod
    def of(cls, built: "Built") -> "Pace":
        """Return the service times of a run; a task of several local steps takes as many service times, on average."""
        return cls(as_served(built.setting.fleet, built.scenario), built.config.seed)

    def __call__(self, client: int, nth: int) -> float:
        """Return the service time of a client's nth task in seconds."""
        group = int(self._group[client])
        rng = np.random.default_rng((_PURPOSE, self._seed, client, nth))
        return float(self._law[group].draw(rng, 1)[0] * self._mean[group])
