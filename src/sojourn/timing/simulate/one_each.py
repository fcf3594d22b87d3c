"""The jump chain of the exponential network in which nobody waits: every client holds at most one task.

The state is the set of busy clients. The next client to finish is busy client i with probability mu_i / (sum of busy
rates), and the time to it is exponential with that sum; the next task goes to an idle client by weight, the finisher
among them. Both are drawn from lists by classes, of rates and of weights, as in `sojourn.timing.dispatch.room`: a class
by the sum of its bounds, a client of it uniformly, accepted with its own rate or weight over the bound. When a finisher
is rejected the clock still advances, so that law and clock stay exact. A step costs the same for any number of clients
and tasks.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sojourn.compiled import compiled, inlined
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.random import CLOCK, EDGE, HEIGHT, MOVE, ROUTING, SERVICE, exponential, mix, unit
from sojourn.timing.dispatch.room import empty_pools
from sojourn.timing.simulate.jump_chain import Rows, Tally, staleness_bin
from sojourn.types import Floats, Integers, Records

GROUP = np.dtype([("rate", "f8"), ("weight", "f8"), ("rate_class", "u4"), ("weight_class", "u4")])
CLIENT = np.dtype([("dispatched_step", "i8"), ("group", "u4"), ("unused", "u4")])


class State(NamedTuple):
    """The state of a run."""

    groups: Records
    clients: Records
    working: Records  # classes of rates
    busy: NDArray[np.uint32]  # who is busy, class by class
    resting: Records  # classes of weights
    idle: NDArray[np.uint32]  # who is idle, class by class
    reach: Floats  # [rates, then weights]: cumulative sums over the classes
    dispatched_at: Floats  # of the task of each client
    edge: Floats  # layers of the exponential draw
    height: Floats
    keys: NDArray[np.uint64]  # random streams by purpose
    step: Integers  # [updates applied]
    clock: Floats  # [time]


def state(fleet: Fleet, plan: Plan, queues: Integers, keys: NDArray[np.uint64]) -> State:
    """Return a run at its beginning: each client with one in `queues` has a task of step 0."""
    plan.check(fleet)
    if not fleet.exponential or queues.max() > 1:
        raise InvalidInput(
            "this jump chain needs exponential service, no links and at most one task per client, got others"
        )
    groups = np.zeros(fleet.groups, GROUP)
    groups["rate"], groups["weight"] = fleet.rate, plan.sampling / plan.sampling.max()
    groups["rate_class"], working = empty_pools(groups["rate"], fleet.count)
    groups["weight_class"], resting = empty_pools(groups["weight"], fleet.count)
    clients = np.zeros(fleet.clients, CLIENT)
    clients["group"] = fleet.group_of_client
    busy = _listed(working, groups["rate_class"][clients["group"]], queues > 0)
    idle = _listed(resting, groups["weight_class"][clients["group"]], queues == 0)
    return State(
        *(groups, clients, working, busy, resting, idle, np.zeros(working.size + resting.size)),
        *(np.zeros(fleet.clients), EDGE, HEIGHT, keys.copy(), np.zeros(1, dtype=np.int64), np.zeros(1)),
    )


def _listed(pools: Records, class_of: Integers, which: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Return the list of these clients, class by class, and set the sizes of the classes."""
    found = np.zeros(class_of.size + 1, dtype=np.uint32)
    mine = np.flatnonzero(which)
    mine = mine[np.argsort(class_of[mine], kind="stable")]
    sizes = np.bincount(class_of[mine], minlength=pools.size)
    within = np.arange(mine.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    found[pools["first"][class_of[mine]] + within] = mine
    pools["size"] = sizes
    return found


@inlined
def _add_up(pools: Records, reach: Floats, begin: int) -> float:
    """Update `reach` from `begin` on; return the total."""
    total = 0.0
    for c in range(pools.size):
        total += pools[c].bound * pools[c].size
        reach[begin + c] = total
    return total


@inlined
def _draw(pools: Records, reach: Floats, begin: int, point: float) -> tuple[np.uint32, np.uint32]:
    """Return the class that a point on the line falls into, and the place in the list; no branch
    depends on the point.
    """
    found = np.uint32(0)
    before = 0.0
    for c in range(pools.size - 1):
        beyond = point >= reach[begin + c]
        found = np.uint32(found + np.uint32(beyond))
        before = reach[begin + c] if beyond else before
    pool = pools[found]
    drawn = min(np.uint32((point - before) * pool.inverse), np.uint32(max(pool.size, np.uint32(1)) - np.uint32(1)))
    return found, np.uint32(pool.first + drawn)


@compiled
def advance(run: State, sums: Tally, out: Rows, steps: int) -> float:
    """Apply `steps` updates; return the time they took."""
    route, serve, ticks = run.keys[ROUTING], run.keys[SERVICE], run.keys[CLOCK]
    clients, groups, working, resting, busy, idle = (
        run.clients,
        run.groups,
        run.working,
        run.resting,
        run.busy,
        run.idle,
    )
    reach, weights = run.reach, working.size
    by_group = sums.bins.shape[0] > 1
    record = out.client.size > 0
    began, first_step = run.clock[0], run.step[0]
    now = 0.0
    total = _add_up(working, reach, 0)
    for step in range(first_step, first_step + steps):
        # who finishes, and when
        while True:
            wait, ticks = exponential(ticks, run.edge, run.height)
            now += wait / total
            serve += MOVE
            c, place = _draw(working, reach, 0, unit(mix(serve)) * total)
            client = busy[place]
            group = clients[client].group
            rate = groups[group].rate
            if rate == working[c].bound:
                break
            serve += MOVE
            if unit(mix(serve)) * working[c].bound < rate:
                break
        staleness = step - clients[client].dispatched_step
        sums.arrivals[group] += 1
        sums.staleness[group] += staleness
        sums.oldest[group] = max(sums.oldest[group], staleness)
        sums.bins[group if by_group else 0, np.uint32(staleness_bin(staleness))] += 1
        sums.task_time[group] += now
        if record:
            row = step - first_step
            out.client[row], out.dispatched_step[row] = client, clients[client].dispatched_step
            out.dispatched_at[row] = out.started_at[row] = run.dispatched_at[client]
            out.applied_at[row] = began + now

        # it is idle again
        size = np.uint32(working[c].size - 1)
        working[c].size = size
        busy[place] = busy[np.uint32(working[c].first + size)]
        c = groups[group].weight_class
        idle[np.uint32(resting[c].first + resting[c].size)] = client
        resting[c].size += np.uint32(1)

        # the next task goes to an idle client
        room = _add_up(resting, reach, weights)
        while True:
            route += MOVE
            c, place = _draw(resting, reach, weights, unit(mix(route)) * room)
            client = idle[place]
            group = clients[client].group
            if groups[group].weight == resting[c].bound:
                break
            route += MOVE
            if unit(mix(route)) * resting[c].bound < groups[group].weight:
                break
        size = np.uint32(resting[c].size - 1)
        resting[c].size = size
        idle[place] = idle[np.uint32(resting[c].first + size)]
        c = groups[group].rate_class
        busy[np.uint32(working[c].first + working[c].size)] = client
        working[c].size += np.uint32(1)
        clients[client].dispatched_step = step + 1
        if record:
            run.dispatched_at[client] = began + now
        sums.task_time[group] -= now
        total = _add_up(working, reach, 0)
    for pool in working:  # a task still there counts until now
        for listed in range(pool.first, pool.first + pool.size):
            sums.task_time[clients[busy[listed]].group] += now
    run.keys[ROUTING], run.keys[SERVICE], run.keys[CLOCK] = route, serve, ticks
    run.step[0] = first_step + steps
    run.clock[0] = began + now
    return now


def busy_clients(run: State) -> Integers:
    """Return the busy clients in order."""
    parts = [run.busy[pool["first"] : pool["first"] + pool["size"]] for pool in run.working]
    return np.sort(np.concatenate(parts)).astype(np.int64)
