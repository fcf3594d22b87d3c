"""Delay-adaptive asynchronous SGD: the step shrinks with the staleness of its gradient, beyond a threshold.

    w_{k+1} = w_k - eta min(1, M / tau_k) g_i(w_{I_k})

tau_k is the number of changes of the server's model since the gradient's model was sent, M the threshold: by default
the number of tasks in flight, as in the paper, where it is the number of workers. `beyond=drop` refuses gradients with
tau_k > M instead, which the analysis of Koloskova et al. allows. A refused gradient does not change the model, so that
it does not age others.

Special cases: if all tau_k <= M it is AsyncSGD with the same assignment; with M = infinity always. With M = tasks in
flight it is asyncsgd(assignment=pure, steps=adaptive).

Decided: the paper's notebook counts staleness from 1 and requests the next gradient at the model before the update;
here staleness is counted from 0, and the next gradient is taken at the new model, as the paper's text has it.
Assignment `pure` (default) gives the next task to the client that has finished, which is biased to fast clients if
their data differ; `random` draws every client alike.

Mishchenko, Bach, Even, Woodworth, "Asynchronous SGD beats minibatch SGD under arbitrary delays", NeurIPS 2022;
Koloskova, Stich, Jaggi, NeurIPS 2022.
"""

from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.learning.algorithms.base import Arrival, Info, Setting, Standard, queued
from sojourn.learning.replay.local import Local
from sojourn.learning.replay.server_step import ServerMemory, ServerStep
from sojourn.learning.storable import storable
from sojourn.plan import Plan
from sojourn.scenario import Scenario

ASSIGNMENTS = {"pure": "pure", "random": "routed", "shuffled": "shuffled"}


@storable("delay-adaptive.state")
class State(NamedTuple):
    """The server's model, what its step rule remembers, and the threshold."""

    params: Tensor
    version: int
    memory: ServerMemory
    threshold: float


@dataclass(frozen=True)
class DelayAdaptive(Standard):
    """Asynchronous SGD whose steps shrink, or vanish, where a gradient is staler than a threshold."""

    server: ServerStep = field(default_factory=ServerStep)
    """How the server steps along a gradient."""
    threshold: float | None = None
    """Staleness up to which a gradient counts fully (M); None = number of tasks in flight, inf = any."""
    beyond: str = "shrink"
    """What happens to staler gradients: shrink or drop."""
    assignment: str = "pure"
    """Who gets the next task: pure, random or shuffled."""

    name = "delay-adaptive"
    sends = "gradient"
    needs_sent = False
    corrects = True
    family = "per-arrival gradient"
    waits_for = "nobody"
    server_memory = "1 model"
    reference = "Mishchenko et al., NeurIPS 2022"

    def __post_init__(self) -> None:
        if self.threshold is not None and not self.threshold > 0:
            raise InvalidInput(f"delay-adaptive: threshold must be positive, got {self.threshold}")
        if self.beyond not in ("shrink", "drop"):
            raise InvalidInput(f"delay-adaptive: beyond must be shrink or drop, got '{self.beyond}'")
        if self.assignment not in ASSIGNMENTS:
            known = ", ".join(ASSIGNMENTS)
            raise InvalidInput(f"delay-adaptive: assignment must be one of {known}, got '{self.assignment}'")

    @property
    def unbiased(self) -> bool:
        """Slow clients lose in number under pure assignment, and in weight beyond the threshold, if there is one."""
        return self.assignment != "pure" and self.threshold == inf

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Sample uniformly, whatever the plan's sampling; keep the plan's concurrency."""
        return Plan.uniform(fleet, plan.concurrency, plan.step_size), queued(ASSIGNMENTS[self.assignment], local)

    def init(self, params: Tensor, setting: Setting) -> State:
        """Start from the first model."""
        threshold = setting.plan.concurrency if self.threshold is None else self.threshold
        return State(params, 0, ServerMemory(), float(threshold))

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Step against the gradient; take a smaller step or none beyond the threshold."""
        tau = state.version - arrival.sent.version
        if tau > state.threshold and self.beyond == "drop":
            return state, Info(used=False)
        factor = arrival.factor * (1.0 if tau <= state.threshold else state.threshold / tau)
        step_size = self.server.step_size_at(arrival.step, arrival.time)
        memory, params = self.server.step(state.memory, state.params, arrival.update.as_gradient(), factor, step_size)
        return state._replace(params=params, version=state.version + 1, memory=memory), Info()
