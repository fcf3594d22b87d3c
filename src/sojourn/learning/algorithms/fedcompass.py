"""FedCompass: clients get as many local steps as let several come back together; the server mixes a group at a time.

    w <- (1 - sum_{i in A} a_i) w + sum_{i in A} a_i w_i,     a_i = alpha q_i s(tau_i)

A are the clients of a group of arrival, together with those that came too late for theirs since the last time. w_i are
their models, q_i their weights in the objective (1/n, or the share of the examples), tau_i the number of changes of the
server's model since it was sent. s is 1 (`constant`) or (1 + tau)^(-a) (`polynomial`).

The server estimates every client's time per step, and sets the local steps Q of each task so that the client returns
with an open group, or opens one: the dispatcher `groups` has the rules. The run's number of local steps is the most, Q
max; the least is `least` times that. A client that has returned waits for its group, until its latest time.

Decided here, as in the method's public code: a first task has Q max steps, and the first update of a client is applied
by itself. A client counts once in an aggregation, with its newest update. The public code weighs a_i by 1/n; here by
q_i, which is 1/n unless the run says otherwise.

The server holds updates until they are applied, up to 2n of them: of each client one that waits for its group and one
that came late. How much one counts is known only then, because the model may change meanwhile.

Special cases: with Q fixed at one step and one client it is FedAsync. If all clients are equally fast they return
together, and with alpha = 1 and no staleness it is FedAvg over all.

Li, Chaturvedi, He et al., "FedCompass: efficient cross-silo federated learning on heterogeneous client devices using a
computing power aware scheduler", ICLR 2024, arXiv 2309.14675.
"""

from dataclasses import dataclass
from math import ceil, isfinite
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

STALENESS = ("constant", "polynomial")


@storable("fedcompass.state")
class State(NamedTuple):
    """The server's model, and the sum over the aggregation so far: of models and of shares."""

    params: Tensor
    version: int
    total: Tensor | None
    mass: float


@dataclass(frozen=True)
class FedCompass(Standard):
    """FedCompass: groups of arrival by local steps, mixed into the server's model together."""

    alpha: float = 0.9
    """Share of all clients' models that are not stale."""
    staleness: str = "polynomial"
    """How the share falls with staleness: constant or polynomial."""
    a: float = 0.5
    """polynomial: the power."""
    least: float = 0.2
    """Fewest local steps of a task (Q min), as a part of the run's local steps (Q max)."""
    slack: float = 1.5
    """The latest time of a group as a multiple of its expected time (lambda)."""
    momentum: float = 0.9
    """Weight of the newest observation in the estimate of a client's time per step."""

    name = "fedcompass"
    sends = "delta"
    weighs = True
    family = "buffered"
    waits_for = "a group of arrival"
    server_memory = "2n + 2 models"
    unbiased = False
    reference = "Li et al., ICLR 2024"

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= 1:
            raise InvalidInput(f"fedcompass: alpha must lie in (0, 1], got {self.alpha}")
        if self.staleness not in STALENESS:
            raise InvalidInput(f"fedcompass: staleness must be constant or polynomial, got '{self.staleness}'")
        if not (isfinite(self.a) and self.a >= 0):
            raise InvalidInput(f"fedcompass: a must be non-negative and finite, got {self.a}")
        if not 0 < self.least <= 1:
            raise InvalidInput(f"fedcompass: least must lie in (0, 1], got {self.least}")
        if not (isfinite(self.slack) and self.slack >= 1):
            raise InvalidInput(f"fedcompass: slack must be finite and at least 1, got {self.slack}")
        if not 0 < self.momentum <= 1:
            raise InvalidInput(f"fedcompass: momentum must lie in (0, 1], got {self.momentum}")

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Keep every client at work, in groups of arrival."""
        if local.epochs is not None:
            raise InvalidInput(
                f"fedcompass sets the number of local steps: epochs must not be given, got {local.epochs}; give steps"
            )
        least = max(1, ceil(self.least * local.steps - 1e-9))
        groups = Dispatcher.named("groups", least=least, slack=self.slack, momentum=self.momentum)
        return Plan.uniform(fleet, fleet.clients, plan.step_size), Scenario(groups, local_steps=local.steps)

    def init(self, params: Tensor, setting: Setting) -> State:
        """Start from the first model."""
        return State(params, 0, None, 0.0)

    def share(self, tau: int) -> float:
        """Return the share of all clients' models at this staleness."""
        return self.alpha * (float((1.0 + tau) ** -self.a) if self.staleness == "polynomial" else 1.0)

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Add the client's model to the aggregation."""
        share = arrival.weight * self.share(state.version - arrival.sent.version)
        model = arrival.sent.params + arrival.update.as_delta()
        total = model * share if state.total is None else torch.add(state.total, model, alpha=share)
        return state._replace(total=total, mass=state.mass + share), Info()

    def tick(self, state: State) -> State:
        """Mix what was added into the server's model."""
        if state.total is None:
            return state
        params = torch.add(state.total, state.params, alpha=1 - state.mass)
        return State(params, state.version + 1, None, 0.0)
