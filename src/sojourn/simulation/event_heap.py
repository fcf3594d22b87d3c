"""A binary heap of events, ordered by time and then by the order in which they were set.

An event is (time, mark); the mark packs a sequence number, an id (client or slot) and a kind, so that comparing marks
breaks ties in the order of setting and never by client. Reading the next event leaves a hole at the root, which the
next push fills: most events set exactly one other, and this saves them the way down and up again.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.compiled import hot, inlined

EVENT = np.dtype([("time", "f8"), ("mark", "i8")])
FACTS = [("size", "i8"), ("sequence", "i8"), ("hole", "i8")]  # fields that the heap keeps in the world's record
KINDS = 8
IDS = 1 << 21
_SHIFT = np.int64(24)  # log2(KINDS * IDS)
_LOW = np.int64((1 << 24) - 1)

Records = NDArray[Any]


@inlined
def kind_of(mark: Any) -> int:
    """The event's kind."""
    return mark & (KINDS - 1)


@inlined
def id_of(mark: Any) -> int:
    """The client or slot that the event is about."""
    return (mark & _LOW) >> 3


@hot
def _sink(heap: Records, time: float, mark: np.int64, size: int) -> None:
    """Put an event at the root and let it sink to its place."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            heap[right].time < heap[child].time
            or (heap[right].time == heap[child].time and heap[right].mark < heap[child].mark)
        ):
            child = right
        if heap[child].time > time or (heap[child].time == time and heap[child].mark > mark):
            break
        heap[place].time, heap[place].mark = heap[child].time, heap[child].mark
        place = child
    heap[place].time, heap[place].mark = time, mark


@hot
def push(world: Records, heap: Records, time: float, number: int, kind: int) -> np.int64:
    """Set an event; returns its mark."""
    mark = (np.int64(world[0].sequence) << _SHIFT) | (np.int64(number) << 3) | np.int64(kind)
    world[0].sequence += 1
    if world[0].hole:
        world[0].hole = 0
        _sink(heap, time, mark, world[0].size)
        return mark
    place = world[0].size
    world[0].size += 1
    while place > 0:
        above = (place - 1) >> 1
        if heap[above].time <= time:  # an equal time was set before
            break
        heap[place].time, heap[place].mark = heap[above].time, heap[above].mark
        place = above
    heap[place].time, heap[place].mark = time, mark
    return mark


@hot
def pop(world: Records, heap: Records) -> tuple[float, np.int64]:
    """Take the next event; (inf, -1) when there is none."""
    if world[0].hole:
        world[0].hole = 0
        last = world[0].size - 1
        world[0].size = last
        if last > 0:
            _sink(heap, heap[last].time, heap[last].mark, last)
    if world[0].size == 0:
        return np.inf, np.int64(-1)
    world[0].hole = 1
    return heap[0].time, heap[0].mark
