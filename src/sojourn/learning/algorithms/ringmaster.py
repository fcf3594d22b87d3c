"""Ringmaster ASGD: asynchronous SGD that ignores gradients which are R or more steps old.

    x_{k+1} = x_k - eta g_i(x_{k - tau})    if tau < R;  otherwise nothing changes

tau is the number of changes of the server's model since it was sent. Every client always works, and gets the present
model whenever it has finished, whether its gradient was used or not.

With `stops` a task is cancelled as soon as it is R steps old, and its client begins with the present model at once. So
no gradient is finished in vain; what a cancelled task had begun counts as a gradient that was discarded.

R = max(1, sigma^2 / eps) is the theory's choice, with sigma^2 the variance of a gradient and eps the accuracy wanted;
both are rarely known. Without `threshold` R is n, the number of clients: with equal speeds all gradients are younger.

Special cases: with R = inf it is AsyncSGD with pure assignment; with R = 1 it is SGD with fresh gradients only. It is
made for clients with the same data: gradients of slow clients are ignored, so that with different data it is biased.

Maranjyan, Tyurin, Richtarik, "Ringmaster ASGD: the first asynchronous SGD with optimal time complexity", ICML 2025,
arXiv 2501.16168.
"""

from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.learning.algorithms.base import Arrival, Info, Setting, Standard, queued
from sojourn.learning.replay.local import Local
from sojourn.learning.replay.server_step import ServerMemory, ServerStep
from sojourn.learning.storable import storable
from sojourn.plan import Plan
from sojourn.scenario import Dispatcher, Scenario


@storable("ringmaster.state")
class State(NamedTuple):
    """The server's model, what its step rule remembers, and the threshold."""

    params: Tensor
    version: int
    memory: ServerMemory
    threshold: float


@dataclass(frozen=True)
class Ringmaster(Standard):
    """Ringmaster ASGD: every gradient that is not too old makes a step; older ones are ignored or cancelled."""

    server: ServerStep = field(default_factory=ServerStep)
    """How the server steps along a gradient."""
    threshold: float | None = None
    """R: a gradient that is this many changes of the model old is not used; inf = never, None = the number of
    clients.
    """
    stops: bool = False
    """Whether tasks that have become too old are cancelled rather than finished in vain."""

    name = "ringmaster"
    sends = "gradient"
    needs_sent = False
    family = "per-arrival gradient"
    waits_for = "nobody"
    server_memory = "1 model"
    unbiased = False
    reference = "Maranjyan et al., ICML 2025"

    def __post_init__(self) -> None:
        limit = self.threshold
        if limit is not None and not (limit == inf or (limit >= 1 and limit == int(limit))):
            raise InvalidInput(f"ringmaster: threshold must be a whole number of at least 1, or inf, got {limit}")

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Keep every client at work; with `stops`, cancel a task when it has become too old."""
        everyone, limit = Plan.uniform(fleet, fleet.clients, plan.step_size), self._limit(fleet.clients)
        if not self.stops or limit == inf:
            return everyone, queued("pure", local)
        stops = Dispatcher.named("restarting", age=int(limit))
        return everyone, Scenario(stops, local_steps=local.steps, one_draw=local.epochs is not None)

    def _limit(self, clients: int) -> float:
        return float(clients if self.threshold is None else self.threshold)

    def init(self, params: Tensor, setting: Setting) -> State:
        """Start from the first model."""
        return State(params, 0, ServerMemory(), self._limit(setting.clients))

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Step against the gradient, unless it is too old."""
        if state.version - arrival.sent.version >= state.threshold:
            return state, Info(used=False)
        step_size = self.server.step_size_at(arrival.step, arrival.time)
        memory, params = self.server.step(state.memory, state.params, arrival.update.as_gradient(), 1.0, step_size)
        return State(params, state.version + 1, memory, state.threshold), Info()
