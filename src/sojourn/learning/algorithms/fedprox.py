"""FedProx: FedAvg whose clients stay near the model that they received, and whose rounds take partial work.

    client:   minimises f_i(u) + (mu/2) |u - w|^2 by its local steps:  u <- u - eta (g_i(u) + mu (u - w))
    server:   w <- w + eta_g sum_{i in S} a_i (w_i - w) / sum_{i in S} a_i

a_i is q_i, the weight in the objective (`weights=objective`), or 1 (`equal`). Without a `deadline` S are the C clients
of a round, and the round takes as long as its slowest client. With a deadline every client takes part in every round;
when it is over, each returns the steps that it has done, up to K, and those that have done none are left out.

Special cases: with mu = 0 and no deadline it is FedAvg. mu does not change the first local step.

Decided: the paper lets stragglers do some random part of their epochs; here the clock decides how many steps fit into
the deadline, and a step that is not finished is lost. With a deadline all clients take part, because a client that is
not drawn would otherwise work on across rounds, and the next round begins at once: they would work on during a time of
interaction too. Clients that have done nothing are left out, because the paper's
stragglers do at least some work.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, "Federated optimization in heterogeneous networks", MLSys 2020.
"""

from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.learning.algorithms.base import Arrival, Info, Sent, Setting, Standard, interrupted, not_negative
from sojourn.learning.replay.local import Local, Update
from sojourn.learning.replay.server_step import ServerMemory, ServerStep
from sojourn.learning.storable import storable
from sojourn.plan import Plan
from sojourn.scenario import Dispatcher, Scenario


@storable("fedprox.state")
class State(NamedTuple):
    """The server's model and the sum over the round so far."""

    params: Tensor
    version: int
    memory: ServerMemory
    total: Tensor | None
    mass: float


@dataclass(frozen=True)
class FedProx(Standard):
    """Federated averaging with a proximal term, and with a deadline where asked."""

    server: ServerStep = field(default_factory=ServerStep)
    """How the server steps along the mean update, at `server_step_size`."""
    mu: float = 0.1
    """Proximal term of the local work."""
    deadline: float | None = None
    """Time in seconds after which a round takes what clients have done; None = it waits for the slowest."""
    server_step_size: float = 1.0
    """eta_g."""
    weights: str = "objective"
    """How clients count in the average: `objective` (by their weights in the objective) or `equal`."""
    interaction: float = 0.0
    """Time in seconds that the server takes between two rounds; only without a deadline."""

    name = "fedprox"
    sends = "delta"
    weighs = True
    family = "rounds"
    server_memory = "2 models"
    reference = "Li et al., MLSys 2020"

    def __post_init__(self) -> None:
        if not (isfinite(self.mu) and self.mu >= 0):
            raise InvalidInput(f"fedprox: mu must be non-negative and finite, got {self.mu}")
        if self.deadline is not None and not (isfinite(self.deadline) and self.deadline > 0):
            raise InvalidInput(f"fedprox: deadline must be positive and finite, got {self.deadline}")
        if not (isfinite(self.server_step_size) and self.server_step_size > 0):
            raise InvalidInput(f"fedprox: server_step_size must be positive and finite, got {self.server_step_size}")
        if self.weights not in ("objective", "equal"):
            raise InvalidInput(f"fedprox: weights must be objective or equal, got '{self.weights}'")
        not_negative(self.name, interaction=self.interaction)
        if self.deadline is not None and self.interaction > 0:
            raise InvalidInput(
                f"fedprox: interaction must be 0 with a deadline, since clients would work on during it, got "
                f"{self.interaction}; leave it out"
            )

    @property
    def waits_for(self) -> str:
        """The slowest, or the deadline."""
        return "all clients of a round" if self.deadline is None else "the deadline"

    @property
    def unbiased(self) -> bool:
        """A deadline leaves out more of the slow clients' work."""
        return self.deadline is None

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Work in rounds of as many clients as there are tasks in flight, or of all until the deadline."""
        if self.deadline is not None:
            calls = Dispatcher("periodic", contacts=fleet.clients, waiting=self.deadline, interaction=self.interaction)
            return Plan.uniform(fleet, fleet.clients, plan.step_size), interrupted(self.name, calls, local)
        if plan.concurrency > fleet.clients:
            raise InvalidInput(
                f"fedprox needs concurrency <= clients, got {plan.concurrency} > {fleet.clients}; lower the concurrency"
            )
        rounds = Dispatcher("rounds", interaction=self.interaction)
        return plan, Scenario(rounds, local_steps=local.steps, one_draw=local.epochs is not None)

    def local_work(self, local: Local) -> Local:
        """Take the method's own proximal term."""
        return replace(local, proximal=self.mu)

    def init(self, params: Tensor, setting: Setting) -> State:
        """Start from the first model."""
        return State(params, 0, ServerMemory(), None, 0.0)

    def finish(self, kept: Any, sent: Sent, start: Tensor, update: Update) -> tuple[None, Update]:
        """Send the work; a client that has done none says only that."""
        return None, update.emptied() if update.steps == 0 else update

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Add the client's work to the round, if there is some."""
        if arrival.update.empty:
            return state, Info(used=False)
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
        return State(params, state.version + 1, memory, None, 0.0)
