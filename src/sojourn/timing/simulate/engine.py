"""The event engine: it simulates any law, links, a busy server, and clients that come and go.

The path of a task: sent -> downlink -> queue of its client -> service -> uplink -> server (FIFO) -> applied. `arrive`
runs the clock to the next task that is applied or lost, and `send` dispatches the next one. For `simulate` a compiled
loop calls both; if timing depends on the model's values, Python calls them.

The state is held in a few arrays of records, so that compiled functions pass little to each other. A client and a slot
are 64 bytes each. Indices are unsigned, because numba would test signed ones for counting from the end.
"""

from typing import Any, NamedTuple

import numpy as np

from sojourn.compiled import bare, hot
from sojourn.random import mix, unit
from sojourn.timing.dispatch.own import choose_own
from sojourn.timing.dispatch.pure import choose_pure
from sojourn.timing.dispatch.room import choose_room, give_room, take_room
from sojourn.timing.dispatch.routed import choose_routed
from sojourn.timing.dispatch.shuffled import choose_shuffled
from sojourn.timing.simulate.capped_start import DOWN, SERVICE
from sojourn.timing.simulate.draws import LAW, PIECE, draw, named
from sojourn.timing.simulate.event_tree import FACTS, clear, id_of, kind_of, pop, push
from sojourn.timing.simulate.jump_chain import Tally
from sojourn.timing.simulate.schedules import SCHEDULE, finish, next_toggle, work_until
from sojourn.types import Floats, Integers, Records

SERVED, REACHES, RETURNS, SERVER, TOGGLES, TICKS = range(6)  # kinds of events
ROUTED, PURE, SHUFFLED, ROOM, OWN = range(5)  # dispatchers; the last two keep lists of the clients with room
CODES = {"routed": ROUTED, "pure": PURE, "shuffled": SHUFFLED, "idle": ROOM}
NOBODY, PAUSED = -1, -2  # in place of a slot: no task will ever end; too many events without a task that ends
TICKED = -3  # in place of a slot: a time that the server has set itself, number 0; -4 is number 1, and so on


def _law(prefix: str) -> list[tuple[str, str]]:
    return [(f"{prefix}_{name}", kind) for name, kind in LAW]


GROUP = np.dtype(
    [
        *[("first", "u4"), ("members", "u4"), ("share", "f8")],  # share of all updates, as believed of one client
        *[("keep", "f8"), ("other", "i8")],  # alias table over groups
        *[("weight", "f8"), ("cap", "u4"), ("weight_class", "u4")],  # for drawing among the clients with room
        *[("service_time", "f8"), *_law("service")],  # mean of one local step
        *[("uplink_time", "f8"), *_law("uplink"), ("downlink_time", "f8"), *_law("downlink")],
        *SCHEDULE,
    ]
)
CLIENT = np.dtype(
    [
        *[("group", "u4"), ("head", "u4"), ("tail", "u4"), ("length", "u4")],
        *[
            ("service", "u8"),
            ("sent", "i8"),
            ("toggled", "i8"),
        ],  # the next draw: its piece of the stream, or its number
        *[("outstanding", "u4"), ("room_place", "u4"), ("there", "u4"), ("seat", "u4")],
        *[("remaining", "f8")],  # work left of the service that stopped when the client left, else NaN
    ]
)
SLOT = np.dtype(
    [
        *[("client", "u4"), ("following", "u4"), ("work", "u4"), ("nth", "u4"), ("dispatched_step", "i8")],
        *[("dispatched_at", "f8"), ("reached_at", "f8"), ("started_at", "f8"), ("finished_at", "f8"), ("prob", "f8")],
    ]
)
WORLD = np.dtype(
    [
        *[("clock", "f8"), ("step", "i8"), *FACTS],
        *[("dispatcher", "i8"), ("local_steps", "i8"), ("one_draw", "i8"), ("changing", "i8")],
        *[("server_time", "f8"), *_law("server")],
        *[("server_head", "i8"), ("server_tail", "i8"), ("server_length", "i8"), ("server_nth", "i8")],
        *[("turn", "i8"), ("estimated", "i8"), ("routing", "u8"), ("service_key", "u8"), ("server_key", "u8")],
        *[("uplink_key", "u8"), ("downlink_key", "u8"), ("loss_key", "u8"), ("toggle_key", "u8")],
        *[("own", "i8"), ("own_first", "i8"), ("own_size", "i8")],  # a user's own dispatcher, and its numbers
        *[("fault", "i8"), ("wrong_client", "i8"), ("wrong_prob", "f8")],
    ]
)


class Engine(NamedTuple):
    """A run: its fixed parts and its state."""

    world: Records  # [one record]
    groups: Records
    clients: Records
    slots: Records
    tree: Records  # the events
    seats: Records
    numbers: Floats  # measured durations, tables of when clients come and go, changes of rates
    pools: Records  # classes of weights
    room: Integers  # clients with room for a task, class by class
    received: Integers  # updates of each client, if its share is estimated
    order: Integers  # shuffled: the clients' turns; a user's own dispatcher: tasks of each client


@hot
def begin(e: Engine, client: int, now: float) -> None:
    """Start or resume service of the first task in a client's queue."""
    mine = e.clients[client]
    slot, group = mine.head, mine.group
    left = mine.remaining
    if np.isnan(left):
        law = e.groups[group]
        e.slots[slot].started_at = now
        key = mine.service
        e.clients[client].service = key + PIECE
        steps = 1 if e.world[0].one_draw else e.slots[slot].work
        left = 0.0
        for _ in range(steps):
            x, key = draw(
                law.service_code,
                law.service_shape,
                law.service_scale,
                law.service_first,
                law.service_size,
                e.numbers,
                key,
            )
            left += x
        left *= law.service_time
    ends_at = finish(e.groups, group, now, left, e.numbers) if e.world[0].changing else now + left
    e.clients[client].remaining = np.nan
    e.clients[client].seat = push(e.world, e.tree, e.seats, ends_at, client, SERVED)


@hot
def join(e: Engine, sums: Tally, slot: int, now: float, began: float) -> None:
    """Put a task into its client's queue."""
    client = e.slots[slot].client
    e.slots[slot].reached_at = now
    waiting = e.clients[client].length
    e.clients[client].length = waiting + 1
    if waiting == 0:
        e.clients[client].head = slot
        if e.clients[client].there:
            begin(e, client, now)
    else:
        e.slots[e.clients[client].tail].following = slot
    e.clients[client].tail = slot
    group = e.clients[client].group
    sums.task_time[group] -= now - began
    if waiting + 1 < sums.level_time.shape[1]:
        sums.level_time[group, waiting + 1] -= now - began


@hot
def leave(e: Engine, sums: Tally, client: int, now: float, began: float) -> int:
    """Take the first task out of a client's queue, and begin the next one."""
    slot = e.clients[client].head
    found = e.clients[client].length
    group = e.clients[client].group
    e.slots[slot].finished_at = now
    e.clients[client].length = found - 1
    e.clients[client].head = e.slots[slot].following
    sums.task_time[group] += now - began
    if found < sums.level_time.shape[1]:
        sums.level_time[group, found] += now - began
    if found > 1 and e.clients[client].there:
        begin(e, client, now)
    return slot


@bare
def toggle(e: Engine, sums: Tally, client: int, now: float, began: float) -> int:
    """Let a client come or go; return the slot of the task that is lost by it, or NOBODY."""
    group = e.clients[client].group
    there = e.clients[client].there == 0
    e.clients[client].there = there
    e.clients[client].toggled += 1
    nth = e.clients[client].toggled
    upcoming = next_toggle(e.groups, group, client, e.world[0].toggle_key, there, now, nth, e.numbers)
    if upcoming < np.inf:
        push(e.world, e.tree, e.seats, upcoming, client, TOGGLES)
    if e.clients[client].length == 0:
        return NOBODY
    if there:
        begin(e, client, now)
        return NOBODY
    ends_at = clear(e.world, e.tree, e.seats, e.clients[client].seat)
    if e.groups[group].lose:
        slot = leave(e, sums, client, now, began)
        e.slots[slot].finished_at = np.nan
        return slot
    changing = e.world[0].changing
    left = work_until(e.groups, group, now, ends_at, e.numbers) if changing else ends_at - now
    e.clients[client].remaining = left
    return NOBODY


@bare
def serve(e: Engine, now: float) -> None:
    """Let the server begin with the first update in its queue."""
    law = e.world[0]
    key = named(law.server_key, 0, law.server_nth)
    x, _ = draw(law.server_code, law.server_shape, law.server_scale, law.server_first, law.server_size, e.numbers, key)
    e.world[0].server_nth += 1
    push(e.world, e.tree, e.seats, now + x * law.server_time, 0, SERVER)


@bare
def to_server(e: Engine, slot: int, now: float) -> None:
    """Put an update into the queue of a server that takes time."""
    if e.world[0].server_length == 0:
        e.world[0].server_head = slot
        serve(e, now)
    else:
        e.slots[e.world[0].server_tail].following = slot
    e.world[0].server_tail = slot
    e.world[0].server_length += 1


@bare
def from_server(e: Engine, now: float) -> int:
    """Finish the first update in the server's queue, and begin the next one."""
    slot = e.world[0].server_head
    e.world[0].server_head = e.slots[slot].following
    e.world[0].server_length -= 1
    if e.world[0].server_length > 0:
        serve(e, now)
    return slot


@bare
def to_uplink(e: Engine, slot: int, now: float) -> None:
    """Put a finished task on its uplink."""
    client = e.slots[slot].client
    law = e.groups[e.clients[client].group]
    key = named(e.world[0].uplink_key, client, e.slots[slot].nth)
    x, _ = draw(law.uplink_code, law.uplink_shape, law.uplink_scale, law.uplink_first, law.uplink_size, e.numbers, key)
    push(e.world, e.tree, e.seats, now + x * law.uplink_time, slot, RETURNS)


@hot
def arrive(e: Engine, sums: Tally, began: float, most: int) -> tuple[int, bool]:
    """Run the clock to the next task that ends; return (slot, whether it is applied rather than lost).

    The slot is NOBODY if no task will ever end, and PAUSED if none ended before `most` events were set: call again. It
    is TICKED - k at the server's own time of number k.
    """
    at_once = e.world[0].server_time == 0.0
    while True:
        now, event = pop(e.world, e.tree, e.seats)
        if now == np.inf:
            return NOBODY, False
        e.world[0].clock = now
        kind, number = kind_of(event), id_of(event)
        if kind == SERVED:
            slot = leave(e, sums, number, now, began)
            group = e.clients[number].group
            loss = e.groups[group].loss
            if loss > 0.0 and unit(mix(named(e.world[0].loss_key, number, e.slots[slot].nth))) < loss:
                return slot, False
            if e.groups[group].uplink_time > 0.0:
                to_uplink(e, slot, now)
            elif at_once:
                return slot, True
            else:
                to_server(e, slot, now)
        elif kind == REACHES:
            join(e, sums, number, now, began)
        elif kind == RETURNS:
            if at_once:
                return number, True
            to_server(e, number, now)
        elif kind == SERVER:
            return from_server(e, now), True
        elif kind == TICKS:
            ticked: Any = TICKED - np.int64(number)
            return ticked, False
        else:
            slot = toggle(e, sums, number, now, began)
            if slot != NOBODY:
                return slot, False
            if (
                e.world[0].sequence >= most
            ):  # only clients that come and go can cause events for ever without a task that ends
                return PAUSED, False


@hot
def choose(e: Engine, finisher: int) -> tuple[int, float]:
    """Return the client that gets the next task, and its share of all updates as far as it is known."""
    dispatcher = e.world[0].dispatcher
    if dispatcher == OWN:
        return choose_own(e, finisher)
    if dispatcher == PURE:
        client, share = choose_pure(e, finisher)
    elif dispatcher == ROOM:
        client, share = choose_room(e, finisher)
    elif dispatcher == SHUFFLED:
        client, share = choose_shuffled(e)
    else:
        client, share = choose_routed(e)
    if e.world[0].estimated:
        return client, (e.received[client] + share * e.clients.size) / (e.world[0].step + e.clients.size)
    return client, share


@hot
def count_in(e: Engine, client: int) -> None:
    """Count an applied update of the client."""
    e.world[0].step += 1
    if e.world[0].estimated:
        e.received[client] += 1


@hot
def free(e: Engine, client: int) -> None:
    """Note that one task of the client has ended, for dispatchers that ask who has room."""
    if e.world[0].dispatcher < ROOM:
        return
    if e.world[0].dispatcher == OWN:
        e.order[client] -= 1
    give_room(e, client)


@hot
def note_sent(e: Engine, slot: int, client: int, prob: float, work: int) -> None:
    """Record that a task in `slot` goes to `client` now, with the model of the present step."""
    task = e.slots[slot]
    task.client = client
    task.nth = e.clients[client].sent
    task.work = work
    task.prob = prob
    task.dispatched_step = e.world[0].step
    task.dispatched_at = e.world[0].clock
    task.reached_at = task.started_at = task.finished_at = np.nan
    e.clients[client].sent += 1
    if e.world[0].dispatcher >= ROOM:
        if e.world[0].dispatcher == OWN:
            e.order[client] += 1
        take_room(e, client)


@hot
def send(e: Engine, sums: Tally, slot: int, client: int, prob: float, work: int, began: float) -> None:
    """Dispatch a task in `slot` to `client` now, with the model of the present step."""
    note_sent(e, slot, client, prob, work)
    now = e.world[0].clock
    law = e.groups[e.clients[client].group]
    if law.downlink_time == 0.0:
        join(e, sums, slot, now, began)
        return
    x, _ = draw(
        law.downlink_code,
        law.downlink_shape,
        law.downlink_scale,
        law.downlink_first,
        law.downlink_size,
        e.numbers,
        named(e.world[0].downlink_key, client, e.slots[slot].nth),
    )
    push(e.world, e.tree, e.seats, now + x * law.downlink_time, slot, REACHES)


@bare
def find(e: Engine, sums: Tally, slot: int, client: int, prob: float, work: int, stage: int, left: float) -> None:
    """Place a task that is under way when the run begins, with its remaining time on a link or in service."""
    note_sent(e, slot, client, prob, work)
    if stage == DOWN:
        push(e.world, e.tree, e.seats, left, slot, REACHES)
    elif stage == SERVICE:
        e.clients[client].remaining = left
        join(e, sums, slot, 0.0, 0.0)
        e.slots[slot].started_at = 0.0
    else:
        e.slots[slot].reached_at = e.slots[slot].started_at = e.slots[slot].finished_at = 0.0
        push(e.world, e.tree, e.seats, left, slot, RETURNS)
