"""The same event engine as a plain C loop: a tournament of events, with durations keyed by client and number."""

import ctypes

import numpy as np
from c_compiler import FLAGS, CSide
from case import Case
from numpy.typing import NDArray

from sojourn.random import EDGE, HEIGHT, NORMAL_EDGE, NORMAL_HEIGHT, ROUTING, SERVICE, keys
from sojourn.timing.simulate.alias import alias_table
from sojourn.timing.simulate.event_tree import NO_SEAT, empty

# the structures of event_tree.c
CLIENT = np.dtype([*((name, "u4") for name in ("head", "tail", "length", "group")), ("service", "u8")])
SLOT = np.dtype([("dispatched_step", "i8"), ("following", "u4")], align=True)
GROUP = np.dtype(
    [("time", "f8"), ("sigma", "f8"), ("keep", "f8")]
    + [(name, "u4") for name in ("other", "first", "members", "unused")]
    + [("arrivals", "i8"), ("staleness", "i8")]
)


_TABLES = ("edge", "height", "normal_edge", "normal_height")


class _Run(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("clients", "slots", "groups", "tree", "seats", *_TABLES)),
        *((name, ctypes.c_int64) for name in ("client_count", "group_count", "step", "seat_count", "free")),
        *((name, ctypes.c_int64) for name in ("sequence", "hole")),
        *((name, ctypes.c_uint64) for name in ("route", "serve")),
    )


class CTree(CSide):
    """The C loop on one case; the streams are those of sojourn's run with the same seed."""

    name = "C event tree, gcc " + " ".join(FLAGS)

    def __init__(self, case: Case, seed: int) -> None:
        groups = _groups(case)
        run, self._kept = _run(groups, case, seed)
        super().__init__("event_tree", run, groups, "start")
        self.warm_up(case.warmup)


def _groups(case: Case) -> NDArray[np.void]:
    fleet = case.fleet
    groups = np.zeros(fleet.groups, GROUP)
    groups["time"], groups["first"], groups["members"] = 1 / fleet.rate, fleet.first_client, fleet.count
    groups["sigma"] = [law.parameter or 0.0 for law in fleet.law]
    groups["keep"], groups["other"] = alias_table(fleet.count * case.plan.sampling)
    return groups


def _run(groups: NDArray[np.void], case: Case, seed: int) -> tuple[_Run, dict[str, NDArray]]:
    """Return the run at its beginning, and the arrays that it points to."""
    queues = np.array(case.queues(seed))
    first_slot = np.cumsum(queues) - queues
    clients = np.zeros(queues.size, CLIENT)
    clients["head"], clients["tail"], clients["length"] = first_slot, first_slot + queues - 1, queues
    clients["group"] = case.fleet.group_of_client
    slots = np.zeros(case.concurrency, SLOT)
    slots["following"] = np.arange(1, case.concurrency + 1)
    tree, seats, number = empty(min(queues.size, case.concurrency))
    kept = {"clients": clients, "slots": slots, "groups": groups, "tree": tree, "seats": seats}
    kept |= dict(zip(_TABLES, (EDGE, HEIGHT, NORMAL_EDGE, NORMAL_HEIGHT), strict=True))
    run = _Run(**{name: array.ctypes.data for name, array in kept.items()})
    run.client_count, run.group_count = queues.size, groups.size
    run.seat_count, run.free, run.hole = number, number, NO_SEAT
    streams = keys(seed)
    run.route, run.serve = int(streams[ROUTING]), int(streams[SERVICE])
    return run, kept
