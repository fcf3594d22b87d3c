"""CA2FL: a buffer of updates, calibrated by the last update of every client.

    v = sum over the buffer of (g_i - h_i),  then h_i <- g_i;   at the M-th: w <- w - eta (mean_j h_j + v / M)

h_j is the last gradient of client j (0 before the first); its mean is taken when the buffer was last emptied. In the
long run every client counts the same, however often it sends; M = 1 is a table of latest gradients with a fresh
difference.

Wang, Cao, Wu, Chen, Chen, "Tackling the data heterogeneity in asynchronous federated learning with cached update
calibration", ICLR 2024, Algorithm 2.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from sojourn.algorithms import Arrival, Info, ServerStep, Setting, Standard, storable
from sojourn.learning.replay.server_step import ServerMemory


@storable("does_it_pay.ca2fl")
class State(NamedTuple):
    """The server's model, the last gradient of each client, their sum over n, and the buffer."""

    params: torch.Tensor
    version: int
    memory: ServerMemory
    last: dict[int, torch.Tensor]
    mean: torch.Tensor
    total: torch.Tensor
    many: int
    clients: int


@dataclass(frozen=True)
class CA2FL(Standard):
    """Cached update calibration: a buffer of updates, corrected by each client's last update."""

    server: ServerStep = field(default_factory=ServerStep)
    """How the server steps along a gradient."""
    size: int = 10
    """Number of updates in a full buffer (M)."""

    name = "ca2fl"
    sends = "gradient"

    def init(self, params: torch.Tensor, setting: Setting) -> State:
        """Start with an empty buffer and no gradients."""
        nothing = torch.zeros_like(params)
        return State(params, 0, ServerMemory(), {}, nothing, nothing, 0, setting.clients)

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Put the update into the buffer; when it is full, take a step."""
        gradient = arrival.update.as_gradient()
        before = state.last.get(arrival.client)
        fresh = gradient if before is None else gradient - before
        state.last[arrival.client] = gradient  # changed in place, since only the server holds the table
        total = state.total + fresh
        many = state.many + 1
        if many < self.size:
            return state._replace(total=total, many=many), Info()
        step_size = self.server.step_size_at(arrival.step, arrival.time)
        along = torch.add(state.mean, total, alpha=1 / self.size)
        memory, params = self.server.step(state.memory, state.params, along, 1.0, step_size)
        mean = torch.add(state.mean, total, alpha=1 / state.clients)
        nothing = torch.zeros_like(total)
        return State(params, state.version + 1, memory, state.last, mean, nothing, 0, state.clients), Info()
