"""Generalized AsyncSGD: clients sampled with any probabilities, each gradient weighted so that it stays unbiased.

    w_{k+1} = w_k - eta (q_i / s_i)^c / (sum_j s_j (q_j / s_j)^c) g_i(w_{I_k})    when client i's gradient comes back

eta server step size, s_i client i's share of all updates, q_i its weight in the objective sum q_i f_i (1/n in the
paper), c the correction, w_{I_k} the model that the task carried. With K > 1 local steps g_i is the pseudo-gradient
(start - end) / local step size.

c = 1, its own: the paper's q_i / p_i, where clients are drawn with p_i = s_i and queue. Under a cap on what a client
may hold the shares are others than the weights, and c = 1 is unbiased with them. c = 0: AsyncSGD as updates come.
s_i = q_i: AsyncSGD with random assignment, whatever c. C = 1: SGD over clients drawn by s.

Leconte, Jonckheere, Samsonov, Moulines, "Queuing dynamics of asynchronous Federated Learning", AISTATS 2024,
Algorithm 1.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from sojourn.learning.algorithms.base import Arrival, Info, Setting, Standard
from sojourn.learning.replay.server_step import ServerMemory, ServerStep
from sojourn.learning.storable import storable


@storable("generalized-asyncsgd.state")
class State(NamedTuple):
    """The server's model and what its step rule remembers."""

    params: Tensor
    version: int
    memory: ServerMemory


@dataclass(frozen=True)
class GeneralizedAsyncSGD(Standard):
    """The paper's algorithm."""

    server: ServerStep = field(default_factory=ServerStep)
    """How the server moves along a weighted gradient."""

    name = "generalized-asyncsgd"
    sends = "gradient"
    weighs = True
    uses_prob = True
    corrects = True
    correction = 1.0

    def init(self, params: Tensor, setting: Setting) -> State:
        """The first model."""
        return State(params, 0, ServerMemory())

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """A step against the weighted gradient."""
        step_size = self.server.step_size_at(arrival.step, arrival.time)
        gradient = arrival.update.as_gradient()
        memory, params = self.server.step(state.memory, state.params, gradient, arrival.factor, step_size)
        return State(params, state.version + 1, memory), Info()
