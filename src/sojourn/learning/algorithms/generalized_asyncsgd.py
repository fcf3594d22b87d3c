"""Generalized AsyncSGD: clients are sampled with any probabilities; weights keep the gradients unbiased.

    w_{k+1} = w_k - eta (q_i / s_i)^c / (sum_j s_j (q_j / s_j)^c) g_i(w_{I_k})    when client i's gradient comes back

eta is the server step size, s_i client i's share of all updates, q_i its weight in the objective sum q_i f_i (1/n in
the paper), c the correction, and w_{I_k} the model that the task carried. With K > 1 local steps g_i is the
pseudo-gradient (start - end) / local step size.

With `size` B > 1 the server collects B weighted gradients and steps along their mean. With `steps=adaptive` a gradient
whose staleness, in changes of the model, is above C counts C / staleness. So this algorithm can carry out any plan:
sampling, cap, correction, buffer, and smaller steps for stale updates.

Special cases: c = 1 (default) gives the paper's q_i / p_i if clients are drawn with p_i = s_i and tasks queue. Under a
cap the shares s_i differ from the sampling weights, and c = 1 is unbiased because it uses the shares. c = 0 is
AsyncSGD. If s_i = q_i it is AsyncSGD with random assignment for any c. With C = 1 it is SGD over clients drawn by s. By
default B = 1 and steps are constant: each gradient is applied as it arrives.

Leconte, Jonckheere, Samsonov, Moulines, "Queuing dynamics of asynchronous Federated Learning", AISTATS 2024,
Algorithm 1.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.learning.algorithms.base import Arrival, Info, Setting, Standard
from sojourn.learning.replay.server_step import ServerMemory, ServerStep
from sojourn.learning.storable import storable

STEPS = ("constant", "adaptive")


@storable("generalized-asyncsgd.state")
class State(NamedTuple):
    """The server's model, what its step rule remembers, and what is collected for the next step."""

    params: Tensor
    version: int
    memory: ServerMemory
    concurrency: int = 0
    total: Tensor | None = None
    gathered: int = 0


@dataclass(frozen=True)
class GeneralizedAsyncSGD(Standard):
    """The paper's algorithm: asynchronous SGD with any sampling and with weights that correct for it."""

    server: ServerStep = field(default_factory=ServerStep)
    """How the server steps along a weighted gradient."""
    size: int = 1
    """Number of weighted gradients that the server collects for a step (B)."""
    steps: str = "constant"
    """Step size under staleness: constant or adaptive."""

    name = "generalized-asyncsgd"
    sends = "gradient"
    weighs = True
    uses_prob = True
    needs_sent = False
    corrects = True
    correction = 1.0
    reference = "Leconte et al., AISTATS 2024"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InvalidInput(f"generalized-asyncsgd: size must be at least 1, got {self.size}")
        if self.steps not in STEPS:
            raise InvalidInput(f"generalized-asyncsgd: steps must be one of {', '.join(STEPS)}, got '{self.steps}'")

    @property
    def family(self) -> str:
        """A step for every gradient, or for as many as it collects."""
        return "per-arrival gradient" if self.size == 1 else "buffered"

    @property
    def waits_for(self) -> str:
        """Nobody, or as many gradients as it collects."""
        return "nobody" if self.size == 1 else "a full buffer"

    @property
    def server_memory(self) -> str:
        """The model, and the sum of what is collected."""
        return "1 model" if self.size == 1 else "2 models"

    @property
    def unbiased(self) -> bool:
        """The weights correct for how often clients arrive; adaptive steps make stale gradients count less."""
        return self.steps == "constant"

    def init(self, params: Tensor, setting: Setting) -> State:
        """Start from the first model, with nothing collected."""
        return State(params, 0, ServerMemory(), setting.plan.concurrency)

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Step against the weighted gradient, or against the mean of those collected."""
        factor, tau = arrival.factor, state.version - arrival.sent.version
        if self.steps == "adaptive" and tau > state.concurrency:
            factor *= state.concurrency / tau
        gradient = arrival.update.as_gradient()
        if self.size > 1:
            total = gradient * factor if state.total is None else torch.add(state.total, gradient, alpha=factor)
            if state.gathered + 1 < self.size:
                return state._replace(total=total, gathered=state.gathered + 1), Info()
            gradient, factor = total, 1 / self.size
        step_size = self.server.step_size_at(arrival.step, arrival.time)
        memory, params = self.server.step(state.memory, state.params, gradient, factor, step_size)
        return State(params, state.version + 1, memory, state.concurrency), Info()
