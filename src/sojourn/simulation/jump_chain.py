"""The jump chain of the exponential network: no event heap, constant cost a step.

With exponential service the next client to finish is busy client i with probability mu_i / (sum of busy rates), and
the time to it is exponential with that sum. Busy clients are kept in one list for each rate class; a class is drawn by
its total rate, then a client of it uniformly. When there are many distinct rates a class spans a range and its
largest rate is used: a drawn client is accepted with probability mu_i / bound (composition and rejection), and a
refusal lets the clock run on (uniformisation), so law and clock stay exact and the cost does not grow with n. Tasks
sit in C slots chained into one FIFO list a client; a finished slot is used again for the task dispatched next.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sojourn.compiled import compiled, inlined
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.simulation.alias import alias_table
from sojourn.simulation.streams import CLOCK, EDGE, HEIGHT, MOVE, ROUTING, SERVICE, exponential, mix, unit

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CLASSES = 16
EXACT_STALENESS = 128  # below, a bin of the staleness histogram is one value; above, 32 bins an octave
_OCTAVE_BINS = 1030 * 32  # where 128.0 stands when a float's exponent and first 5 fraction bits are read as a number
STALENESS_BINS = EXACT_STALENESS + 33 * 32


class Network(NamedTuple):
    """What does not change during a run."""

    bound: Floats  # largest rate of each class
    class_first: Integers  # where the busy list of each class begins
    class_of: Integers  # class of each group
    rate: Floats  # of each group
    first: Integers  # first client of each group
    members: Integers  # clients of each group
    keep: Floats  # alias table over groups
    other: Integers
    group: Integers  # group of each client
    edge: Floats  # layers of the exponential draw
    height: Floats


class State(NamedTuple):
    """Where a run stands."""

    head: Integers  # slot in service at each client
    tail: Integers  # last slot in each client's queue
    length: Integers  # tasks at each client
    begun: Floats  # when the slot in service began
    following: Integers  # next slot in the same queue
    dispatched_step: Integers  # of each slot
    dispatched_at: Floats
    busy: Integers  # busy clients, class by class
    busy_count: Integers  # of each class
    keys: NDArray[np.uint64]  # random streams by purpose
    step: Integers  # [updates applied]
    clock: Floats  # [time]


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
    rates = np.unique(fleet.rate)
    if rates.size <= CLASSES:
        class_of = np.searchsorted(rates, fleet.rate)
    else:
        position = np.log(fleet.rate / rates[0]) / np.log(rates[-1] / rates[0])
        class_of = np.minimum((position * CLASSES).astype(np.int64), CLASSES - 1)
        class_of = np.unique(class_of, return_inverse=True)[1]
    bound = np.zeros(int(class_of.max()) + 1)
    np.maximum.at(bound, class_of, fleet.rate)
    members = np.bincount(class_of, weights=fleet.count).astype(np.int64)
    keep, other = alias_table(fleet.count * plan.sampling)
    return Network(
        bound=bound,
        class_first=np.concatenate([[0], np.cumsum(members)[:-1]]).astype(np.int64),
        class_of=class_of.astype(np.int64),
        rate=np.array(fleet.rate),
        first=fleet.first_client,
        members=np.array(fleet.count),
        keep=keep,
        other=other,
        group=fleet.group_of_client,
        edge=EDGE,
        height=HEIGHT,
    )


def state(net: Network, queues: Integers, keys: NDArray[np.uint64]) -> State:
    """A run at its beginning: `queues` initial tasks at each client, all of step 0."""
    clients, tasks = queues.size, int(queues.sum())
    first_slot = np.concatenate([[0], np.cumsum(queues)[:-1]]).astype(np.int64)
    classes = net.class_of[net.group]
    busy = np.zeros(clients + 1, dtype=np.int64)
    busy_count = np.zeros(net.bound.size, dtype=np.int64)
    for index in range(net.bound.size):
        mine = np.flatnonzero((classes == index) & (queues > 0))
        busy[net.class_first[index] : net.class_first[index] + mine.size] = mine
        busy_count[index] = mine.size
    return State(
        head=first_slot.copy(),
        tail=first_slot + queues - 1,
        length=queues.astype(np.int64),
        begun=np.zeros(clients),
        following=np.arange(1, tasks + 1, dtype=np.int64),
        dispatched_step=np.zeros(tasks, dtype=np.int64),
        dispatched_at=np.zeros(tasks),
        busy=busy,
        busy_count=busy_count,
        keys=keys.copy(),
        step=np.zeros(1, dtype=np.int64),
        clock=np.zeros(1),
    )


def tally(groups: int, levels: int, staleness_groups: int) -> Tally:
    """An empty tally."""
    return Tally(
        arrivals=np.zeros(groups, dtype=np.int64),
        staleness=np.zeros(groups, dtype=np.int64),
        oldest=np.zeros(groups, dtype=np.int64),
        task_time=np.zeros(groups),
        level_time=np.zeros((groups, levels)),
        bins=np.zeros((staleness_groups, STALENESS_BINS), dtype=np.int64),
    )


def rows(size: int) -> Rows:
    """Room for `size` rows; with size 0 nothing is recorded."""
    return Rows(
        client=np.empty(size, dtype=np.int64),
        dispatched_at=np.empty(size),
        started_at=np.empty(size),
        applied_at=np.empty(size),
        dispatched_step=np.empty(size, dtype=np.int64),
    )


@inlined
def staleness_bin(staleness: np.int64) -> np.int64:
    """Bin of the histogram: exact below 128, then 32 bins an octave (3% wide)."""
    if staleness < EXACT_STALENESS:
        return staleness
    return EXACT_STALENESS + (np.float64(staleness).view(np.int64) >> 47) - _OCTAVE_BINS


def bin_edges() -> Floats:
    """Left edges of the staleness bins, and the right edge of the last."""
    octave = EXACT_STALENESS * 2.0 ** np.arange(33)
    wide = (octave[:, None] * (1 + np.arange(32) / 32)).ravel()
    return np.concatenate([np.arange(EXACT_STALENESS), wide, [EXACT_STALENESS * 2.0**33]])


@compiled
def advance(net: Network, run: State, sums: Tally, out: Rows, steps: int) -> float:
    """Apply `steps` updates; returns the time they took."""
    route, serve, ticks = run.keys[ROUTING], run.keys[SERVICE], run.keys[CLOCK]
    classes, groups = net.bound.size, net.rate.size
    levels = sums.level_time.shape[1]
    by_group = sums.bins.shape[0] > 1
    record = out.client.size > 0
    began, first_step = run.clock[0], run.step[0]
    now = 0.0
    for step in range(first_step, first_step + steps):
        # who finishes, and when
        while True:
            total = 0.0
            for c in range(classes):
                total += net.bound[c] * run.busy_count[c]
            wait, ticks = exponential(ticks, net.edge, net.height)
            now += wait / total
            serve += MOVE
            left = unit(mix(serve)) * total
            c = 0
            share = net.bound[0] * run.busy_count[0]
            while left >= share and c < classes - 1:
                left -= share
                c += 1
                share = net.bound[c] * run.busy_count[c]
            place = min(np.int64(left / net.bound[c]), run.busy_count[c] - 1)
            if place < 0:  # rounding put the draw into an empty last class
                continue
            client = run.busy[net.class_first[c] + place]
            group = net.group[client]
            if net.rate[group] == net.bound[c]:
                break
            serve += MOVE
            if unit(mix(serve)) * net.bound[c] < net.rate[group]:
                break

        # its oldest task comes back and is applied
        slot = run.head[client]
        found = run.length[client]
        staleness = step - run.dispatched_step[slot]
        sums.arrivals[group] += 1
        sums.staleness[group] += staleness
        sums.oldest[group] = max(sums.oldest[group], staleness)
        sums.bins[group if by_group else 0, staleness_bin(staleness)] += 1
        sums.task_time[group] += now
        if found < levels:
            sums.level_time[group, found] += now
        if record:
            row = step - first_step
            out.client[row] = client
            out.dispatched_at[row] = run.dispatched_at[slot]
            out.started_at[row] = run.begun[client]
            out.applied_at[row] = began + now
            out.dispatched_step[row] = run.dispatched_step[slot]
            run.begun[client] = began + now
            run.dispatched_at[slot] = began + now
        run.head[client] = run.following[slot]
        run.length[client] = found - 1
        if found == 1:
            last = run.busy_count[c] - 1
            run.busy_count[c] = last
            run.busy[net.class_first[c] + place] = run.busy[net.class_first[c] + last]

        # the slot carries the new model to a client drawn by p
        route += MOVE
        column = unit(mix(route)) * groups
        group = np.int64(column)
        if column - group >= net.keep[group]:
            group = net.other[group]
        client = net.first[group]
        if net.members[group] > 1:
            route += MOVE
            client += np.int64(unit(mix(route)) * net.members[group])
        run.dispatched_step[slot] = step + 1
        waiting = run.length[client]
        run.length[client] = waiting + 1
        if waiting == 0:
            run.head[client] = slot
            if record:
                run.begun[client] = began + now
            c = net.class_of[group]
            run.busy[net.class_first[c] + run.busy_count[c]] = client
            run.busy_count[c] += 1
        else:
            run.following[run.tail[client]] = slot
        run.tail[client] = slot
        sums.task_time[group] -= now
        if waiting + 1 < levels:
            sums.level_time[group, waiting + 1] -= now
    _settle(net, run, sums, now)
    run.keys[ROUTING], run.keys[SERVICE], run.keys[CLOCK] = route, serve, ticks
    run.step[0] = first_step + steps
    run.clock[0] = began + now
    return now


@compiled
def _settle(net: Network, run: State, sums: Tally, now: float) -> None:
    """Close the time integrals: every task still there has been there until now."""
    levels = sums.level_time.shape[1]
    for client in range(run.length.size):
        group = net.group[client]
        sums.task_time[group] += run.length[client] * now
        for level in range(1, min(run.length[client] + 1, levels)):
            sums.level_time[group, level] += now


@compiled
def waiting_tasks(run: State) -> tuple[Integers, Integers, Integers]:
    """Client, place in its queue (0 = in service) and slot of every task in flight."""
    tasks = run.following.size
    clients, places, slots = np.empty(tasks, np.int64), np.empty(tasks, np.int64), np.empty(tasks, np.int64)
    row = 0
    for client in range(run.length.size):
        slot = run.head[client]
        for place in range(run.length[client]):
            clients[row], places[row], slots[row] = client, place, slot
            slot = run.following[slot]
            row += 1
    return clients, places, slots
