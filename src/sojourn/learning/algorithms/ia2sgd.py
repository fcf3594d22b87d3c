"""IA2SGD: a table of the latest gradient of every client; each arrival replaces its entry, and the server steps by the
mean of the whole table.

    G_i <- g_i(w_{I_k}),   w <- w - eta sum_j q_j G_j

q_j is client j's weight in the objective (1/n in the papers). The table fills first: with `warmup=full` the server
takes no step until every client has an entry; with `warmup=after` the arrival that completes the table makes no step,
the next one does; with `warmup=zero` missing entries count as zero, and it steps from the first arrival on. With `size`
Z > 1 it steps once for every Z arrivals, whoever they come from: with several local steps this is MIFA, whose rounds
take whichever devices are there and the latest update of all others.

Every client counts the same however fast it is, at the price of a table of n gradients and of stale entries.

Special case: with n = 1 it is SGD. If the Z = n arrivals of a step come from n clients, it is minibatch SGD with
their stale models.

Decided: all clients work all the time and get the new model when they return (`assignment=pure`), as in the public
code; `random` draws every client alike. The public code warms up as `after`; here the first step is taken as soon as it
can be. A gradient that is replaced before any step has used it counts as unused. The mean is kept up to date by
differences, which costs one vector operation an arrival; its rounding error grows with the root of their number.

Wang, Sun, Wai, Zhang, "Dual-delayed asynchronous SGD for arbitrarily heterogeneous data", arXiv 2405.16966, later
called incremental aggregated asynchronous SGD; MIFA: Gu, Huang, Zhang, Huang, "Fast federated learning in the presence
of arbitrary device unavailability", NeurIPS 2021.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.learning.algorithms.base import Arrival, Info, Setting, Standard, everybody, queued
from sojourn.learning.replay.local import Local
from sojourn.learning.replay.server_step import ServerMemory, ServerStep
from sojourn.learning.storable import storable
from sojourn.plan import Plan
from sojourn.scenario import Scenario

WARMUPS = ("full", "after", "zero")


@storable("ia2sgd.state")
class State(NamedTuple):
    """The server's model, the table, its weighted sum, and who has arrived since the last step."""

    params: Tensor
    version: int
    memory: ServerMemory
    clients: int
    table: dict[int, Tensor]
    total: Tensor | None
    gathered: int
    fresh: tuple[int, ...]


@dataclass(frozen=True)
class Ia2sgd(Standard):
    """A table of latest gradients: the server steps by the mean over all clients, one entry of which is new."""

    server: ServerStep = field(default_factory=ServerStep)
    """How the server steps along the mean of the table."""
    warmup: str = "full"
    """When steps begin: `full` (every client has an entry), `after` (with the next arrival) or `zero` (at once)."""
    size: int = 1
    """Number of arrivals for a step (Z)."""
    assignment: str = "pure"
    """Who gets the next task: pure or random."""

    name = "ia2sgd"
    sends = "gradient"
    weighs = True
    needs_sent = False
    family = "table of gradients"
    server_memory = "n + 2 models"
    unbiased = True
    reference = "Wang et al., arXiv 2405.16966; MIFA: Gu et al., NeurIPS 2021"

    def __post_init__(self) -> None:
        if self.warmup not in WARMUPS:
            raise InvalidInput(f"ia2sgd: warmup must be one of {', '.join(WARMUPS)}, got '{self.warmup}'")
        if self.size < 1:
            raise InvalidInput(f"ia2sgd: size must be at least 1, got {self.size}")
        if self.assignment not in ("pure", "random"):
            raise InvalidInput(f"ia2sgd: assignment must be pure or random, got '{self.assignment}'")

    @property
    def waits_for(self) -> str:
        """Every client at first, unless missing entries count as zero; then Z arrivals."""
        if self.warmup == "zero":
            return "nobody" if self.size == 1 else "Z arrivals"
        return "every client once" if self.size == 1 else "every client once, then Z arrivals"

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Keep every client at work; where assignment is random, keep the plan's number of tasks."""
        if self.assignment == "pure":
            return everybody(fleet, plan, local)
        return Plan.uniform(fleet, plan.concurrency, plan.step_size), queued("routed", local)

    def init(self, params: Tensor, setting: Setting) -> State:
        """Start with an empty table."""
        return State(params, 0, ServerMemory(), setting.clients, {}, None, 0, ())

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Replace the client's entry; if it is time, step by the mean of the table."""
        client, gradient = arrival.client, arrival.update.as_gradient()
        before = state.table.get(client)
        change = gradient if before is None else gradient - before
        scaled = change * arrival.weight
        total = scaled if state.total is None else state.total + scaled
        info = Info(used=client not in state.fresh)  # otherwise one gradient is replaced that no step has used
        fresh = state.fresh if client in state.fresh else (*state.fresh, client)
        table = {**state.table, client: gradient}
        after = state._replace(table=table, total=total, gathered=state.gathered + 1, fresh=fresh)
        entries = {"full": len(table), "after": len(state.table), "zero": state.clients}[self.warmup]
        if after.gathered < self.size or entries < state.clients:
            return after, info
        step_size = self.server.step_size_at(arrival.step, arrival.time)
        memory, params = self.server.step(state.memory, state.params, total, 1.0, step_size)
        return after._replace(params=params, version=state.version + 1, memory=memory, gathered=0, fresh=()), info
