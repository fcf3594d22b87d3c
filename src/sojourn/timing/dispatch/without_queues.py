"""Servers that act on their own: what rounds with a barrier and periodic calls have in common.

A step is an update received; updates applied together have consecutive steps and the same `applied_at`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sojourn.compiled import bare
from sojourn.dispatching import DispatcherKind
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.random import MOVE, mix, unit
from sojourn.timing.simulate.draws import draw, named
from sojourn.timing.simulate.drive import TaskRows
from sojourn.timing.simulate.engine import Engine
from sojourn.types import Floats, Integers


class Scratch(NamedTuple):
    """Working memory for one round."""

    finished: Floats
    back: Floats
    started: Floats
    rank: Integers


@dataclass(frozen=True)
class WithoutQueues(DispatcherKind):
    """A dispatcher that plays whole rounds or periods instead of choosing one client at a time."""

    queued = False

    def tasks(self, fleet: Fleet, plan: Plan) -> int:
        """Return the number of tasks of a round or period; raise an error if fleet and plan do not suit it."""
        raise NotImplementedError

    def applied(self, tasks: int) -> int:
        """Return how many of them are applied."""
        raise NotImplementedError

    def play(self, e: Engine, scratch: Scratch, out: TaskRows, number: int) -> None:
        """Play this many rounds or periods; each fills as many rows of `out` as it has tasks."""
        raise NotImplementedError


def between(name: str, value: int | None, most: int, of: str) -> int:
    """Return the value, which must be a whole number from 1 to `most`."""
    if value is None or not 1 <= value <= most:
        raise InvalidInput(f"{name} must be between 1 and the {most} {of} for this dispatcher, got {value}")
    return int(value)


@bare
def pick(e: Engine, number: int) -> None:
    """Move `number` clients, drawn without replacement, to the front of e.order."""
    key = e.world[0].routing
    for turn in range(number):
        key += MOVE
        other = turn + np.int64(unit(mix(key)) * (e.order.size - turn))
        e.order[turn], e.order[other] = e.order[other], e.order[turn]
    e.world[0].routing = key


@bare
def work_within(e: Engine, client: int, nth: int, allowed: float, most: int) -> tuple[float, int]:
    """Return time and number of the local steps of a client's nth task that end within `allowed`, at most `most`."""
    law = e.groups[e.clients[client].group]
    key = named(e.world[0].service_key, client, nth)
    passed = 0.0
    for step in range(most):
        x, key = draw(
            law.service_code, law.service_shape, law.service_scale, law.service_first, law.service_size, e.numbers, key
        )
        if passed + x * law.service_time > allowed:
            return passed, step
        passed += x * law.service_time
    return passed, most
