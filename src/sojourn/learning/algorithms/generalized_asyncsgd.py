"""Generalized AsyncSGD: clients sampled with any probabilities, each gradient weighted so that it stays unbiased.

    w_{k+1} = w_k - eta (q_i / p_i) g_i(w_{I_k})        when client i's gradient comes back at step k

eta server step size, p_i probability with which the task was sent to i, q_i weight of client i in the objective
sum q_i f_i (1/n in the paper), w_{I_k} the model that the task carried. With K > 1 local steps g_i is the
pseudo-gradient (start - end) / local step size.

p_i = q_i: AsyncSGD with random assignment. C = 1: SGD over clients drawn by p.

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

    def init(self, params: Tensor, setting: Setting) -> State:
        """The first model."""
        return State(params, 0, ServerMemory())

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """A step against the weighted gradient."""
        factor = arrival.weight / arrival.prob
        step_size = self.server.step_size_at(arrival.step, arrival.time)
        memory, params = self.server.step(state.memory, state.params, arrival.update.as_gradient(), factor, step_size)
        return State(params, state.version + 1, memory), Info()
