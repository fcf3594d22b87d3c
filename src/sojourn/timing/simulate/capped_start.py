"""Where the C tasks of a capped network are at the beginning: by chance with room, or as in the stationary network.

The stationary law is that of independent clients, each with a truncated geometric number of tasks, given that they hold
C in all. Some clients, those whose numbers vary most, are kept back: the law of their sum is computed, all others are
drawn, and the rest must be what those kept back hold. It is accepted with its probability over the largest, and then
split among them one after the other. Small networks are kept back whole, so that nothing is ever refused.
"""

import numpy as np

from sojourn.compiled import compiled
from sojourn.fleet import Fleet
from sojourn.laws.law import Law
from sojourn.plan import Plan
from sojourn.timing.shares import tilted
from sojourn.types import Floats, Integers

_TABLE = 2_000_000  # numbers in the table of those kept back
DOWN, SERVICE, UP = range(3)  # where a task is that began before the run


def with_room(room: Integers, weights: Floats, tasks: int, rng: np.random.Generator) -> Integers:
    """Tasks sent one after the other to a client with room, drawn by its weight; by client."""
    queues = np.zeros(room.size, dtype=np.int64)
    left = tasks
    while left > 0:
        open_to = np.flatnonzero(queues < room)
        chance = weights[open_to] / weights[open_to].max()
        drawn = open_to[rng.choice(open_to.size, left, p=chance / chance.sum())]
        order = np.argsort(drawn, kind="stable")
        first = np.searchsorted(drawn[order], drawn[order])
        nth = np.arange(left) - first  # of the draws of the same client
        taken = drawn[order][nth < (room - queues)[drawn[order]]]
        queues += np.bincount(taken, minlength=room.size)
        left -= taken.size
    return queues


def stationary_queues(load: Floats, count: Integers, plan: Plan, rng: np.random.Generator) -> Integers:
    """Tasks at each client, from pi exactly; `load` is w times the mean cycle of one client of each group."""
    most = np.minimum(plan.cap, plan.concurrency).astype(np.int64)
    ratio = np.repeat(tilted(load, count, plan), count)
    cap = np.repeat(most, count)
    kept = _kept_back(ratio, cap, plan.concurrency)
    others = np.setdiff1d(np.arange(ratio.size), kept)
    table = _sums(ratio[kept], cap[kept], int(min(plan.concurrency, cap[kept].sum())))
    law = table[-1] / table[-1].max()
    queues = np.zeros(ratio.size, dtype=np.int64)
    while True:
        queues[others] = _truncated(ratio[others], cap[others], rng)
        rest = plan.concurrency - int(queues[others].sum())
        if 0 <= rest < law.size and 1 - rng.random() <= law[rest]:
            break
    queues[kept] = _split(table, ratio[kept], cap[kept], rest, rng.random(kept.size))
    return queues


def _kept_back(ratio: Floats, cap: Integers, tasks: int) -> Integers:
    """The clients whose numbers vary most, as many as the table has room for."""
    order = np.argsort(np.abs(np.log(ratio)) / cap, kind="stable")  # near 1 all numbers are alike
    width = np.minimum(np.cumsum(cap[order]), tasks) + 1
    fits = (np.arange(1, order.size + 1) * width <= _TABLE) & (np.cumsum(cap[order] + 1) * width <= 50 * _TABLE)
    return np.sort(order[: max(1, int(fits.sum()))])


def _truncated(ratio: Floats, cap: Integers, rng: np.random.Generator) -> Integers:
    """A number k from 0 to the cap with probability in proportion to ratio^k."""
    u = rng.random(ratio.size)
    back = ratio > 1  # counted from the other end, so that no power overflows
    r = np.where(back, 1 / ratio, ratio)
    even = r > 1 - 1e-9
    with np.errstate(divide="ignore", under="ignore"):
        whole = -np.expm1((cap + 1) * np.log(r))
        found = np.log1p(-u * whole) / np.log(np.where(even, 0.5, r))
    k = np.minimum(np.where(even, u * (cap + 1), found).astype(np.int64), cap)
    return np.asarray(np.where(back, cap - k, k))


@compiled
def _sums(ratio: Floats, cap: Integers, most: int) -> Floats:
    """[j, s]: probability that the first j clients hold s tasks."""
    table = np.zeros((ratio.size + 1, most + 1))
    table[0, 0] = 1.0
    for j in range(ratio.size):
        for held in range(cap[j] + 1):
            weight = ratio[j] ** held if ratio[j] <= 1.0 else ratio[j] ** (held - cap[j])
            if weight > 0.0:
                for s in range(held, most + 1):
                    table[j + 1, s] += table[j, s - held] * weight
        table[j + 1] /= table[j + 1].sum()
    return table


@compiled
def _split(table: Floats, ratio: Floats, cap: Integers, total: int, u: Floats) -> Integers:
    """What each of them holds, given that they hold `total`."""
    found = np.zeros(ratio.size, np.int64)
    for j in range(ratio.size - 1, -1, -1):
        high = min(cap[j], total)
        shift = 0 if ratio[j] <= 1.0 else high
        whole = 0.0
        for held in range(high + 1):
            whole += table[j, total - held] * ratio[j] ** (held - shift)
        point = u[j] * whole
        chosen = high
        for held in range(high + 1):
            part = table[j, total - held] * ratio[j] ** (held - shift)
            if part > 0.0:
                chosen = held
            if point < part:
                break
            point -= part
        found[j] = chosen
        total -= chosen
    return found


def stages(fleet: Fleet, steps: int, clients: Integers, rng: np.random.Generator) -> tuple[Integers, Floats]:
    """Where the task of each of these clients is in the stationary network, and the time left to it there.

    A task is found on a link or in service in proportion to their mean times, and of that duration what is left has
    the equilibrium law. One in service has, of its local steps, any number before it with equal probability.
    """
    group = fleet.group_of_client[clients]
    down, served = (1 / fleet.downlink_rate)[group], (steps / fleet.rate)[group]
    point = rng.random(clients.size) * (down + served + (1 / fleet.uplink_rate)[group])
    stage = np.where(point < down, DOWN, np.where(point < down + served, SERVICE, UP))
    left = np.zeros(clients.size)
    for kind, laws, rate in (
        (DOWN, fleet.downlink_law, fleet.downlink_rate),
        (SERVICE, fleet.law, fleet.rate),
        (UP, fleet.uplink_law, fleet.uplink_rate),
    ):
        for law in set(laws):
            mine = np.flatnonzero((stage == kind) & np.array([one == law for one in laws])[group])
            left[mine] = residual(law, rng.random(mine.size)) / rate[group[mine]]
            if kind == SERVICE and steps > 1:
                more = rng.integers(0, steps, mine.size)
                whole = np.repeat(np.arange(mine.size), more)
                drawn = np.bincount(whole, law.kind.draw(rng, whole.size), mine.size)
                left[mine] += drawn / rate[group[mine]]
    return stage, left


def residual(law: Law, u: Floats) -> Floats:
    """What is left of a duration with mean one that is found going on: P(more than x) = u, by halving.

    >>> residual(Law("deterministic"), np.array([0.25])).round(9)
    array([0.75])
    """
    kind = law.kind

    def beyond(x: Floats) -> Floats:
        with np.errstate(all="ignore"):
            found = np.exp(kind.log_survival(x)) * (kind.mean_beyond(x) - x)
        return np.where(np.isfinite(found), found, 0.0)

    low, high = np.full(u.size, 1e-300), np.full(u.size, min(kind.longest, 1.0))
    while u.size and (late := (beyond(high) > u) & (high < kind.longest)).any():
        high = np.where(late, np.minimum(2 * high, kind.longest), high)
    for _ in range(64):
        middle = (low + high) / 2
        above = beyond(middle) > u
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.asarray((low + high) / 2)
