"""AsGrad: asynchronous SGD by who gets the next task, and by how many arrivals make a step.

    x_{k+1} = x_k - eta (1/b) sum_{j=1..b} g_{i_j}(x_{k - tau_j})

The server waits for b arrivals, applies their mean, and then assigns b new tasks: to the clients that have returned
(`pure`), to clients drawn uniformly (`random`), which may queue them, or to the clients in a random order, a new one
for every n assignments (`shuffled`). Clients that have returned wait for the b-th arrival. With b > 1,
`combine` puts another combination in the place of the mean, against clients that lie: see `sojourn.learning.combine`.

The paper is the specification, not its public code. There a gradient is computed on the data of the client that has
finished instead of the one that was chosen, and a task that waits at a client is not begun when the client is free.

Special cases: with b = 1 it is AsyncSGD with the same assignment. With b = C = n and `pure` it is minibatch gradient
descent, in rounds. With `shuffled`, b = 1 and C = 1 it is SGD with random reshuffling of clients.

Islamov, Safaryan, Alistarh, "AsGrad: a sharp unified analysis of asynchronous-SGD algorithms", AISTATS 2024, arXiv
2310.20452.
"""

from dataclasses import dataclass, field
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
from sojourn.scenario import Dispatcher, Scenario

ASSIGNMENTS = {"pure": "pure", "random": "routed", "shuffled": "shuffled"}


@storable("asgrad.state")
class State(NamedTuple):
    """The server's model, what its step rule remembers, the gradients that have arrived since the last step, and what
    the last step went along, if that is needed.
    """

    params: Tensor
    version: int
    memory: ServerMemory
    held: Any
    gathered: int
    last: Tensor | None = None


@dataclass(frozen=True)
class AsGrad(Standard):
    """The AsGrad family: a step for every b arrivals, and b new tasks by the policy."""

    server: ServerStep = field(default_factory=ServerStep)
    """How the server steps along the mean gradient."""
    assignment: str = "shuffled"
    """Who gets the next tasks: pure, random or shuffled."""
    wait: int = 1
    """Number of arrivals that make a step (b)."""
    combine: str = "mean"
    """How b gradients become one: mean, median, trimmed(share=0.1), clipping(radius=1)."""

    name = "asgrad"
    sends = "gradient"
    needs_sent = False
    reference = "Islamov et al., AISTATS 2024"

    def __post_init__(self) -> None:
        if self.assignment not in ASSIGNMENTS:
            raise InvalidInput(f"asgrad: assignment must be one of {', '.join(ASSIGNMENTS)}, got '{self.assignment}'")
        if self.wait < 1:
            raise InvalidInput(f"asgrad: wait must be at least 1, got {self.wait}")
        combination(self.combine)

    @property
    def family(self) -> str:
        """A step for every arrival, or for b."""
        return "per-arrival gradient" if self.wait == 1 else "buffered"

    @property
    def waits_for(self) -> str:
        """Nobody, or b arrivals."""
        return "nobody" if self.wait == 1 else "b arrivals"

    @property
    def server_memory(self) -> str:
        """The model, and what is gathered."""
        return memory(self.combine, self.wait, word="wait", models=1)

    @property
    def unbiased(self) -> bool | None:
        """Under pure assignment fast clients count more; the others give all clients equally many tasks, but what is
        not the mean counts rare data less.
        """
        return self.assignment != "pure" and is_mean(self.combine, self.wait)

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Sample uniformly, whatever the plan's sampling; hold arrivals until there are b."""
        policy, uniform = ASSIGNMENTS[self.assignment], Plan.uniform(fleet, plan.concurrency, plan.step_size)
        if self.wait == 1:
            return uniform, queued(policy, local)
        held = Dispatcher.named("held", wait=self.wait, assign=policy)
        return uniform, Scenario(held, local_steps=local.steps, one_draw=local.epochs is not None)

    def init(self, params: Tensor, setting: Setting) -> State:
        """Start from the first model."""
        return State(params, 0, ServerMemory(), None, 0)

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Gather the gradient; with the b-th, step against their mean."""
        rule = combination(self.combine)
        held = rule.add(state.held, arrival.update.as_gradient(), 1.0)
        if state.gathered + 1 < self.wait:
            return state._replace(held=held, gathered=state.gathered + 1), Info()
        step_size = self.server.step_size_at(arrival.step, arrival.time)
        vector, share = rule.combined(held, self.wait, state.last)
        memory, params = self.server.step(state.memory, state.params, vector, share, step_size)
        return State(params, state.version + 1, memory, None, 0, vector if rule.follows else None), Info()
