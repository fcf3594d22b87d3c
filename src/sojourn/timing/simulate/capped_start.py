"""Place the C tasks of a capped network at the beginning: within the caps, and under way as in the long run.

`sojourn.timing.exact.capped_draw` draws which clients hold them in the stationary network; with a cap of 1 this is
exact for any laws. The remaining time of a task under way has the equilibrium law of its stage.
"""

import numpy as np

from sojourn.fleet import Fleet
from sojourn.laws.law import Law
from sojourn.types import Floats, Integers

DOWN, SERVICE, UP = range(3)  # stages of a task that began before the run


def with_room(room: Integers, weights: Floats, tasks: int, rng: np.random.Generator) -> Integers:
    """Send tasks one after the other to clients with room, drawn by weight; return the number of tasks per client."""
    queues = np.zeros(room.size, dtype=np.int64)
    left = tasks
    while left > 0:
        open_to = np.flatnonzero(queues < room)
        chance = weights[open_to] / weights[open_to].max()
        drawn = open_to[rng.choice(open_to.size, left, p=chance / chance.sum())]
        order = np.argsort(drawn, kind="stable")
        first = np.searchsorted(drawn[order], drawn[order])
        nth = np.arange(left) - first  # number of the draw among those of the same client
        taken = drawn[order][nth < (room - queues)[drawn[order]]]
        queues += np.bincount(taken, minlength=room.size)
        left -= taken.size
    return queues


def stages(fleet: Fleet, steps: int, clients: Integers, rng: np.random.Generator) -> tuple[Integers, Floats]:
    """Draw where the task of each of these clients is in the stationary network, and its remaining time there.

    A task is on a link or in service with probabilities in proportion to their mean times, and the rest of that
    duration has the equilibrium law. The number of local steps that a task in service has done is uniform.
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
    """Return the rest of a duration with mean one that is under way: the x with P(rest > x) = u, by bisection.

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
