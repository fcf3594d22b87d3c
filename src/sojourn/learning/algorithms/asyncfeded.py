"""AsyncFedED: the server's step and a client's local steps follow from how far the model moved meanwhile.

    gamma = ||w - w_sent|| / ||Delta_i||,     w <- w + lambda / (gamma + epsilon) Delta_i
    K_i <- K_i + floor((gamma* - gamma) kappa),  between 1 and the most

Delta_i is the change of client i's model in K_i local steps from w_sent. gamma measures staleness by distance: 0 if the
server's model is as it was, 1 if it moved as far as the client did. A client that is too stale for `target` gets fewer
local steps next time, one that is fresh gets more. So durations depend on the model, and timing is computed as training
goes on.

Decided here: the run's number of local steps is the most that a task has; without it K_i could grow for ever. Norms are
over trained parameters, not over statistics of norm layers or counters, which distort gamma. An update that is zero
changes neither the model nor K_i. floor rounds down, also below zero. epsilon is the gain at staleness zero, lambda /
epsilon, not only a guard. Every client always works; the next task goes to the client that has finished.

Special cases: with kappa = 0 the local steps are fixed. With one client gamma is always 0, and it is local SGD with the
server step size lambda / epsilon.

Wang, Yang et al., "AsyncFedED: asynchronous federated learning with Euclidean distance based adaptive weight
aggregation", arXiv 2205.13797.
"""

from dataclasses import dataclass, field
from math import floor, isfinite
from typing import NamedTuple

import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.learning.algorithms.base import Arrival, Info, Setting, Standard, everybody
from sojourn.learning.replay.local import Local
from sojourn.learning.replay.server_step import ServerMemory, ServerStep
from sojourn.learning.storable import storable
from sojourn.plan import Plan
from sojourn.scenario import Scenario


@storable("asyncfeded.state")
class State(NamedTuple):
    """The server's model, and by client the local steps of its next task if these are not the first."""

    params: Tensor
    version: int
    memory: ServerMemory
    steps: dict[int, int]
    first: int
    most: int


@dataclass(frozen=True)
class AsyncFedED(Standard):
    """AsyncFedED: steps of the server and of clients by the distance that the model moved."""

    server: ServerStep = field(default_factory=ServerStep)
    """How the server steps along the change of a client's model, at the step size that follows from gamma."""
    gain: float = 1.0
    """lambda: the server's step is lambda / (gamma + epsilon)."""
    epsilon: float = 1.0
    """epsilon."""
    target: float = 3.0
    """gamma*: the staleness at which a client's local steps stay as they are."""
    kappa: float = 1.0
    """How much a client's local steps change."""
    first: int = 10
    """Local steps of a client's first task; at most the run's."""

    name = "asyncfeded"
    sends = "delta"
    sets_steps = True
    waves = False
    family = "per-arrival change of model"
    waits_for = "nobody"
    server_memory = "1 model"
    unbiased = False
    reference = "Wang et al., arXiv 2205.13797"

    def __post_init__(self) -> None:
        for key in ("gain", "epsilon"):
            if not (isfinite(getattr(self, key)) and getattr(self, key) > 0):
                raise InvalidInput(f"asyncfeded: {key} must be positive and finite, got {getattr(self, key)}")
        for key in ("target", "kappa"):
            if not (isfinite(getattr(self, key)) and getattr(self, key) >= 0):
                raise InvalidInput(f"asyncfeded: {key} must be non-negative and finite, got {getattr(self, key)}")
        if self.first < 1:
            raise InvalidInput(f"asyncfeded: first must be at least 1, got {self.first}")

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Keep every client at work."""
        if local.epochs is not None:
            raise InvalidInput(
                f"asyncfeded sets the number of local steps: epochs must not be given, got {local.epochs}; give steps"
            )
        return everybody(fleet, plan, local)

    def init(self, params: Tensor, setting: Setting) -> State:
        """Start from the first model."""
        most = setting.local.steps
        return State(params, 0, ServerMemory(), {}, min(self.first, most), most)

    def local_steps(self, state: State, client: int) -> int:
        """Return the client's K_i."""
        return state.steps.get(client, state.first)

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Step by the distance that the model moved, and set the client's next local steps."""
        delta = arrival.update.as_delta()
        moved, size = (float(torch.linalg.vector_norm(one)) for one in (state.params - arrival.sent.params, delta))
        if size == 0:
            return state, Info(used=False)
        gamma = moved / size
        step_size = self.gain / (gamma + self.epsilon)
        memory, params = self.server.step(state.memory, state.params, delta, -1.0, step_size)
        wanted = self.local_steps(state, arrival.client) + floor((self.target - gamma) * self.kappa)
        steps = {**state.steps, arrival.client: min(max(wanted, 1), state.most)}
        return state._replace(params=params, version=state.version + 1, memory=memory, steps=steps), Info()
