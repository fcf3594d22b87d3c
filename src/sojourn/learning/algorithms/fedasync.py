"""FedAsync: the server mixes each returned model into its own; the staler the model, the smaller its share.

    w <- (1 - a) w + a w_i,   a = alpha s(tau)

w_i is the client's model after its local steps (a proximal term rho belongs to the local work), tau the number of
changes of the server's model since it was sent. s(tau) is 1 (`constant`), (1 + tau)^(-a) (`polynomial`), or 1 up to b
and 1 / (a (tau - b) + 1) beyond (`hinge`). Models with tau above `most` are dropped. A correction multiplies a, up to
1; by default there is none.

Special case: with alpha = 1 and constant s the server's model is the last client's; with one task in flight this is
local SGD that passes from client to client.

Xie, Koyejo, Gupta, "Asynchronous federated optimization", arXiv 1903.03934, Algorithm 1.
"""

from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple

import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.learning.algorithms.base import Arrival, Info, Setting, Standard, queued
from sojourn.learning.replay.local import Local
from sojourn.learning.storable import storable
from sojourn.plan import Plan
from sojourn.scenario import Scenario

STALENESS = ("constant", "polynomial", "hinge")


@storable("fedasync.state")
class State(NamedTuple):
    """The server's model."""

    params: Tensor
    version: int


@dataclass(frozen=True)
class FedAsync(Standard):
    """Asynchronous mixing: the server takes a share of each returned model into its own."""

    alpha: float = 0.6
    """Share of a model that is not stale."""
    staleness: str = "polynomial"
    """How the share falls with staleness: constant, polynomial or hinge."""
    a: float = 0.5
    """polynomial: the power; hinge: the slope (10 is usual)."""
    b: float = 4.0
    """hinge: staleness up to which a model keeps its full share."""
    most: float | None = None
    """Staleness above which a model is dropped; None = never."""
    dispatch: str = "idle"
    """Who gets the next task: idle, pure or routed."""

    name = "fedasync"
    sends = "delta"
    corrects = True
    family = "per-arrival model mix"
    waits_for = "nobody"
    server_memory = "1 model"
    reference = "Xie et al., arXiv 1903.03934"

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= 1:
            raise InvalidInput(f"fedasync: alpha must lie in (0, 1], got {self.alpha}")
        if self.staleness not in STALENESS:
            raise InvalidInput(f"fedasync: staleness must be one of {', '.join(STALENESS)}, got '{self.staleness}'")
        for key, value in (("a", self.a), ("b", self.b)):
            if not (isfinite(value) and value >= 0):
                raise InvalidInput(f"fedasync: {key} must be non-negative and finite, got {value}")
        if self.most is not None and not self.most >= 0:
            raise InvalidInput(f"fedasync: most must not be negative, got {self.most}")
        if self.dispatch not in ("idle", "pure", "routed"):
            raise InvalidInput(f"fedasync: dispatch must be idle, pure or routed, got '{self.dispatch}'")

    @property
    def unbiased(self) -> bool:
        """Among idle clients the fast ones come more often; the share of a stale model is smaller, or it is dropped."""
        return self.dispatch == "routed" and self.staleness == "constant" and self.most is None

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Keep the plan's number of tasks in flight."""
        return plan, queued(self.dispatch, local)

    def init(self, params: Tensor, setting: Setting) -> State:
        """Start from the first model."""
        return State(params, 0)

    def share(self, tau: int) -> float:
        """Return the share of a model at this staleness."""
        if self.staleness == "polynomial":
            return self.alpha * float((1.0 + tau) ** -self.a)
        if self.staleness == "hinge" and tau > self.b:
            return self.alpha / (self.a * (tau - self.b) + 1)
        return self.alpha

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Mix the client's model in."""
        tau = state.version - arrival.sent.version
        if self.most is not None and tau > self.most:
            return state, Info(used=False)
        share = min(1.0, self.share(tau) * arrival.factor)
        model = arrival.sent.params + arrival.update.as_delta()
        return State(torch.lerp(state.params, model, share), state.version + 1), Info()
