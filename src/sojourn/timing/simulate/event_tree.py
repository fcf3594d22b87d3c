"""A tournament tree of events: the next event is the earliest, and of equal times the one that was set first.

Every event sits in a seat, a leaf of a complete binary tree; a node above holds the earlier of its two children, so
the root is the next event. Setting or clearing a seat replays the matches on the path to the root: always the same
number, at known places, without a branch. A heap does less work, but its path depends on the times. These are random,
so the processor guesses wrong at every second level, and from about ten events on that costs more.

An event is (time, mark); the mark packs a sequence number and the seat, so that comparing marks breaks ties in the
order of setting and never by client. Times are not negative, so their bits read as whole numbers are in the same order,
and a match is one comparison of 128-bit numbers. Reading the next event leaves its seat as a hole that the next `push`
fills: most events set exactly one other event, and this saves half of the work. Free seats are a stack: the seat that
was freed last, whose path is still in the caches, is used first.
"""

from typing import Any

import numpy as np

from sojourn.compiled import hot, inlined, lesser
from sojourn.types import Records

EVENT = np.dtype([("mark", "i8"), ("time", "i8")])  # in the order in which the halves of a 128-bit number lie
SEAT = np.dtype([("event", "u4"), ("free", "u4")])  # kind and id of its event; an entry of the stack of free seats
FACTS = [("seats", "i8"), ("free", "i8"), ("sequence", "i8"), ("hole", "i8")]  # what the tree keeps in the world
KINDS = 8
IDS = 1 << 21
NO_SEAT = -1
_SEAT_BITS = np.int64(24)  # for clients and tasks, each up to IDS, rounded up to a power of two
_SEAT = np.int64((1 << 24) - 1)
_ONE = np.uint64(1)
_NEVER = int(np.array(np.inf).view(np.int64))


def empty(events: int) -> tuple[Records, Records, int]:
    """Return a tree with space for this many events, its seats, and their number (a power of two)."""
    number = 1 << max(0, events - 1).bit_length()
    tree, seats = np.zeros(2 * number, EVENT), np.zeros(number, SEAT)
    tree["time"] = _NEVER
    seats["free"] = np.arange(number)[::-1]
    return tree, seats, number


@inlined
def kind_of(event: Any) -> int:
    """Return the event's kind."""
    return event & (KINDS - 1)


@inlined
def id_of(event: Any) -> int:
    """Return the client or slot of the event."""
    return event >> 3


@hot
def _seat(world: Records, tree: Records, seat: int, time: float, mark: np.int64) -> None:
    """Put an event into a seat and replay its matches."""
    place = np.uint64(seat + world[0].seats)
    bits = np.float64(time).view(np.int64)
    tree[place].time, tree[place].mark = bits, mark
    while place > _ONE:
        other = tree[place ^ _ONE]
        bits, mark = lesser(bits, mark, other.time, other.mark)
        place >>= _ONE
        tree[place].time, tree[place].mark = bits, mark


@hot
def push(world: Records, tree: Records, seats: Records, time: float, number: int, kind: int) -> int:
    """Set an event; return its seat."""
    seat = world[0].hole
    if seat == NO_SEAT:
        world[0].free -= 1
        seat = seats[world[0].free].free
    world[0].hole = NO_SEAT
    seats[seat].event = (np.int64(number) << 3) | np.int64(kind)
    mark = (np.int64(world[0].sequence) << _SEAT_BITS) | np.int64(seat)
    world[0].sequence += 1
    _seat(world, tree, seat, time, mark)
    return seat


@hot
def clear(world: Records, tree: Records, seats: Records, seat: int) -> float:
    """Cancel an event; return its time."""
    time = np.int64(tree[np.uint64(seat + world[0].seats)].time).view(np.float64)
    seats[world[0].free].free = seat
    world[0].free += 1
    _seat(world, tree, seat, np.inf, np.int64(0))
    return time


@hot
def upcoming(world: Records, tree: Records, seats: Records) -> float:
    """Return the time of the next event; inf = there is none."""
    if world[0].hole != NO_SEAT:
        clear(world, tree, seats, world[0].hole)
        world[0].hole = NO_SEAT
    return np.int64(tree[1].time).view(np.float64)


@hot
def pop(world: Records, tree: Records, seats: Records) -> tuple[float, int]:
    """Take the next event; return (time, event for `kind_of` and `id_of`), or (inf, -1) if there is none."""
    if world[0].hole != NO_SEAT:
        clear(world, tree, seats, world[0].hole)
        world[0].hole = NO_SEAT
    first = tree[1]
    if first.time >= _NEVER:
        return np.inf, -1
    seat = first.mark & _SEAT
    world[0].hole = seat
    return np.int64(first.time).view(np.float64), seats[seat].event
