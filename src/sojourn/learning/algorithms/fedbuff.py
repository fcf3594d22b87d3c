"""FedBuff: updates wait in a buffer, and whenever Z have arrived the server steps by their mean.

    w <- w + eta_g (1/Z) sum_{j=1..Z} s(tau_j) Delta_j

Z is the buffer size, Delta_j the model after K local steps minus the model sent, tau_j the number of changes of the
server's model since then, s(tau) is 1 (`none`) or (1 + tau)^(-1/2) (`root`), and eta_g is the server step size. The sum
is divided by Z, not by the sum of the weights. A correction multiplies each update (see `sojourn.correction`); by
default there is none. `combine` puts another combination of the weighted updates in the place of their mean, against
clients that lie: see `sojourn.learning.combine`. With the mean the buffer takes one model of memory, else Z.

Special cases: with Z = 1, K = 1, eta_g = 1 and no staleness weight it is AsyncSGD with the local step size as its step
size, under the same dispatcher. With Z = n, if all clients start together and none gets a new task before the buffer is
full, it is FedAvg.

After each arrival the server sends the current model to a new client: one drawn among the idle clients (`idle`), so
that fast clients come more often than slow ones, or one drawn by the plan (`routed`).

Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek, Huba, AISTATS 2022, Algorithm 1.
"""

from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

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


@storable("fedbuff.state", renamed={"total": "held"})
class State(NamedTuple):
    """The server's model, the buffer, who is in it, and what the last one gave, if that is needed."""

    params: Tensor
    version: int
    memory: ServerMemory
    held: Any
    members: tuple[int, ...]
    last: Tensor | None = None


@dataclass(frozen=True)
class FedBuff(Standard):
    """Buffered asynchronous aggregation: the server steps by the mean of every `size` updates."""

    server: ServerStep = field(default_factory=ServerStep)
    """How the server steps along the mean update, at `server_step_size`."""
    server_step_size: float = 1.0
    """eta_g."""
    size: int = 10
    """Number of updates in a full buffer (Z)."""
    staleness: str = "none"
    """Weight of a stale update: none or root."""
    distinct: bool = False
    """Whether to refuse an update of a client that already has one in the buffer."""
    dispatch: str = "idle"
    """Who gets the next task: idle or routed."""
    combine: str = "mean"
    """How the updates of a buffer become one: mean, median, trimmed(share=0.1), clipping(radius=1)."""

    name = "fedbuff"
    sends = "delta"
    needs_sent = False
    corrects = True
    family = "buffered"
    waits_for = "a full buffer"
    reference = "Nguyen et al., AISTATS 2022"

    def __post_init__(self) -> None:
        if not (isfinite(self.server_step_size) and self.server_step_size > 0):
            raise InvalidInput(f"fedbuff: server_step_size must be positive and finite, got {self.server_step_size}")
        if self.size < 1:
            raise InvalidInput(f"fedbuff: size must be at least 1, got {self.size}")
        if self.staleness not in ("none", "root"):
            raise InvalidInput(f"fedbuff: staleness must be none or root, got '{self.staleness}'")
        if self.dispatch not in ("idle", "routed"):
            raise InvalidInput(f"fedbuff: dispatch must be idle or routed, got '{self.dispatch}'")
        combination(self.combine)

    @property
    def server_memory(self) -> str:
        """The model, and the buffer."""
        return memory(self.combine, self.size, word="size", models=1)

    @property
    def unbiased(self) -> bool | None:
        """Among idle clients the fast ones come more often; the weight `root` lets slow ones count less; what is not
        the mean counts rare data less.
        """
        return self.dispatch == "routed" and self.staleness == "none" and is_mean(self.combine, self.size)

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Keep the plan's number of tasks in flight."""
        return plan, queued(self.dispatch, local)

    def init(self, params: Tensor, setting: Setting) -> State:
        """Start with an empty buffer."""
        if self.distinct and self.size > setting.clients:
            raise InvalidInput(
                f"fedbuff: a buffer of {self.size} distinct clients needs as many, got {setting.clients}; lower size"
            )
        return State(params, 0, ServerMemory(), None, ())

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Put the update into the buffer; when the buffer is full, step by the mean."""
        if self.distinct and arrival.client in state.members:
            return state, Info(used=False)
        tau = state.version - arrival.sent.version
        factor = 1.0 if self.staleness == "none" else (1.0 + tau) ** -0.5
        factor *= arrival.factor
        rule = combination(self.combine)
        held = rule.add(state.held, arrival.update.as_delta(), factor)
        members = (*state.members, arrival.client)
        if len(members) < self.size:
            return state._replace(held=held, members=members), Info()
        vector, share = rule.combined(held, self.size, state.last)
        memory, params = self.server.step(state.memory, state.params, vector, -share, self.server_step_size)
        return State(params, state.version + 1, memory, None, (), vector if rule.follows else None), Info()
