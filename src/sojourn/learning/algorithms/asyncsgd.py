"""AsyncSGD: the server applies every gradient as soon as it arrives, with the same weight for every client.

    w_{k+1} = w_k - eta_k g_i(w_{I_k})

`steps` sets eta_k: eta (`constant`), eta min(1, C / tau_k) (`adaptive`), or eta where tau_k <= C and 0 beyond (`drop`).
tau_k is the number of changes of the server's model since it was sent, and C the number of tasks in flight, which is
the mean number of pending gradients.

Assignment `random` draws every client with probability 1/n and lets tasks queue. `pure` gives the next task to the
client that has just finished. `shuffled` goes through the clients in a random order. Drawing uniformly among idle
clients would be another algorithm, which is biased to the fast clients.

Special cases: with C = 1 and random assignment it is SGD over uniformly drawn clients; if all tau_k <= C, adaptive is
the same as constant.

Koloskova, Stich, Jaggi, "Sharper convergence guarantees for asynchronous SGD", NeurIPS 2022; Mishchenko, Bach, Even,
Woodworth, "Asynchronous SGD beats minibatch SGD under arbitrary delays", NeurIPS 2022; Islamov, Safaryan, Alistarh,
"AsGrad", AISTATS 2024.
"""

from dataclasses import dataclass, field
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

ASSIGNMENTS = {"random": "routed", "pure": "pure", "shuffled": "shuffled"}
STEPS = ("constant", "adaptive", "drop")


@storable("asyncsgd.state")
class State(NamedTuple):
    """The server's model, what its step rule remembers, and the tasks in flight."""

    params: Tensor
    version: int
    memory: ServerMemory
    concurrency: int


@dataclass(frozen=True)
class AsyncSGD(Standard):
    """Asynchronous SGD: the server steps against every gradient as it arrives, all with the same weight."""

    server: ServerStep = field(default_factory=ServerStep)
    """How the server steps along a gradient."""
    assignment: str = "random"
    """Who gets the next task: random, pure or shuffled."""
    steps: str = "constant"
    """Step size under staleness: constant, adaptive or drop."""

    name = "asyncsgd"
    sends = "gradient"
    needs_sent = False
    corrects = True
    family = "per-arrival gradient"
    waits_for = "nobody"
    server_memory = "1 model"
    reference = "Koloskova et al., NeurIPS 2022"

    def __post_init__(self) -> None:
        if self.assignment not in ASSIGNMENTS:
            raise InvalidInput(f"asyncsgd: assignment must be one of {', '.join(ASSIGNMENTS)}, got '{self.assignment}'")
        if self.steps not in STEPS:
            raise InvalidInput(f"asyncsgd: steps must be one of {', '.join(STEPS)}, got '{self.steps}'")

    @property
    def unbiased(self) -> bool:
        """Fast clients count more under pure assignment, and where stale gradients count less."""
        return self.assignment != "pure" and self.steps == "constant"

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Sample uniformly, whatever the plan's sampling; keep the plan's concurrency."""
        return Plan.uniform(fleet, plan.concurrency, plan.step_size), queued(ASSIGNMENTS[self.assignment], local)

    def init(self, params: Tensor, setting: Setting) -> State:
        """Start from the first model."""
        return State(params, 0, ServerMemory(), setting.plan.concurrency)

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Step against the gradient; take a smaller step or none if it is very stale."""
        tau, tasks = state.version - arrival.sent.version, state.concurrency
        factor = 1.0 if self.steps == "constant" or tau <= tasks else tasks / tau if self.steps == "adaptive" else 0.0
        if factor == 0.0:
            return state, Info(used=False)
        step_size = self.server.step_size_at(arrival.step, arrival.time)
        factor *= arrival.factor
        memory, params = self.server.step(state.memory, state.params, arrival.update.as_gradient(), factor, step_size)
        return State(params, state.version + 1, memory, tasks), Info()
