"""shuffled: clients get tasks in a random order; a new order begins when all have had their turn."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sojourn.compiled import hot
from sojourn.dispatching import DispatcherKind, register
from sojourn.random import MOVE, mix, unit

if TYPE_CHECKING:
    from sojourn.timing.simulate.engine import Engine


@hot
def choose_shuffled(e: "Engine") -> tuple[int, float]:
    """Draw one of the clients that have not had their turn; the order is made as it is used."""
    clients = e.clients.size
    key = e.world[0].routing + MOVE
    e.world[0].routing = key
    turn = e.world[0].turn
    e.world[0].turn = (turn + 1) % clients
    other = turn + np.int64(unit(mix(key)) * (clients - turn))
    e.order[turn], e.order[other] = e.order[other], e.order[turn]
    return e.order[turn], e.groups[e.clients[e.order[turn]].group].share


@register
@dataclass(frozen=True)
class Shuffled(DispatcherKind):
    """Gives every client equally many tasks."""

    name = "shuffled"
    not_live = ""
