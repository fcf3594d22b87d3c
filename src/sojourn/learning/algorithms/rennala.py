"""Rennala SGD: all clients compute gradients at the same model, over and over; B of them make a step.

    x_{k+1} = x_k - eta (1/B) sum_{j=1..B} g_j(x_k)

Every client always works, and gets the next task when it has finished one. The server collects the first B gradients of
x_k, whoever sends them. A gradient of an older model is ignored, and its client gets x_k.

`restart` says what happens to the tasks that run when the model changes. With `ignore` (default) they are finished and
then thrown away. With `stop` they are cancelled, and their clients begin with the new model at once. Both occur in the
paper's remarks; `ignore` needs no message that stops a client, and is the fair default. What is thrown away, finished
or not, counts as gradients that were discarded.

Special cases: with B = 1 and `stop` it is SGD on the fastest client's gradient. With B = n and equal speeds it is
minibatch SGD. It is made for clients with the same data: fast clients fill the batch, so that with different data it is
biased towards them.

Tyurin, Richtarik, "Optimal time complexities of parallel stochastic optimization methods under a fixed computation
model", NeurIPS 2023, arXiv 2305.12387.
"""

from dataclasses import dataclass, field
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

RESTARTS = ("ignore", "stop")


@storable("rennala.state")
class State(NamedTuple):
    """The server's model, what its step rule remembers, and the gradients of this model so far."""

    params: Tensor
    version: int
    memory: ServerMemory
    total: Tensor | None
    gathered: int


@dataclass(frozen=True)
class Rennala(Standard):
    """Rennala SGD: a step for every B gradients of the present model, whoever computed them."""

    server: ServerStep = field(default_factory=ServerStep)
    """How the server steps along the mean gradient."""
    size: int = 10
    """Number of gradients of the present model that make a step (B)."""
    restart: str = "ignore"
    """What happens to running tasks when the model changes: ignore (they are finished in vain) or stop."""

    name = "rennala"
    sends = "gradient"
    needs_sent = False
    family = "batch at one model"
    waits_for = "B gradients of its model"
    unbiased = False
    reference = "Tyurin, Richtarik, NeurIPS 2023"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InvalidInput(f"rennala: size must be at least 1, got {self.size}")
        if self.restart not in RESTARTS:
            raise InvalidInput(f"rennala: restart must be ignore or stop, got '{self.restart}'")

    @property
    def server_memory(self) -> str:
        """The model, and the sum of what is gathered."""
        return "2 models" if self.size > 1 else "1 model"

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Keep every client at work; with `stop`, cancel all tasks whenever B gradients have come back."""
        everyone = Plan.uniform(fleet, fleet.clients, plan.step_size)
        if self.restart == "ignore":
            return everyone, queued("pure", local)
        stops = Dispatcher.named("restarting", wait=self.size)
        return everyone, Scenario(stops, local_steps=local.steps, one_draw=local.epochs is not None)

    def init(self, params: Tensor, setting: Setting) -> State:
        """Start from the first model, with nothing gathered."""
        return State(params, 0, ServerMemory(), None, 0)

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Gather a gradient of the present model and step when there are B; ignore a gradient of an older one."""
        if arrival.sent.version != state.version:
            return state, Info(used=False)
        gradient = arrival.update.as_gradient()
        total = gradient if state.total is None else state.total + gradient
        if state.gathered + 1 < self.size:
            return state._replace(total=total, gathered=state.gathered + 1), Info()
        step_size = self.server.step_size_at(arrival.step, arrival.time)
        memory, params = self.server.step(state.memory, state.params, total, 1 / self.size, step_size)
        return State(params, state.version + 1, memory, None, 0), Info()
