"""ACE: every client is engaged in every step, through its latest gradient; ACED leaves out entries that are too old.

    U_i <- g_i(w_{I_k}),   w <- w - eta sum_{j in A} q_j U_j / sum_{j in A} q_j

U_j is the latest gradient of client j, q_j its weight in the objective (1/n in the paper). ACE takes all clients:
A = {1, ..., n}. ACED (`most`) takes those whose gradient belongs to a model that is at most `most` changes old
(tau_algo in the paper), so that a client that has left does not count for ever. The server waits for a gradient of
every client at the first model, then steps at each arrival.

Special cases: without `most`, or while no entry is older, it is IA2SGD; with n = 1 it is SGD.

Decided: the paper takes the first gradients synchronously; here clients that are back early begin anew with the first
model, and the later gradient replaces the earlier one (counted as unused), so that nobody waits. An arrival that is
itself too old is kept and not used; if no entry is young enough the model stays. The paper's quantised cache is left
out: entries have the precision of the model.

Chang, Yao, Krishnamurthy, Shelton, Chakraborty, Swami, Oymak, Roy-Chowdhury, "Mitigating participation imbalance bias
in asynchronous federated learning", NeurIPS 2025, arXiv 2511.19066.
"""

from dataclasses import dataclass, field
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
from sojourn.types import Floats


@storable("ace.entry")
class Entry(NamedTuple):
    """The latest gradient of a client."""

    gradient: Tensor
    version: int
    """Version of the model at which it was taken."""


@storable("ace.state")
class State(NamedTuple):
    """The server's model, the table of entries, and their weighted sum (ACE only)."""

    params: Tensor
    version: int
    memory: ServerMemory
    weights: tuple[float, ...]
    table: dict[int, Entry]
    total: Tensor | None


@dataclass(frozen=True)
class Ace(Standard):
    """All-client engagement: each step takes the latest gradients of all clients, or of those that are not too old."""

    server: ServerStep = field(default_factory=ServerStep)
    """How the server steps along the mean of the entries."""
    most: float | None = None
    """ACED: age in changes of the model above which an entry does not count; None = all count (ACE)."""

    name = "ace"
    sends = "gradient"
    weighs = True
    needs_sent = False
    family = "table of gradients"
    waits_for = "every client once"
    reference = "Chang et al., NeurIPS 2025"

    def __post_init__(self) -> None:
        if self.most is not None and not self.most >= 0:
            raise InvalidInput(f"ace: most must not be negative, got {self.most}")

    @property
    def server_memory(self) -> str:
        """The table and the model; ACE also keeps the sum, so that a step costs one vector operation."""
        return "n + 2 models" if self.most is None else "n + 1 models"

    @property
    def unbiased(self) -> bool:
        """ACED leaves out slow clients."""
        return self.most is None

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Keep every client at work."""
        return everybody(fleet, plan, local)

    def init(self, params: Tensor, setting: Setting) -> State:
        """Start with an empty table."""
        weights: Floats = setting.weights
        return State(params, 0, ServerMemory(), tuple(weights.tolist()), {}, None)

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Replace the client's entry, and step by the mean of those that count."""
        client, gradient = arrival.client, arrival.update.as_gradient()
        before = state.table.get(client)
        table = {**state.table, client: Entry(gradient, arrival.sent.version)}
        after = state._replace(table=table, total=self._total(state, before, gradient, arrival.weight))
        if len(table) < len(state.weights):
            return after, Info(used=before is None)  # otherwise one gradient is replaced that no step has used
        young = self.most is None or state.version - arrival.sent.version <= self.most
        direction, factor = self._mean(after)
        if direction is None:
            return after, Info(used=False)
        step_size = self.server.step_size_at(arrival.step, arrival.time)
        memory, params = self.server.step(state.memory, state.params, direction, factor, step_size)
        return after._replace(params=params, version=state.version + 1, memory=memory), Info(used=young)

    def _total(self, state: State, before: Entry | None, gradient: Tensor, weight: float) -> Tensor | None:
        if self.most is not None:
            return None
        change = gradient if before is None else gradient - before.gradient
        return change * weight if state.total is None else torch.add(state.total, change, alpha=weight)

    def _mean(self, state: State) -> tuple[Tensor | None, float]:
        """Return the weighted sum of the entries that count, and the factor that makes it a mean."""
        if self.most is None:
            return state.total, 1.0
        total, mass = None, 0.0
        for client, entry in sorted(state.table.items()):
            if state.version - entry.version > self.most:
                continue
            scaled = entry.gradient * state.weights[client]
            total, mass = scaled if total is None else total + scaled, mass + state.weights[client]
        return total, 1.0 / mass if mass else 0.0
