"""The jump chain of the exponential network: no event heap, and a constant cost per step.

With exponential service the next client to finish is busy client i with probability mu_i / (sum of busy rates), and
the time to it is exponential with that sum. Busy clients are kept in one list for each rate class; a class is drawn by
its total rate, then a client of it uniformly. When there are many distinct rates a class spans a range and its
largest rate is used: a drawn client is accepted with probability mu_i / bound (composition and rejection), and a
rejection still advances the clock (uniformisation), so law and clock stay exact and the cost does not grow with n.
Tasks sit in C slots that are chained into one FIFO list per client; a finished slot is reused for the next task.

A step takes some tens of nanoseconds, and the layout is made for it: what belongs to one client, slot, group or class
is one row of a table, so that a large fleet costs few cache lines per step. Indices are unsigned, because numba would
test signed ones for counting from the end.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sojourn.compiled import compiled, inlined
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.random import CLOCK, EDGE, HEIGHT, MOVE, ROUTING, SERVICE, exponential, mix, unit
from sojourn.timing.simulate.alias import alias_table
from sojourn.types import Floats, Integers

Table = NDArray[Any]

CLASSES = 16
MOST_REFUSALS = 100.0  # most draws per step, in a class with very different rates, that are acceptable
EXACT_STALENESS = 128  # below this a bin of the staleness histogram is one value; above it there are 32 bins per octave
_OCTAVE_BINS = 1030 * 32  # where 128.0 stands when a float's exponent and first 5 fraction bits are read as a number
STALENESS_BINS = EXACT_STALENESS + 33 * 32

# `first` and `members` say which clients a group has, `keep` and `other` are its column of the alias table
GROUP = np.dtype(
    [("rate", "f8"), ("keep", "f8"), ("other", "u4"), ("first", "u4"), ("members", "u4"), ("rate_class", "u4")]
)
# a queue runs from slot `head`, which is in service, to slot `tail`
CLIENT = np.dtype([("head", "u4"), ("tail", "u4"), ("length", "u4"), ("group", "u4")])
SLOT = np.dtype([("dispatched_step", "i8"), ("following", "u4")], align=True)
# `bound` is the largest rate, `inverse` 1 / bound, `weight` bound * busy; `first` is where its busy clients are listed
CLASS = np.dtype([("bound", "f8"), ("inverse", "f8"), ("weight", "f8"), ("first", "u4"), ("busy", "u4")])


class Network(NamedTuple):
    """The parts that do not change during a run."""

    groups: Table
    classes: Table  # their state when no client is busy
    rate: Floats  # of each group
    group: Integers  # group of each client
    edge: Floats  # layers of the exponential draw
    height: Floats

    @property
    def class_of(self) -> NDArray[np.uint32]:
        """Class of each group."""
        return np.asarray(self.groups["rate_class"])

    @property
    def class_first(self) -> NDArray[np.uint32]:
        """Where the busy list of each class begins."""
        return np.asarray(self.classes["first"])

    @property
    def bound(self) -> Floats:
        """Largest rate of each class."""
        return np.asarray(self.classes["bound"])


class State(NamedTuple):
    """The state of a run."""

    clients: Table
    slots: Table
    classes: Table
    reach: Floats  # cumulative sums of the weights of the classes
    busy: NDArray[np.uint32]  # busy clients, class by class
    begun: Floats  # when the slot in service at each client began
    dispatched_at: Floats  # of each slot
    keys: NDArray[np.uint64]  # random streams by purpose
    step: Integers  # [updates applied]
    clock: Floats  # [time]

    @property
    def length(self) -> NDArray[np.uint32]:
        """Number of tasks at each client."""
        return np.asarray(self.clients["length"])

    @property
    def head(self) -> NDArray[np.uint32]:
        """Slot in service at each client."""
        return np.asarray(self.clients["head"])

    @property
    def following(self) -> NDArray[np.uint32]:
        """Next slot in the same queue, by slot."""
        return np.asarray(self.slots["following"])

    @property
    def dispatched_step(self) -> Integers:
        """Step at which the task in each slot was dispatched."""
        return np.asarray(self.slots["dispatched_step"])


class Tally(NamedTuple):
    """Sums over the steps of one call, by groups; clock times count from the beginning of the call."""

    arrivals: Integers
    staleness: Integers
    oldest: Integers
    task_time: Floats  # integral over time of the tasks at the group's clients
    level_time: Floats  # [group, k]: integral of the number of clients with at least k tasks
    bins: Integers  # [group or 0, staleness bin]


class Rows(NamedTuple):
    """Columns of the tasks that come back during one call."""

    client: Integers
    dispatched_at: Floats
    started_at: Floats
    applied_at: Floats
    dispatched_step: Integers


def network(fleet: Fleet, plan: Plan) -> Network:
    """Lay out the network for the kernel."""
    plan.check(fleet)
    if not fleet.exponential:
        raise InvalidInput("the jump chain needs exponential service and no links; this fleet has other laws or links")
    class_of = _classes_by_rate(fleet.rate)
    groups = np.zeros(fleet.groups, GROUP)
    groups["rate"], groups["first"], groups["members"] = fleet.rate, fleet.first_client, fleet.count
    groups["rate_class"] = class_of
    groups["keep"], groups["other"] = alias_table(fleet.count * plan.sampling)
    classes = np.zeros(int(class_of.max()) + 1, CLASS)
    np.maximum.at(classes["bound"], class_of, fleet.rate)
    classes["inverse"] = 1 / classes["bound"]
    members = np.bincount(class_of, weights=fleet.count).astype(np.int64)
    classes["first"] = np.cumsum(members) - members
    return Network(groups, classes, np.array(fleet.rate), fleet.group_of_client, EDGE, HEIGHT)


def bearable(fleet: Fleet) -> bool:
    """Whether the classes are narrow enough: a client is accepted with its rate divided by the largest of its class."""
    span = np.log(fleet.rate.max()) - np.log(fleet.rate.min())
    return bool(span <= CLASSES * np.log(MOST_REFUSALS)) or np.unique(fleet.rate).size <= CLASSES


def _classes_by_rate(rate: Floats) -> Integers:
    """Return the class of each group: one per rate or, if there are many, one per range of nearly equal rates."""
    rates = np.unique(rate)
    if rates.size <= CLASSES:
        return np.searchsorted(rates, rate)
    position = np.log(rate / rates[0]) / np.log(rates[-1] / rates[0])
    class_of = np.minimum((position * CLASSES).astype(np.int64), CLASSES - 1)
    return np.asarray(np.unique(class_of, return_inverse=True)[1])


def state(net: Network, queues: Integers, keys: NDArray[np.uint64]) -> State:
    """Return a run at its beginning: `queues` initial tasks at each client, all of step 0."""
    tasks, ends = int(queues.sum()), np.cumsum(queues)
    clients, slots, classes = np.zeros(queues.size, CLIENT), np.zeros(tasks, SLOT), net.classes.copy()
    clients["head"], clients["tail"] = ends - queues, np.maximum(ends, 1) - 1
    clients["length"], clients["group"] = queues, net.group
    slots["following"] = np.arange(1, tasks + 1)
    busy = np.zeros(queues.size + 1, dtype=np.uint32)
    class_of = net.class_of[net.group]
    for index, first in enumerate(net.class_first):
        mine = np.flatnonzero((class_of == index) & (queues > 0))
        busy[first : first + mine.size] = mine
        classes["busy"][index] = mine.size
    classes["weight"] = classes["bound"] * classes["busy"]
    return State(
        clients=clients,
        slots=slots,
        classes=classes,
        reach=np.cumsum(classes["weight"]),
        busy=busy,
        begun=np.zeros(queues.size),
        dispatched_at=np.zeros(tasks),
        keys=keys.copy(),
        step=np.zeros(1, dtype=np.int64),
        clock=np.zeros(1),
    )


def tally(groups: int, levels: int, staleness_groups: int) -> Tally:
    """Return an empty tally."""
    return Tally(
        arrivals=np.zeros(groups, dtype=np.int64),
        staleness=np.zeros(groups, dtype=np.int64),
        oldest=np.zeros(groups, dtype=np.int64),
        task_time=np.zeros(groups),
        level_time=np.zeros((groups, levels)),
        bins=np.zeros((staleness_groups, STALENESS_BINS), dtype=np.int64),
    )


def rows(size: int) -> Rows:
    """Return space for `size` rows; with size 0 nothing is recorded."""
    return Rows(
        client=np.empty(size, dtype=np.int64),
        dispatched_at=np.empty(size),
        started_at=np.empty(size),
        applied_at=np.empty(size),
        dispatched_step=np.empty(size, dtype=np.int64),
    )


@inlined
def staleness_bin(staleness: np.int64) -> np.int64:
    """Return the bin of the histogram: exact below 128, then 32 bins per octave (3% wide)."""
    wide = (
        EXACT_STALENESS + (np.float64(staleness).view(np.int64) >> 47) - _OCTAVE_BINS
    )  # computed always, which saves a branch
    return staleness if staleness < EXACT_STALENESS else wide


def bin_edges() -> Floats:
    """Return the left edges of the staleness bins, and the right edge of the last."""
    octave = EXACT_STALENESS * 2.0 ** np.arange(33)
    wide = (octave[:, None] * (1 + np.arange(32) / 32)).ravel()
    return np.concatenate([np.arange(EXACT_STALENESS), wide, [EXACT_STALENESS * 2.0**33]])


@inlined
def _add_up(classes: Table, reach: Floats) -> float:
    """Update `reach`; return the total rate of the busy clients."""
    total = 0.0
    for c in range(classes.size):
        total += classes[c].weight
        reach[c] = total
    return total


@inlined
def _class_at(point: float, reach: Floats) -> tuple[np.uint32, float]:
    """Return the class that a point on the line of busy rates falls into, and where that class begins.

    The point is below the last reach, so the class is never an empty one. No branch depends on the point: it is
    random, so the processor would guess wrong half the time.
    """
    found = np.uint32(0)
    begin = 0.0
    for c in range(reach.size - 1):
        beyond = point >= reach[c]
        found = np.uint32(found + np.uint32(beyond))
        begin = reach[c] if beyond else begin
    return found, begin


@compiled
def advance(net: Network, run: State, sums: Tally, out: Rows, steps: int) -> float:
    """Apply `steps` updates; return the time they took."""
    route, serve, ticks = run.keys[ROUTING], run.keys[SERVICE], run.keys[CLOCK]
    clients, slots, groups, classes, busy = run.clients, run.slots, net.groups, run.classes, run.busy
    levels = sums.level_time.shape[1]
    by_group = sums.bins.shape[0] > 1
    record = out.client.size > 0
    began, first_step = run.clock[0], run.step[0]
    now = 0.0
    total = _add_up(classes, run.reach)
    for step in range(first_step, first_step + steps):
        # who finishes, and when
        while True:
            wait, ticks = exponential(ticks, net.edge, net.height)
            now += wait / total
            serve += MOVE
            point = unit(mix(serve)) * total
            c, begin = _class_at(point, run.reach)
            pool = classes[c]
            drawn = min(np.uint32((point - begin) * pool.inverse), np.uint32(pool.busy - 1))
            place = np.uint32(pool.first + drawn)
            client = busy[place]
            group = clients[client].group
            rate = groups[group].rate
            if rate == pool.bound:
                break
            serve += MOVE
            if unit(mix(serve)) * pool.bound < rate:
                break

        # its oldest task comes back and is applied
        source = clients[client]
        slot = source.head
        found = source.length
        task = slots[slot]
        staleness = step - task.dispatched_step
        sums.arrivals[group] += 1
        sums.staleness[group] += staleness
        sums.oldest[group] = max(sums.oldest[group], staleness)
        sums.bins[group if by_group else 0, np.uint32(staleness_bin(staleness))] += 1
        sums.task_time[group] += now
        if found < levels:
            sums.level_time[group, found] += now
        if record:
            _write(run, out, step - first_step, client, slot, began + now)
        source.head = task.following
        source.length = found - 1
        if found == 1:
            last = np.uint32(pool.busy - 1)
            busy[place] = busy[pool.first + last]
            pool.busy = last
            pool.weight = pool.bound * last
            total = _add_up(classes, run.reach)

        # the slot carries the new model to a client drawn by p
        route += MOVE
        column = unit(mix(route)) * net.rate.size
        group = np.uint32(column)
        if column - group >= groups[group].keep:
            group = groups[group].other
        team = groups[group]
        client = team.first
        if team.members > 1:
            route += MOVE
            client = np.uint32(client + np.uint32(unit(mix(route)) * team.members))
        task.dispatched_step = step + 1
        target = clients[client]
        waiting = target.length
        target.length = waiting + 1
        if waiting == 0:
            target.head = slot
            if record:
                run.begun[client] = began + now
            pool = classes[team.rate_class]
            busy[pool.first + pool.busy] = client
            pool.busy += np.uint32(1)
            pool.weight = pool.bound * pool.busy
            total = _add_up(classes, run.reach)
        else:
            slots[target.tail].following = slot
        target.tail = slot
        sums.task_time[group] -= now
        if waiting + 1 < levels:
            sums.level_time[group, waiting + 1] -= now
    _settle(run, sums, now)
    run.keys[ROUTING], run.keys[SERVICE], run.keys[CLOCK] = route, serve, ticks
    run.step[0] = first_step + steps
    run.clock[0] = began + now
    return now


@inlined
def _write(run: State, out: Rows, row: int, client: np.uint32, slot: np.uint32, now: float) -> None:
    """Record the task that comes back; the client begins its next one, and the slot is sent out again."""
    out.client[row] = client
    out.dispatched_at[row] = run.dispatched_at[slot]
    out.started_at[row] = run.begun[client]
    out.applied_at[row] = now
    out.dispatched_step[row] = run.slots[slot].dispatched_step
    run.begun[client] = now
    run.dispatched_at[slot] = now


@compiled
def _settle(run: State, sums: Tally, now: float) -> None:
    """Close the time integrals: a task still there counts until now."""
    levels = sums.level_time.shape[1]
    for client in range(run.begun.size):
        group = run.clients[client].group
        length = run.clients[client].length
        sums.task_time[group] += length * now
        for level in range(1, min(length + 1, levels)):
            sums.level_time[group, level] += now


@compiled
def waiting_tasks(run: State) -> tuple[Integers, Integers, Integers]:
    """Return client, place in its queue (0 = in service) and slot of every task in flight."""
    tasks = run.dispatched_at.size
    clients, places, slots = np.empty(tasks, np.int64), np.empty(tasks, np.int64), np.empty(tasks, np.int64)
    row = 0
    for client in range(run.begun.size):
        slot = run.clients[client].head
        for place in range(run.clients[client].length):
            clients[row], places[row], slots[row] = client, place, slot
            slot = run.slots[slot].following
            row += 1
    return clients, places, slots
