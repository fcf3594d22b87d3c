"""ASO-Fed: clients correct their gradient by the last one and by a decaying memory; each update is added as it arrives.

    client:   Z = G - v + h,   Delta = -r eta Z,   then h <- beta h + (1 - beta) v,   v <- G
    server:   w <- w + q_i Delta

G is the gradient of the task with a proximal term lambda, v the client's last one, h its memory (both 0 at first), eta
the local step size, r = max(1, log d) with d the client's mean delay: the number of changes of the server's model from
one contact to the next. q_i is the client's weight in the objective (its share of the examples in the paper).

Special cases: a client's first update is a plain one, times q_i. If G is constant, Z = h from the second task on.

Decided: with several local steps there is one correction per task, with G = (model sent - model after the steps) / eta;
the logarithm is natural, the norm of the proximal term squared, h is renewed before v. The step of the paper that
reweights the first layer by a softmax depends on the model's architecture and is left out, as in both public versions.
The examples do not grow during a run.

Chen, Ning, Slawski, Rangwala, "Asynchronous online federated learning for edge devices with non-IID data", IEEE
BigData 2020, arXiv 1911.02134.
"""

from dataclasses import dataclass, field, replace
from math import isfinite, log
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.learning.algorithms.base import Arrival, Info, Sent, Setting, Standard, everybody
from sojourn.learning.replay.local import Local, Update
from sojourn.learning.replay.server_step import ServerMemory, ServerStep
from sojourn.learning.storable import storable
from sojourn.plan import Plan
from sojourn.scenario import Scenario


@storable("aso-fed.kept")
class Kept(NamedTuple):
    """A client's memory, its last gradient, and its contacts so far."""

    memory: Tensor
    """h."""
    last: Tensor
    """v."""
    version: int
    """Version of the newest model that it received."""
    delays: int
    """Sum of its delays."""
    contacts: int
    """How many they are."""


@storable("aso-fed.state")
class State(NamedTuple):
    """The server's model, and what its step rule remembers."""

    params: Tensor
    version: int
    memory: ServerMemory


@dataclass(frozen=True)
class AsoFed(Standard):
    """Asynchronous online learning: clients send corrected updates, and the server adds each by its weight."""

    server: ServerStep = field(default_factory=ServerStep)
    """How the server steps along an update, at `server_step_size`."""
    server_step_size: float = 1.0
    """Factor of every update."""
    lam: float = 1.0
    """Proximal term of the local work (lambda)."""
    beta: float = 0.001
    """Share of the memory that is kept."""
    dynamic: bool = True
    """Whether steps grow with the logarithm of a client's mean delay."""

    name = "aso-fed"
    sends = "delta"
    remembers = True
    weighs = True
    needs_sent = False
    family = "per-arrival change of model"
    waits_for = "nobody"
    client_keeps = "2 gradients"
    server_memory = "1 model"
    unbiased = False
    reference = "Chen et al., IEEE BigData 2020"

    def __post_init__(self) -> None:
        if not (isfinite(self.server_step_size) and self.server_step_size > 0):
            raise InvalidInput(f"aso-fed: server_step_size must be positive and finite, got {self.server_step_size}")
        if not (isfinite(self.lam) and self.lam >= 0):
            raise InvalidInput(f"aso-fed: lam must be non-negative and finite, got {self.lam}")
        if not 0 <= self.beta <= 1:
            raise InvalidInput(f"aso-fed: beta must lie in [0, 1], got {self.beta}")

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Keep every client at work."""
        return everybody(fleet, plan, local)

    def local_work(self, local: Local) -> Local:
        """Take the method's own proximal term."""
        return replace(local, proximal=self.lam)

    def init(self, params: Tensor, setting: Setting) -> State:
        """Start from the first model."""
        return State(params, 0, ServerMemory())

    def finish(self, kept: Any, sent: Sent, start: Tensor, update: Update) -> tuple[Kept, Update]:
        """Correct the gradient by the last one and by the memory."""
        gradient = update.as_gradient()
        if kept is None:
            nothing = torch.zeros_like(gradient)
            kept = Kept(nothing, nothing, sent.version, 0, 0)
        else:
            delay = max(0, sent.version - kept.version)  # none for a model that was overtaken on its way
            kept = kept._replace(delays=kept.delays + delay, contacts=kept.contacts + 1)
        corrected = gradient - kept.last + kept.memory
        delta = corrected * (-self.stretch(kept) * update.step_size)
        memory = torch.lerp(kept.last, kept.memory, self.beta)
        after = kept._replace(memory=memory, last=gradient, version=max(sent.version, kept.version))
        return after, update._replace(gradient=None, delta=delta)

    def stretch(self, kept: Kept) -> float:
        """Return the factor of a client's steps (r)."""
        if not self.dynamic or kept.delays == 0:
            return 1.0
        return max(1.0, log(kept.delays / kept.contacts))

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Add the update by the client's weight."""
        delta = arrival.update.as_delta()
        memory, params = self.server.step(state.memory, state.params, delta, -arrival.weight, self.server_step_size)
        return State(params, state.version + 1, memory), Info()
