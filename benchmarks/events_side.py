"""Our side of the event cases: the event engine with all the tallies of `measure`, on one core."""

import numpy as np
from case import Case
from numpy.typing import NDArray

from sojourn.timing.simulate import drive, jump_chain
from sojourn.timing.simulate.runners import runner


class Events:
    """One run of the event engine."""

    name = "sojourn, events"

    def __init__(self, case: Case, seed: int) -> None:
        self._run = runner(case.fleet, case.plan, start=case.start, seed=seed, engine="events")
        self._shape = (case.fleet.groups, case.concurrency + 1, case.fleet.groups)
        self._clear()
        self.advance(case.warmup)
        self._clear()

    def _clear(self) -> None:
        self._sums, self._times = jump_chain.tally(*self._shape), drive.stays(self._shape[0])

    def advance(self, steps: int) -> int:
        """Continue for `steps` steps; return the steps done."""
        self._run.tally(steps, self._sums, self._times)
        return steps

    def tally(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Updates and sum of their staleness by group, since the warm-up."""
        return self._sums.arrivals.astype(np.float64), self._sums.staleness.astype(np.float64)
