"""Draw a client by its weight among those with room, which hold fewer tasks than their cap.

Clients with room are kept in one list for each class of weights: one class for each weight or, where there are many,
for each power of two. A class is drawn by its size times its largest weight, then a client of it uniformly, which is
accepted with its weight over the largest (at least 1/2, always where the class has one weight). The cost of taking a
client out of its list and putting it back does not depend on the number of clients.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from sojourn.compiled import hot
from sojourn.random import MOVE, mix, unit
from sojourn.types import Floats, Integers, Records

if TYPE_CHECKING:
    from sojourn.timing.simulate.engine import Engine

CLASSES = 16  # up to this many weights each is a class of its own
NO_CAP = 2**32 - 1  # more tasks than there can be
# `bound` is the largest weight, `inverse` 1 / bound; `first` is where its clients are listed, `size` how many they are
CLASS = np.dtype([("bound", "f8"), ("inverse", "f8"), ("first", "u4"), ("size", "u4")])


def classes_of(values: Floats) -> Integers:
    """Return the class of each value: one per value or, if there are many, one per power of two.

    >>> classes_of(np.array([0.5, 2.0, 0.5])).tolist()
    [0, 1, 0]
    """
    distinct = np.unique(values)
    if distinct.size <= CLASSES:
        return np.searchsorted(distinct, values)
    return np.asarray(np.unique(np.frexp(values)[1], return_inverse=True)[1])


def empty_pools(values: Floats, count: Integers) -> tuple[Integers, Records]:
    """Return the class of each group, and empty classes with space for all."""
    class_of = classes_of(values)
    pools = np.zeros(int(class_of.max()) + 1, CLASS)
    np.maximum.at(pools["bound"], class_of, values)
    pools["inverse"] = 1 / pools["bound"]
    members = np.bincount(class_of, weights=count).astype(np.int64)
    pools["first"] = np.cumsum(members) - members
    return class_of, pools


def full_pools(values: Floats, count: Integers) -> tuple[Integers, Records, Integers, Integers]:
    """Return the class of each group, the full classes, the list of clients, and the place of each in its class."""
    class_of, pools = empty_pools(values, count)
    mine = np.repeat(class_of, count)
    listed = np.argsort(mine, kind="stable")
    pools["size"] = np.bincount(mine, minlength=pools.size)
    place = np.empty(listed.size, np.int64)
    place[listed] = np.arange(listed.size) - pools["first"][mine[listed]]
    return class_of, pools, listed, place


@hot
def choose_room(e: "Engine", finisher: int) -> tuple[int, float]:
    """Draw a client with room; there always is one, because the finisher has room."""
    pools = e.pools
    key = e.world[0].routing
    total = 0.0
    for c in range(pools.size):
        total += pools[c].bound * pools[c].size
    client: Any = np.int64(finisher)
    while total > 0.0:
        key += MOVE
        point = unit(mix(key)) * total
        c = 0
        while c < pools.size - 1 and point >= pools[c].bound * pools[c].size:
            point -= pools[c].bound * pools[c].size
            c += 1
        pool = pools[np.uint32(c)]
        if pool.size == 0:  # rounding went beyond the last class
            continue
        drawn = min(np.uint32(point * pool.inverse), np.uint32(pool.size - 1))
        client = np.int64(e.room[np.uint32(pool.first + drawn)])
        weight = e.groups[e.clients[client].group].weight
        if weight == pool.bound:
            break
        key += MOVE
        if unit(mix(key)) * pool.bound < weight:
            break
    e.world[0].routing = key
    return client, e.groups[e.clients[client].group].share


@hot
def take_room(e: "Engine", client: int) -> None:
    """Note that the client gets a task; if that uses up its cap, it leaves the list."""
    group = e.clients[client].group
    e.clients[client].outstanding += 1
    if e.clients[client].outstanding == e.groups[group].cap:
        kind = e.groups[group].weight_class
        size = np.uint32(e.pools[kind].size - 1)
        e.pools[kind].size = size
        first = e.pools[kind].first
        last, place = e.room[np.uint32(first + size)], e.clients[client].room_place
        e.room[np.uint32(first + place)] = last
        e.clients[last].room_place = place


@hot
def give_room(e: "Engine", client: int) -> None:
    """Note that a task of the client has ended; if it had no room, it joins the list again."""
    group = e.clients[client].group
    held = e.clients[client].outstanding
    e.clients[client].outstanding = held - 1
    if held == e.groups[group].cap:
        kind = e.groups[group].weight_class
        size = e.pools[kind].size
        e.room[np.uint32(e.pools[kind].first + size)] = client
        e.clients[client].room_place = size
        e.pools[kind].size = np.uint32(size + 1)
