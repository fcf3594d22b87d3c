"""FedAvg: in each round s clients train from the same model; the server waits for all of them and averages.

    w <- w + eta_g sum_{i in S} a_i (w_i - w) / sum_{i in S} a_i

S are the s = C clients of the round, drawn without replacement, and w_i their models after K local steps. a_i is q_i,
the weight in the objective (`weights="objective"`), or 1 (`weights="equal"`). eta_g is the server step size; 1 = plain
average.

Special case: with s = n and K = 1 it is gradient descent with minibatches. A round takes as long as its slowest client,
plus `interaction`. With momentum, Adam or Yogi at the server (`server`) it is FedAvgM, FedAdam or FedYogi.

McMahan, Moore, Ramage, Hampson, Aguera y Arcas, AISTATS 2017, Algorithm 1.
"""

from dataclasses import dataclass, field
from math import isfinite
from typing import NamedTuple

import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.learning.algorithms.base import Arrival, Info, Setting, Standard, not_negative
from sojourn.learning.replay.local import Local
from sojourn.learning.replay.server_step import ServerMemory, ServerStep
from sojourn.learning.storable import storable
from sojourn.plan import Plan
from sojourn.scenario import Dispatcher, Scenario


@storable("fedavg.state")
class State(NamedTuple):
    """The server's model and the sum over the round so far."""

    params: Tensor
    version: int
    total: Tensor | None
    mass: float
    memory: ServerMemory = ServerMemory()


@dataclass(frozen=True)
class FedAvg(Standard):
    """Federated averaging: rounds in which the server waits for all clients and averages their models."""

    server: ServerStep = field(default_factory=ServerStep)
    """How the server steps along the mean update, at `server_step_size`."""
    server_step_size: float = 1.0
    """eta_g."""
    weights: str = "objective"
    """How clients count in the average: `objective` (by their weights in the objective) or `equal`."""
    interaction: float = 0.0
    """Time in seconds that the server takes between two rounds."""

    name = "fedavg"
    sends = "delta"
    weighs = True
    family = "rounds"
    waits_for = "all clients of a round"
    server_memory = "2 models"
    unbiased = True
    reference = "McMahan et al., AISTATS 2017"

    def __post_init__(self) -> None:
        if self.weights not in ("objective", "equal"):
            raise InvalidInput(f"fedavg: weights must be objective or equal, got '{self.weights}'")
        if not (isfinite(self.server_step_size) and self.server_step_size > 0):
            raise InvalidInput(f"fedavg: server_step_size must be positive and finite, got {self.server_step_size}")
        not_negative(self.name, interaction=self.interaction)

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Work in rounds of as many clients as there are tasks in flight."""
        if plan.concurrency > fleet.clients:
            raise InvalidInput(
                f"fedavg needs concurrency <= clients, got {plan.concurrency} > {fleet.clients}; lower the concurrency"
            )
        rounds = Dispatcher("rounds", interaction=self.interaction)
        return plan, Scenario(rounds, local_steps=local.steps, one_draw=local.epochs is not None)

    def init(self, params: Tensor, setting: Setting) -> State:
        """Start from the first model."""
        return State(params, 0, None, 0.0)

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Add the client's model to the round."""
        share = arrival.weight if self.weights == "objective" else 1.0
        delta = arrival.update.as_delta()
        total = delta * share if state.total is None else torch.add(state.total, delta, alpha=share)
        return state._replace(total=total, mass=state.mass + share), Info()

    def tick(self, state: State) -> State:
        """Average the round."""
        if state.total is None:
            return state
        factor = -1.0 / state.mass
        memory, params = self.server.step(state.memory, state.params, state.total, factor, self.server_step_size)
        return State(params, state.version + 1, None, 0.0, memory)
