"""A user's own dispatcher in the event engine: its compiled choice is called by address.

While one runs, `engine.order` holds the number of tasks of each client, and `engine.numbers` the sampling probability
of each client and then the dispatcher's memory.
"""

from typing import TYPE_CHECKING

import numpy as np

from sojourn.compiled import bare, call_choice, choice_address
from sojourn.dispatching import DispatcherKind, State
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.types import Records

if TYPE_CHECKING:
    from sojourn.timing.simulate.engine import Engine


@bare
def choose_own(e: "Engine", finisher: int) -> tuple[int, float]:
    """Return the dispatcher's choice; a client that does not exist is noted, and the finisher takes its place."""
    world = e.world[0]
    client, prob, key = call_choice(
        world.own,
        e.order,
        e.room,
        np.int64(e.pools[0].size),
        e.numbers,
        world.own_first,
        world.own_size,
        np.int64(finisher),
        world.clock,
        world.step,
        world.routing,
    )
    e.world[0].routing = key
    if client < 0 or client >= e.clients.size or not (prob > 0.0 and prob <= 1.0):
        if world.fault == 0:
            e.world[0].fault = 1
            e.world[0].wrong_client = client
            e.world[0].wrong_prob = prob
        return finisher, 1.0
    return client, prob


def prepare(world: Records, kind: DispatcherKind, fleet: Fleet, plan: Plan, numbers: list[float]) -> None:
    """Store the address of the choice and its numbers where the engine finds them."""
    some = State(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1), np.zeros(1), 0.0, 0)
    world["own"] = choice_address(kind.name, type(kind).choose, some)
    memory = tuple(float(value) for value in kind.memory(fleet.clients))
    world["own_first"], world["own_size"] = len(numbers), len(memory)
    numbers.extend(np.repeat(plan.sampling, fleet.count).tolist())
    numbers.extend(memory)


def check_fault(world: Records, clients: int) -> None:
    """Raise an error if a dispatcher has chosen a client that does not exist."""
    if world["fault"][0]:
        client, prob = int(world["wrong_client"][0]), float(world["wrong_prob"][0])
        raise InvalidInput(
            f"a dispatcher must choose a client from 0 to {clients - 1} with a probability in (0, 1], "
            f"got client {client} with probability {prob:g}; correct its choose"
        )
