"""Our jump chain with a cap of 1, and the same as a plain C loop, compiled on this machine."""

import ctypes

import numpy as np
from c_compiler import FLAGS, CSide
from case import Case
from numpy.typing import NDArray

from sojourn.random import CLOCK, ROUTING, SERVICE, keys
from sojourn.timing.simulate import jump_chain, one_each

# the structures of one_each.c
POOL = np.dtype([("bound", "f8"), ("inverse", "f8"), ("reach", "f8"), ("first", "u4"), ("size", "u4")])
GROUP = np.dtype([*one_each.GROUP.descr, ("arrivals", "i8"), ("staleness", "i8")])

_POINTERS = ("clients", "groups", "working", "resting", "busy", "idle", "edge", "height")


class _Chain(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((name, ctypes.c_int64) for name in ("rate_classes", "weight_classes", "step")),
        *((name, ctypes.c_uint64) for name in ("route", "serve", "ticks")),
        ("clock", ctypes.c_double),
    )


def _state(case: Case, seed: int) -> one_each.State:
    return one_each.state(case.fleet, case.plan, np.array(case.queues(seed)), keys(seed))


class OneEach:
    """One run of the jump chain with a cap of 1."""

    name = "sojourn"

    def __init__(self, case: Case, seed: int) -> None:
        self._run = _state(case, seed)
        self._shape = (case.fleet.groups, 2, case.fleet.groups if case.fleet.groups <= 64 else 1)
        self._sums, self._rows = jump_chain.tally(*self._shape), jump_chain.rows(0)
        self.advance(case.warmup)
        self._sums = jump_chain.tally(*self._shape)

    def advance(self, steps: int) -> int:
        """Continue for `steps` steps; return the steps done."""
        one_each.advance(self._run, self._sums, self._rows, steps)
        return steps

    def tally(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Updates and sum of their staleness by group, since the warm-up."""
        return self._sums.arrivals.astype(np.float64), self._sums.staleness.astype(np.float64)


class COneEach(CSide):
    """The C loop on one case; the streams are those of sojourn's run with the same seed."""

    name = "C loop, gcc " + " ".join(FLAGS)

    def __init__(self, case: Case, seed: int) -> None:
        run = _state(case, seed)
        groups = np.zeros(run.groups.size, GROUP)
        for name in one_each.GROUP.names or ():
            groups[name] = run.groups[name]
        self._kept = {name: getattr(run, name) for name in ("clients", "busy", "idle", "edge", "height")}
        self._kept |= {"groups": groups, "working": _pools(run.working), "resting": _pools(run.resting)}
        chain = _Chain(**{name: array.ctypes.data for name, array in self._kept.items()})
        chain.rate_classes, chain.weight_classes = run.working.size, run.resting.size
        streams = keys(seed)
        chain.route, chain.serve, chain.ticks = (int(streams[purpose]) for purpose in (ROUTING, SERVICE, CLOCK))
        super().__init__("one_each", chain, groups)
        self.warm_up(case.warmup)


def _pools(of: NDArray[np.void]) -> NDArray[np.void]:
    pools = np.zeros(of.size, POOL)
    for name in of.dtype.names or ():
        pools[name] = of[name]
    return pools
