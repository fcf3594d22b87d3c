"""Malenia SGD: like Rennala, but the step is the mean of the clients' means, so that every client counts alike.

    x_{k+1} = x_k - eta (1/n) sum_i (1/B_i) sum_{j=1..B_i} g_ij(x_k)

B_i is the number of gradients of x_k that client i has sent. The server collects while the harmonic mean of the B_i, n
/ sum_i 1/B_i, is below S/n; it is 0 while a client has sent none, so that a step waits for the slowest client at least.
With `strict` it also collects while the two are equal, as in a restatement of the method: that takes one gradient more
if S is a multiple of n. Without S it is n: the server steps as soon as everybody has sent a gradient, as the method's
public code does.

A gradient of an older model is ignored. `restart` says what happens to the tasks that run when the model changes:
`ignore` or `stop`, as for Rennala. The server keeps a sum per client: n vectors.

Special case: if every B_i is 1 it is minibatch gradient descent over the n clients.

Tyurin, Richtarik, "Optimal time complexities of parallel stochastic optimization methods under a fixed computation
model", NeurIPS 2023, arXiv 2305.12387.
"""

from dataclasses import dataclass, field
from math import isfinite
from typing import NamedTuple

import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.learning.algorithms.base import Arrival, Info, Setting, Standard, queued
from sojourn.learning.replay.local import Local
from sojourn.learning.replay.server_step import ServerMemory, ServerStep
from sojourn.learning.storable import storable
from sojourn.plan import Plan
from sojourn.scenario import Dispatcher, Scenario

RESTARTS = ("ignore", "stop")
ROUNDING = 1e-9  # two numbers that differ by less than this part are equal; the dispatcher `restarting` has the same


@storable("malenia.state")
class State(NamedTuple):
    """The server's model, what its step rule remembers, and by client the sum and number of gradients of this model."""

    params: Tensor
    version: int
    memory: ServerMemory
    clients: int
    sums: dict[int, Tensor]
    counts: dict[int, int]


@dataclass(frozen=True)
class Malenia(Standard):
    """Malenia SGD: a step along the mean of the clients' mean gradients, once these are precise enough."""

    server: ServerStep = field(default_factory=ServerStep)
    """How the server steps along the mean of means."""
    size: float | None = None
    """S: the harmonic mean of the clients' numbers of gradients must reach S/n; None = n, one gradient each."""
    strict: bool = False
    """Whether the harmonic mean must be above S/n rather than reach it."""
    restart: str = "ignore"
    """What happens to running tasks when the model changes: ignore (they are finished in vain) or stop."""

    name = "malenia"
    sends = "gradient"
    needs_sent = False
    family = "batch at one model"
    waits_for = "every client, often enough"
    unbiased = True
    reference = "Tyurin, Richtarik, NeurIPS 2023"

    def __post_init__(self) -> None:
        if self.size is not None and not (isfinite(self.size) and self.size > 0):
            raise InvalidInput(f"malenia: size must be positive and finite, got {self.size}")
        if self.restart not in RESTARTS:
            raise InvalidInput(f"malenia: restart must be ignore or stop, got '{self.restart}'")

    @property
    def server_memory(self) -> str:
        """The model, and a sum per client; with S = n the last client's gradient ends the batch."""
        return "n models" if self.size is None and not self.strict else "n + 1 models"

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Keep every client at work; with `stop`, cancel all tasks whenever the model changes."""
        everyone = Plan.uniform(fleet, fleet.clients, plan.step_size)
        if self.restart == "ignore":
            return everyone, queued("pure", local)
        stops = Dispatcher.named("restarting", harmonic=self._size(fleet.clients), strict=self.strict)
        return everyone, Scenario(stops, local_steps=local.steps, one_draw=local.epochs is not None)

    def _size(self, clients: int) -> float:
        return float(clients if self.size is None else self.size)

    def init(self, params: Tensor, setting: Setting) -> State:
        """Start from the first model, with nothing gathered."""
        return State(params, 0, ServerMemory(), setting.clients, {}, {})

    def enough(self, counts: dict[int, int], clients: int) -> bool:
        """Whether the harmonic mean of the clients' numbers of gradients has reached S/n."""
        if len(counts) < clients:
            return False
        inverse = 0.0
        for client in range(clients):
            inverse += 1.0 / counts[client]
        least = self._size(clients) * inverse
        return clients * clients > least * (1 + ROUNDING) or (
            not self.strict and clients * clients >= least * (1 - ROUNDING)
        )

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Gather a gradient of the present model and step when there are enough; ignore a gradient of an older one."""
        if arrival.sent.version != state.version:
            return state, Info(used=False)
        client, gradient = arrival.client, arrival.update.as_gradient()
        sums, counts = dict(state.sums), dict(state.counts)
        sums[client] = sums[client] + gradient if client in sums else gradient
        counts[client] = counts.get(client, 0) + 1
        if not self.enough(counts, state.clients):
            return state._replace(sums=sums, counts=counts), Info()
        total = torch.zeros_like(state.params)
        for one in sorted(sums):
            total = torch.add(total, sums[one], alpha=1 / counts[one])
        step_size = self.server.step_size_at(arrival.step, arrival.time)
        memory, params = self.server.step(state.memory, state.params, total, 1 / state.clients, step_size)
        return State(params, state.version + 1, memory, state.clients, {}, {}), Info()
