"""FADAS: FedBuff with an adaptive server (AMSGrad), whose step size may shrink with the staleness of a buffer.

    m <- beta1 m + (1 - beta1) Delta,   v <- beta2 v + (1 - beta2) Delta^2,   v_max <- max(v_max, v)
    w <- w + eta_t m / (sqrt(v_max) + epsilon)

Delta is the mean of the Z updates of a full buffer. With `adaptive`, eta_t = eta if no update of the buffer is staler
than `threshold`, and eta / tau_max otherwise, tau_max being the largest staleness in the buffer, in changes of the
server's model. Otherwise eta_t = eta. `combine` puts another combination in the place of the mean, against clients
that lie: see `sojourn.learning.combine`. It takes Z models of memory in the place of one.

Special cases: the first step moves every coordinate by eta, in the direction of its update, if beta1 = 0.9,
beta2 = 0.99 (then 1 - beta1 is the root of 1 - beta2). With beta1 = 0 and eta = epsilon both very large it is FedBuff.

Decided: the moments are not corrected for their start at zero, as in the paper; `bias_correction=true` divides them by
1 - beta^t, as the authors' code does. Where an update is stale the authors' code divides eta by tau_max, which is done
here; the paper writes min(eta, 1/tau_max), which has no effect at its step sizes. Clients train from the model that
they are sent; in the authors' code some train from the one before.

Wang, Wang, Lu, Chen, "FADAS: towards federated adaptive asynchronous optimization", ICML 2024.
"""

from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.learning.algorithms.base import Arrival, Info, Setting, Standard, queued
from sojourn.learning.combine.facts import memory
from sojourn.learning.combine.table import combination
from sojourn.learning.replay.local import Local
from sojourn.learning.storable import storable
from sojourn.plan import Plan
from sojourn.scenario import Scenario


@storable("fadas.state")
class State(NamedTuple):
    """The server's model, its moments, the buffer, and what the last one gave, if that is needed."""

    params: Tensor
    version: int
    mean: Tensor
    square: Tensor
    largest: Tensor
    held: Any
    gathered: int
    stalest: int
    last: Tensor | None = None


@dataclass(frozen=True)
class Fadas(Standard):
    """Buffered aggregation with AMSGrad at the server."""

    server_step_size: float = 1e-3
    """Step size of the server (eta); 0 = that of the local steps, with its schedule."""
    beta1: float = 0.9
    """Share of the mean update that is kept."""
    beta2: float = 0.99
    """Share of the mean squared update that is kept."""
    epsilon: float = 1e-8
    """Small number that is added to the root of the largest mean square."""
    size: int = 5
    """Number of updates in a full buffer (Z)."""
    adaptive: bool = True
    """Whether the step shrinks if a buffer holds stale updates."""
    threshold: float = 1.0
    """Staleness up to which the step does not shrink (tau_c)."""
    bias_correction: bool = False
    """Whether the moments are corrected for their start at zero."""
    dispatch: str = "idle"
    """Who gets the next task: idle or routed."""
    combine: str = "mean"
    """How the updates of a buffer become one: mean, median, trimmed(share=0.1), clipping(radius=1)."""

    name = "fadas"
    sends = "delta"
    needs_sent = False
    family = "buffered"
    waits_for = "a full buffer"
    unbiased = False
    reference = "Wang et al., ICML 2024"

    def __post_init__(self) -> None:
        if not (isfinite(self.epsilon) and self.epsilon > 0):
            raise InvalidInput(f"fadas: epsilon must be positive and finite, got {self.epsilon}")
        if not (isfinite(self.server_step_size) and self.server_step_size >= 0):
            raise InvalidInput(f"fadas: server_step_size must be non-negative and finite, got {self.server_step_size}")
        for key in ("beta1", "beta2"):
            if not 0 <= getattr(self, key) < 1:
                raise InvalidInput(f"fadas: {key} must lie in [0, 1), got {getattr(self, key)}")
        if self.size < 1:
            raise InvalidInput(f"fadas: size must be at least 1, got {self.size}")
        if not self.threshold >= 0:
            raise InvalidInput(f"fadas: threshold must not be negative, got {self.threshold}")
        if self.dispatch not in ("idle", "routed"):
            raise InvalidInput(f"fadas: dispatch must be idle or routed, got '{self.dispatch}'")
        combination(self.combine)

    @property
    def server_memory(self) -> str:
        """Model, three moments, and the buffer."""
        return memory(self.combine, self.size, word="size", models=4)

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Keep the plan's number of tasks in flight."""
        return plan, queued(self.dispatch, local)

    def init(self, params: Tensor, setting: Setting) -> State:
        """Start with an empty buffer and moments of zero."""
        mean, square, largest = (torch.zeros_like(params) for _ in range(3))
        return State(params, 0, mean, square, largest, None, 0, 0)

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Put the update into the buffer; when the buffer is full, step."""
        rule = combination(self.combine)
        held = rule.add(state.held, arrival.update.as_delta(), 1.0)
        stalest = max(state.stalest, state.version - arrival.sent.version)
        if state.gathered + 1 < self.size:
            return state._replace(held=held, gathered=state.gathered + 1, stalest=stalest), Info()
        eta = self.step_size(stalest, arrival.update.step_size)
        vector, share = rule.combined(held, self.size, state.last)
        return self._step(state, vector * share, eta)._replace(last=vector if rule.follows else None), Info()

    def _step(self, state: State, update: Tensor, eta: float) -> State:
        mean = torch.lerp(update, state.mean, self.beta1)
        square = torch.lerp(update.square(), state.square, self.beta2)
        largest = torch.maximum(state.largest, square)
        scale = largest
        if self.bias_correction:
            count = state.version + 1
            eta, scale = eta / (1 - self.beta1**count), largest / (1 - self.beta2**count)
        params = torch.addcdiv(state.params, mean, scale.sqrt().add_(self.epsilon), value=eta)
        return State(params, state.version + 1, mean, square, largest, None, 0, 0)

    def step_size(self, stalest: int, local: float) -> float:
        """Return the step size for a buffer with this largest staleness, given that of the local steps."""
        eta = self.server_step_size or local
        return eta / stalest if self.adaptive and stalest > self.threshold else eta
