"""Where the C tasks of a capped network are at the beginning: drawn with room, and under way as in the long run.

Which clients hold them in the stationary network is drawn by `sojourn.timing.exact.capped_draw`; with a cap of 1 that
is so for any laws, and of a task that is found under way the time left has the equilibrium law of its stage.
"""

import numpy as np

from sojourn.fleet import Fleet
from sojourn.laws.law import Law
from sojourn.types import Floats, Integers

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
