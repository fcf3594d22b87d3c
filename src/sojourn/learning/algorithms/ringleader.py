"""Ringleader ASGD: rounds of two phases over a table of mean gradients, so that every client counts the same.

Phase 1 collects: an arrival of client i adds to its entry, G_i <- G_i + g, b_i <- b_i + 1, and the client continues at
its own model. The phase ends when every client has an entry. Phase 2 makes exactly n updates,

    w <- w - eta sum_i q_i G_i / b_i,

the first for the client that completed the table, then one for each other client on its next arrival, whose gradient
is folded into the table before. A client gets the new model when its update is made, and only then: once a round.
Arrivals of clients that already had theirs go into the next table, which becomes the table at the end of the round.

q_i is the weight in the objective (1/n in the paper). At every update no gradient of the table is staler
than 2n - 2 updates.

Special case: with n = 1 it is SGD.

Decided: the paper sends a model once a round; the authors' code sends the current model at every arrival. The default
is the paper's; `refresh=true` is the code's. A client that continues at its own model is sent nothing, which counts no
bits. A client whose task was lost gets the current model, unless no other client has arrived since its own last
arrival: then it goes on at its own model once more.

Maranjyan, Richtarik, "Ringleader ASGD: the first asynchronous SGD with optimal time complexity under data
heterogeneity", ICLR 2026, arXiv 2509.22860.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from sojourn.fleet import Fleet
from sojourn.learning.algorithms.base import Arrival, Info, Sent, Setting, Standard, everybody
from sojourn.learning.replay.local import Local
from sojourn.learning.replay.server_step import ServerMemory, ServerStep
from sojourn.learning.storable import storable
from sojourn.plan import Plan
from sojourn.scenario import Scenario
from sojourn.types import Floats


@storable("ringleader.entry")
class Entry(NamedTuple):
    """What a client has contributed to a table."""

    mean: Tensor
    """Mean of its gradients."""
    many: int
    """How many they are (b)."""

    def with_one(self, gradient: Tensor) -> "Entry":
        """Return the entry with another gradient."""
        many = self.many + 1
        return Entry(torch.lerp(self.mean, gradient, 1 / many), many)


@storable("ringleader.state")
class State(NamedTuple):
    """The server's model, the tables, their weighted means, who still gets an update, and who continues where."""

    params: Tensor
    version: int
    memory: ServerMemory
    weights: tuple[float, ...]
    table: dict[int, Entry]
    later: dict[int, Entry]
    direction: Tensor | None
    waiting: tuple[int, ...]
    """Clients that still get an update in this round (U); none in phase 1."""
    client: int
    """The client that arrived last."""
    own: Sent | None
    """The model at which it continues; None = it gets the current one."""


@dataclass(frozen=True)
class Ringleader(Standard):
    """Rounds of n updates along the mean of all clients' gradients, collected without anybody waiting."""

    server: ServerStep = field(default_factory=ServerStep)
    """How the server steps along the mean of the table."""
    refresh: bool = False
    """Whether a client gets the current model at every arrival, as in the authors' code; otherwise once a round."""

    name = "ringleader"
    sends = "gradient"
    weighs = True
    family = "table of gradients"
    waits_for = "every client, once a round"
    unbiased = True
    reference = "Maranjyan, Richtarik, ICLR 2026"

    @property
    def client_keeps(self) -> str:
        """Where models are not refreshed the client keeps its own."""
        return "nothing" if self.refresh else "its model, for a round"

    @property
    def server_memory(self) -> str:
        """Two tables, the last entry of the second one missing, model and mean; and the model that a client keeps."""
        return "2n + 1 models" if self.refresh else "2n + 2 models"

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Keep every client at work."""
        return everybody(fleet, plan, local)

    def init(self, params: Tensor, setting: Setting) -> State:
        """Start phase 1 with an empty table."""
        weights: Floats = setting.weights
        return State(params, 0, ServerMemory(), tuple(weights.tolist()), {}, {}, None, (), -1, None)

    def send(self, state: State, client: int) -> Sent:
        """Send the current model; nothing to a client that continues at its own."""
        if client == state.client and state.own is not None:
            return state.own
        return Sent(state.params, state.version)

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Add the gradient to its table; in phase 2 make the client's update, if it has not had one."""
        client, gradient = arrival.client, arrival.update.as_gradient()
        own = None if self.refresh else arrival.sent._replace(bits=0)
        state = state._replace(client=client, own=own)
        if state.waiting and client not in state.waiting:
            return state._replace(later=_with(state.later, client, gradient)), Info()
        table = _with(state.table, client, gradient)
        if len(table) < len(state.weights):
            return state._replace(table=table), Info()
        if not state.waiting:  # the last one of phase 1
            direction = _mean(table, state.weights)
            state = state._replace(waiting=tuple(range(len(state.weights))))
        else:
            assert state.direction is not None
            change = table[client].mean - state.table[client].mean
            direction = torch.add(state.direction, change, alpha=state.weights[client])
        return self._update(state._replace(table=table, direction=direction), arrival), Info()

    def _update(self, state: State, arrival: Arrival) -> State:
        """Step along the mean of the table; the client of the arrival gets the new model."""
        assert state.direction is not None
        step_size = self.server.step_size_at(arrival.step, arrival.time)
        memory, params = self.server.step(state.memory, state.params, state.direction, 1.0, step_size)
        waiting = tuple(one for one in state.waiting if one != arrival.client)
        state = state._replace(params=params, version=state.version + 1, memory=memory, waiting=waiting, own=None)
        return state if waiting else state._replace(table=state.later, later={}, direction=None)


def _with(table: dict[int, Entry], client: int, gradient: Tensor) -> dict[int, Entry]:
    before = table.get(client)
    return {**table, client: Entry(gradient, 1) if before is None else before.with_one(gradient)}


def _mean(table: dict[int, Entry], weights: tuple[float, ...]) -> Tensor:
    total = table[0].mean * weights[0]
    for client in range(1, len(weights)):
        total = torch.add(total, table[client].mean, alpha=weights[client])
    return total
