"""routed: draw a client by its sampling probability; a busy client queues the task. The paper's network, the default.

Under a cap the client is drawn by the same numbers among the clients with room: see `room`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sojourn.compiled import hot
from sojourn.dispatching import DispatcherKind, register
from sojourn.random import MOVE, mix, unit

if TYPE_CHECKING:
    from sojourn.timing.simulate.engine import Engine


@hot
def choose_routed(e: "Engine") -> tuple[int, float]:
    """Draw a group by the alias table, then one of its clients."""
    key = e.world[0].routing + MOVE
    column = unit(mix(key)) * e.groups.size
    group = np.uint32(column)
    if column - group >= e.groups[group].keep:
        group = np.uint32(e.groups[group].other)
    client: Any = np.int64(e.groups[group].first)
    members = e.groups[group].members
    if members > 1:
        key += MOVE
        client += np.int64(np.uint32(unit(mix(key)) * members))
    e.world[0].routing = key
    return client, e.groups[group].share


@register
@dataclass(frozen=True)
class Routed(DispatcherKind):
    """Draws clients by the plan's sampling probabilities."""

    name = "routed"
    not_live = ""
