"""CA2FL: FedBuff whose buffer is calibrated by the last update of every client, so that absent clients count too.

    v = h_bar + (1/Z) sum_{j in buffer} (Delta_j - h_{i(j)}),   w <- w + eta_g v,   then h_{i(j)} <- Delta_j

h_i is the last update of client i that has been in a buffer (0 at first), h_bar the mean of all n, Delta_j an update
(model after K local steps minus model sent) of client i(j), Z the buffer size and eta_g the server step size. All h are
those from before the buffer. `combine` puts another combination of the differences Delta_j - h in the place of their
mean, against clients that lie: see `sojourn.learning.combine`. A lie that is cached still enters h_bar, by 1/n.

Special cases: if the buffer holds every client exactly once, the h cancel and it is FedBuff with Z = n. If the h stay
0 it is FedBuff. Once the h are near the updates at the present model, v is near the mean over all clients: fast clients
come more often, but do not count more.

Decided: if a client is in a buffer twice, both updates are calibrated by the h from before the buffer, and the later
one becomes its h, in the order of arrival. Statistics of BatchNorm are no part of the rule: with them the published
form, at eta_g = 1, has driven running variances below zero. h_bar is kept up to date by differences.

Wang, Cao, Wu, Chen, Chen, "Tackling the data heterogeneity in asynchronous federated learning with cached update
calibration", ICLR 2024.
"""

from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.learning.algorithms.base import Arrival, Info, Setting, Standard, queued
from sojourn.learning.combine.facts import is_mean, memory
from sojourn.learning.combine.table import combination
from sojourn.learning.replay.local import Local
from sojourn.learning.replay.server_step import ServerMemory, ServerStep
from sojourn.learning.storable import storable
from sojourn.plan import Plan
from sojourn.scenario import Scenario


@storable("ca2fl.state")
class State(NamedTuple):
    """The server's model, the cached updates and their mean, and the buffer."""

    params: Tensor
    version: int
    memory: ServerMemory
    clients: int
    cached: dict[int, Tensor]
    mean: Tensor
    held: Any
    gathered: int
    fresh: dict[int, Tensor]
    """Last update in the buffer of each of its clients."""
    last: Tensor | None = None
    """What the last buffer gave, if that is needed."""


@dataclass(frozen=True)
class Ca2fl(Standard):
    """Buffered aggregation, calibrated by the cached last update of every client."""

    server: ServerStep = field(default_factory=ServerStep)
    """How the server steps along the calibrated update, at `server_step_size`."""
    server_step_size: float = 1.0
    """eta_g."""
    size: int = 10
    """Number of updates in a full buffer (Z)."""
    dispatch: str = "idle"
    """Who gets the next task: idle or routed."""
    combine: str = "mean"
    """How the differences of a buffer become one: mean, median, trimmed(share=0.1), clipping(radius=1)."""

    name = "ca2fl"
    sends = "delta"
    needs_sent = False
    family = "buffered"
    waits_for = "a full buffer"
    reference = "Wang et al., ICLR 2024"

    def __post_init__(self) -> None:
        if not (isfinite(self.server_step_size) and self.server_step_size > 0):
            raise InvalidInput(f"ca2fl: server_step_size must be positive and finite, got {self.server_step_size}")
        if self.size < 1:
            raise InvalidInput(f"ca2fl: size must be at least 1, got {self.size}")
        if self.dispatch not in ("idle", "routed"):
            raise InvalidInput(f"ca2fl: dispatch must be idle or routed, got '{self.dispatch}'")
        combination(self.combine)

    @property
    def server_memory(self) -> str:
        """Model, mean, cache; and, while a buffer fills, what it holds and its updates, up to the last but one."""
        return memory(self.combine, self.size, word="size", models=2, tables=1, entries=1)

    @property
    def unbiased(self) -> bool | None:
        """Absent clients count by the cache; what is not the mean leaves a bias where the noise of gradients is
        skewed.
        """
        return is_mean(self.combine, self.size)

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Keep the plan's number of tasks in flight."""
        return plan, queued(self.dispatch, local)

    def init(self, params: Tensor, setting: Setting) -> State:
        """Start with an empty buffer and caches of zero."""
        return State(params, 0, ServerMemory(), setting.clients, {}, torch.zeros_like(params), None, 0, {})

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Put the calibrated update into the buffer; when the buffer is full, step and renew the caches."""
        delta, before = arrival.update.as_delta(), state.cached.get(arrival.client)
        change = delta if before is None else delta - before
        rule = combination(self.combine)
        held = rule.add(state.held, change, 1.0)
        fresh = {**state.fresh, arrival.client: delta}
        if state.gathered + 1 < self.size:
            return state._replace(held=held, gathered=state.gathered + 1, fresh=fresh), Info()
        vector, share = rule.combined(held, self.size, state.last)
        direction = torch.add(state.mean, vector, alpha=share)
        memory, params = self.server.step(state.memory, state.params, direction, -1.0, self.server_step_size)
        mean = state.mean
        for client, new in fresh.items():
            old = state.cached.get(client)
            mean = torch.add(mean, new if old is None else new - old, alpha=1 / state.clients)
        cached = {**state.cached, **fresh}
        last = vector if rule.follows else None
        return State(params, state.version + 1, memory, state.clients, cached, mean, None, 0, {}, last), Info()
