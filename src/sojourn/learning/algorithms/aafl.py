"""AAFL: an epoch ends with the first ceil(alpha n) arrivals; their models enter the server's, the rest train on.

    keep:  w <- (1 - sum_{i in A} q_i) w + sum_{i in A} q_i w_i
    mean:  w <- sum_{i in A} q_i w_i / sum_{i in A} q_i

A are the clients that have returned, w_i their models after the local steps, q_i their weights in the objective (the
share of the examples, or 1/n). They wait for the end of the epoch and then all get the new model. The others keep
training from the model that they have.

Decided here, because the rule of aggregation is not public in detail: `keep` (default) leaves the absent clients'
weight on the server's old model, `mean` gives all weight to those present. alpha is fixed. In the paper an agent that
learns by reinforcement chooses it for every epoch, from losses and remaining resources.

Special cases: with alpha = 1 both forms are FedAvg over all clients. With `keep`, equal weights and one arrival per
epoch it is FedAsync with the constant share 1/n.

Liu, Xu, Wang, Xu, Qian, Huang, Huang, "Adaptive asynchronous federated learning in resource-constrained edge
computing", IEEE Transactions on Mobile Computing 2023, doi 10.1109/TMC.2021.3096846.
"""

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.learning.algorithms.base import Arrival, Info, Setting, Standard
from sojourn.learning.replay.local import Local
from sojourn.learning.storable import storable
from sojourn.plan import Plan
from sojourn.scenario import Dispatcher, Scenario

FORMS = ("keep", "mean")


@storable("aafl.state")
class State(NamedTuple):
    """The server's model, and the sum over the epoch so far: of models, of weights, of arrivals."""

    params: Tensor
    version: int
    wait: int
    total: Tensor | None
    mass: float
    arrived: int


@dataclass(frozen=True)
class Aafl(Standard):
    """AAFL: epochs that end with a fraction of the clients, whose models enter the server's."""

    alpha: float = 0.5
    """Fraction of the clients that the server waits for."""
    form: str = "keep"
    """How models are aggregated: keep (the absent count as the server's model) or mean."""

    name = "aafl"
    sends = "delta"
    weighs = True
    family = "buffered"
    waits_for = "a fraction of the clients"
    server_memory = "2 models"
    reference = "Liu et al., IEEE TMC 2023"

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= 1:
            raise InvalidInput(f"aafl: alpha must lie in (0, 1], got {self.alpha}")
        if self.form not in FORMS:
            raise InvalidInput(f"aafl: form must be keep or mean, got '{self.form}'")

    @property
    def unbiased(self) -> bool:
        """Fast clients are there more often, unless the server waits for all."""
        return self.alpha == 1

    def wait(self, clients: int) -> int:
        """Return the number of arrivals that end an epoch."""
        return max(1, ceil(self.alpha * clients - 1e-9))

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Keep every client at work; hold arrivals until the epoch ends."""
        held = Dispatcher.named("held", wait=self.wait(fleet.clients))
        everyone = Plan.uniform(fleet, fleet.clients, plan.step_size)
        return everyone, Scenario(held, local_steps=local.steps, one_draw=local.epochs is not None)

    def init(self, params: Tensor, setting: Setting) -> State:
        """Start from the first model."""
        return State(params, 0, self.wait(setting.clients), None, 0.0, 0)

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Add the client's model to the epoch; the last arrival ends it."""
        model = (arrival.sent.params + arrival.update.as_delta()) * arrival.weight
        total = model if state.total is None else state.total + model
        mass, arrived = state.mass + arrival.weight, state.arrived + 1
        if arrived < state.wait:
            return state._replace(total=total, mass=mass, arrived=arrived), Info()
        kept = torch.add(total, state.params, alpha=1 - mass)
        params = kept if self.form == "keep" else total / mass
        return State(params, state.version + 1, state.wait, None, 0.0, 0), Info()
