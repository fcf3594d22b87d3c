"""Our side: the compiled jump chain with all the tallies of `measure`, on one core."""

import numpy as np
from case import Case
from numpy.typing import NDArray

from sojourn.random import keys
from sojourn.timing.simulate import jump_chain
from sojourn.timing.simulate.summary import DETAILED_GROUPS


class Sojourn:
    """One run of the jump chain."""

    name = "sojourn"

    def __init__(self, case: Case, seed: int, warmup: int | None = None) -> None:
        self._net = jump_chain.network(case.fleet, case.plan)
        self._run = jump_chain.state(self._net, np.array(case.queues(seed)), keys(seed))
        detailed = case.fleet.groups <= DETAILED_GROUPS
        self._shape = (case.fleet.groups, case.concurrency + 1 if detailed else 2, case.fleet.groups if detailed else 1)
        self._sums, self._rows = jump_chain.tally(*self._shape), jump_chain.rows(0)
        self.advance(case.warmup if warmup is None else warmup)
        self._sums = jump_chain.tally(*self._shape)

    def advance(self, steps: int) -> int:
        """Continue for `steps` steps; return the steps done."""
        jump_chain.advance(self._net, self._run, self._sums, self._rows, steps)
        return steps

    def tally(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Updates and sum of their staleness by group, since the warm-up."""
        return self._sums.arrivals.astype(np.float64), self._sums.staleness.astype(np.float64)
