"""Where the C tasks are at the beginning of a run.

even        C // n at each client, the remainder at random
routed      each task at a client drawn by p
stationary  drawn from the network's stationary law, exactly
one-each    one task at each of C clients chosen at random (needs C <= n)

Under a cap no client begins with more tasks than its cap: `even` spreads them over the clients with room, and `routed`
draws among those.
"""

import math
from collections.abc import Callable

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.scenario import Scenario
from sojourn.timing.exact.capped_draw import draw_state
from sojourn.timing.shares import solved
from sojourn.timing.simulate.capped_start import with_room
from sojourn.types import Floats, Integers


def place(start: str, fleet: Fleet, plan: Plan, rng: np.random.Generator) -> Integers:
    """Return the number of initial tasks at each client."""
    if start not in STARTS:
        raise InvalidInput(f"start must be one of {', '.join(STARTS)}, got '{start}'")
    return STARTS[start](fleet, plan, rng)


def tilt(load: Floats, count: Integers, population: int) -> float:
    """Return the z at which independent geometric queues with ratios theta_i z hold `population` tasks on average."""
    shape = load / load.max()
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        ratio = shape * middle
        if (count * ratio / (1 - ratio)).sum() < population:
            low = middle
        else:
            high = middle
    return low / float(load.max())


def _even(fleet: Fleet, plan: Plan, rng: np.random.Generator) -> Integers:
    room = _room(fleet, plan)
    level = _level(fleet, plan)
    queues = np.minimum(room, level)
    order = rng.permutation(fleet.clients)
    queues[order[room[order] > level][: plan.concurrency - int(queues.sum())]] += 1
    return queues


def _room(fleet: Fleet, plan: Plan) -> Integers:
    """Return how many tasks each client may hold."""
    return np.repeat(np.minimum(plan.cap, plan.concurrency).astype(np.int64), fleet.count)


def _level(fleet: Fleet, plan: Plan) -> int:
    """Return the level up to which every client is filled, or up to its cap, with C tasks in all."""
    low, high = 0, plan.concurrency
    while low < high:
        middle = (low + high + 1) // 2
        fits = (fleet.count * np.minimum(plan.cap, middle)).sum() <= plan.concurrency
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def _routed(fleet: Fleet, plan: Plan, rng: np.random.Generator) -> Integers:
    if plan.capped:
        return with_room(_room(fleet, plan), np.repeat(plan.sampling, fleet.count), plan.concurrency, rng)
    share = fleet.count * plan.sampling
    totals = rng.multinomial(plan.concurrency, share / share.sum())
    members = [rng.multinomial(total, np.full(m, 1 / m)) for total, m in zip(totals, fleet.count, strict=True)]
    return np.concatenate(members).astype(np.int64)


def _one_each(fleet: Fleet, plan: Plan, rng: np.random.Generator) -> Integers:
    if plan.concurrency > fleet.clients:
        raise InvalidInput(
            f"start one-each needs concurrency <= clients, got {plan.concurrency} > {fleet.clients}; use even"
        )
    queues = np.zeros(fleet.clients, dtype=np.int64)
    queues[rng.permutation(fleet.clients)[: plan.concurrency]] = 1
    return queues


def _stationary(fleet: Fleet, plan: Plan, rng: np.random.Generator) -> Integers:
    """Draw from pi_C by tilting and rejection.

    With tilted loads the queues are independent geometric variables and a group's total is negative binomial; pi_C
    is their law given that they sum to C. All groups but one are drawn; the last one must then hold the rest, which
    is accepted with its probability over its largest probability. Within a group every split is equally likely.
    """
    if plan.capped and (plan.one_each or fleet.exponential):  # with a cap of 1 for any laws
        return draw_state(solved(fleet, plan, Scenario()), rng)
    if not fleet.exponential:
        raise InvalidInput(
            "start stationary needs exponential service and no links, this fleet has other laws or links; use even "
            "or routed"
        )
    load = plan.sampling / fleet.rate
    ratio = load * tilt(load, fleet.count, plan.concurrency)
    spread = fleet.count * ratio / (1 - ratio) ** 2
    last = int(np.argmax(spread))
    others = np.delete(np.arange(fleet.groups), last)
    mode = max(0, math.floor((fleet.count[last] - 1) * ratio[last] / (1 - ratio[last])))
    peak = _log_weight(mode, fleet.count[last], ratio[last])
    while True:
        drawn = rng.negative_binomial(fleet.count[others], 1 - ratio[others])
        rest = plan.concurrency - int(drawn.sum())
        if rest >= 0 and math.log(1 - rng.random()) <= _log_weight(rest, fleet.count[last], ratio[last]) - peak:
            break
    totals = np.empty(fleet.groups, dtype=np.int64)
    totals[others], totals[last] = drawn, rest
    return np.concatenate([_split(int(t), int(m), rng) for t, m in zip(totals, fleet.count, strict=True)])


def _log_weight(total: int, members: int, ratio: float) -> float:
    """Return the log of the negative binomial weight of `total` tasks in a group, up to a constant."""
    return math.lgamma(total + members) - math.lgamma(total + 1) + total * math.log(ratio)


def _split(total: int, members: int, rng: np.random.Generator) -> Integers:
    """Split `total` tasks over `members` clients, every composition equally likely (stars and bars)."""
    if members == 1:
        return np.array([total], dtype=np.int64)
    bars = np.sort(rng.choice(total + members - 1, members - 1, replace=False, shuffle=False))
    edges = np.concatenate([[-1], bars, [total + members - 1]])
    return (np.diff(edges) - 1).astype(np.int64)


STARTS: dict[str, Callable[[Fleet, Plan, np.random.Generator], Integers]] = {
    "even": _even,
    "routed": _routed,
    "stationary": _stationary,
    "one-each": _one_each,
}
