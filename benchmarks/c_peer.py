"""The same jump chain as a plain C loop, compiled for this machine."""

import ctypes

import numpy as np
from c_compiler import FLAGS, CSide
from case import Case
from numpy.typing import NDArray

from sojourn.random import CLOCK, EDGE, HEIGHT, ROUTING, SERVICE, keys
from sojourn.timing.simulate.alias import alias_table

# the structures of jump_chain.c
CLIENT = np.dtype([("head", "u4"), ("tail", "u4"), ("length", "u4"), ("group", "u4")])
SLOT = np.dtype([("dispatched_step", "i8"), ("following", "u4")], align=True)
GROUP = np.dtype(
    [("rate", "f8"), ("keep", "f8")]
    + [(name, "u4") for name in ("other", "first", "members", "class")]
    + [("arrivals", "i8"), ("staleness", "i8")]
)
CLASS = np.dtype([("bound", "f8"), ("inverse", "f8"), ("reach", "f8"), ("first", "u4"), ("busy", "u4")])


class _Chain(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("clients", "slots", "groups", "classes", "busy", "edge", "height")),
        *((name, ctypes.c_int64) for name in ("group_count", "class_count", "step")),
        *((name, ctypes.c_uint64) for name in ("route", "serve", "ticks")),
        ("clock", ctypes.c_double),
    )


class CLoop(CSide):
    """The C loop on one case; the streams are those of sojourn's run with the same seed."""

    name = "C loop, gcc " + " ".join(FLAGS)

    def __init__(self, case: Case, seed: int) -> None:
        groups = _groups(case)
        run, self._kept = _chain(groups, case, seed)
        super().__init__("jump_chain", run, groups)
        self.warm_up(case.warmup)


def _groups(case: Case) -> NDArray[np.void]:
    fleet = case.fleet
    groups = np.zeros(fleet.groups, GROUP)
    groups["rate"], groups["first"], groups["members"] = fleet.rate, fleet.first_client, fleet.count
    groups["keep"], groups["other"] = alias_table(fleet.count * case.plan.sampling)
    groups["class"] = np.unique(fleet.rate, return_inverse=True)[1]
    return groups


def _chain(groups: NDArray[np.void], case: Case, seed: int) -> tuple[_Chain, dict[str, NDArray]]:
    """Return the chain at its beginning, and the arrays that it points to."""
    queues = np.array(case.queues(seed))
    first_slot = np.concatenate([[0], np.cumsum(queues)[:-1]])
    clients = np.zeros(queues.size, CLIENT)
    clients["head"], clients["tail"], clients["length"] = first_slot, first_slot + queues - 1, queues
    clients["group"] = case.fleet.group_of_client
    slots = np.zeros(case.concurrency, SLOT)
    slots["following"] = np.arange(1, case.concurrency + 1)
    class_of = groups["class"][clients["group"]]
    order = np.argsort(class_of, kind="stable")
    classes = np.zeros(class_of.max() + 1, CLASS)
    np.maximum.at(classes["bound"], groups["class"], groups["rate"])
    classes["inverse"] = 1 / classes["bound"]
    classes["first"] = np.searchsorted(class_of[order], np.arange(classes.size))
    busy = np.zeros(queues.size + 1, np.uint32)
    for index, part in enumerate(classes):
        mine = np.flatnonzero((class_of == index) & (queues > 0))
        busy[part["first"] : part["first"] + mine.size] = mine
        classes[index]["busy"] = mine.size
    streams = keys(seed)
    kept = {"clients": clients, "slots": slots, "groups": groups, "classes": classes, "busy": busy}
    kept |= {"edge": EDGE, "height": HEIGHT}
    chain = _Chain(**{name: array.ctypes.data for name, array in kept.items()})
    chain.group_count, chain.class_count = groups.size, classes.size
    chain.route, chain.serve, chain.ticks = (int(streams[purpose]) for purpose in (ROUTING, SERVICE, CLOCK))
    return chain, kept
