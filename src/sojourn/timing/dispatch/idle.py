"""idle: uniform over the clients without a task; nobody waits, so there may be no more tasks than clients."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sojourn.compiled import hot
from sojourn.dispatching import DispatcherKind, register
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.random import MOVE, mix, unit

if TYPE_CHECKING:
    from sojourn.timing.simulate.engine import Engine


@hot
def choose_idle(e: "Engine") -> tuple[int, float]:
    """One of the list of idle clients, which the engine keeps."""
    key = e.world[0].routing + MOVE
    e.world[0].routing = key
    size = e.world[0].idlers
    return e.idle[np.int64(unit(mix(key)) * size)], 1.0 / size


@register
@dataclass(frozen=True)
class Idle(DispatcherKind):
    """Uniform over idle clients."""

    name = "idle"

    def check(self, fleet: Fleet, plan: Plan) -> None:
        """C <= n."""
        if plan.concurrency > fleet.clients:
            sizes = f"{plan.concurrency} > {fleet.clients}"
            raise InvalidInput(f"dispatcher idle needs concurrency <= clients, got {sizes}; lower the concurrency")
