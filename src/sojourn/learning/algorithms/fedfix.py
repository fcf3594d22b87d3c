"""FedFix: the server aggregates every dt with whoever has returned, with weights that undo how often clients do.

    w <- w + eta_g sum_{i in A} d_i Delta_i,     d_i = p_i / P(i in A)

Delta_i is the change of client i's model since it was sent, A are the clients of an aggregation, p_i is the client's
weight in the objective. Such weights keep the optimum of sum p_i f_i the optimum of the expected step, whatever the
speeds. `form` says what an aggregation is:

    fix       a tick every `dt` seconds; who has returned gets the new model and restarts at the tick. A client that
              takes tau is in one of ceil(tau / dt) aggregations: d_i = ceil(tau_i / dt) p_i, or its mean for random tau
    async     every arrival by itself: d_i = p_i / s_i, where s_i is the client's share of all updates. If all clients
              always work, and their tasks take mean times tau, d_i = (sum_j 1/tau_j) tau_i p_i
    buffered  every `size` arrivals, for which clients that have returned wait

With `weights=identical` all updates of an aggregation count alike, 1/|A|, which is biased towards fast clients.

Decided here: mean numbers of windows are computed where the law of a task's time is known (any law with one service
time per task, exponential or deterministic steps, no links). Elsewhere, and for `buffered`, P(i in A) is estimated
during the run: how many aggregations client i was part of, out of all so far. A tick with nobody there counts as an
aggregation that changes nothing. For `async` it is the share that timing tells, which holds also where clients come and
go, tasks are lost, the server is busy or others get the next task.

Special cases: with dt at least the longest time, `fix` is FedAvg with weights p_i. `async` is generalized AsyncSGD's
unbiased weight, applied to the change of the model.

Fraboni, Vidal, Kameni, Lorenzi, "A general theory for federated optimization with asynchronous and heterogeneous
clients updates", JMLR 2023, arXiv 2206.10189.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from math import isfinite
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.laws.law import EXPONENTIAL, Law
from sojourn.learning.algorithms.base import Arrival, Info, Setting, Standard, queued
from sojourn.learning.replay.local import Local
from sojourn.learning.replay.server_step import ServerMemory, ServerStep
from sojourn.learning.storable import storable
from sojourn.plan import Plan
from sojourn.scenario import Dispatcher, Scenario
from sojourn.types import Floats

FORMS, WEIGHTS = ("fix", "async", "buffered"), ("unbiased", "identical")
DETERMINISTIC = Law("deterministic")
MANY = 2**14  # windows that are added up one by one; beyond, where they are short beside the time, by an integral


@storable("fedfix.state")
class State(NamedTuple):
    """The server's model, what has arrived for the next aggregation, and how often clients take part."""

    params: Tensor
    version: int
    memory: ServerMemory
    total: Tensor | None
    arrived: int
    part: tuple[float, ...]
    """fix: aggregations per part of each client; empty = estimated."""
    seen: dict[int, int]
    """Aggregations that a client was part of, where this is estimated."""


@dataclass(frozen=True)
class FedFix(Standard):
    """FedFix and its relatives: weights by how rarely a client is part of an aggregation."""

    server: ServerStep = field(default_factory=ServerStep)
    """How the server steps along the weighted sum, at `server_step_size`."""
    form: str = "fix"
    """When the server aggregates: fix (every dt), async (at every arrival) or buffered (at every `size` arrivals)."""
    dt: float = 1.0
    """fix: time in seconds between two aggregations."""
    size: int = 10
    """buffered: number of arrivals of an aggregation."""
    weights: str = "unbiased"
    """How updates count: unbiased (by weight in the objective and how rarely the client takes part) or identical."""
    server_step_size: float = 1.0
    """eta_g."""

    name = "fedfix"
    sends = "delta"
    weighs = True
    needs_sent = False
    reference = "Fraboni et al., JMLR 2023"

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise InvalidInput(f"fedfix: form must be one of {', '.join(FORMS)}, got '{self.form}'")
        if self.weights not in WEIGHTS:
            raise InvalidInput(f"fedfix: weights must be unbiased or identical, got '{self.weights}'")
        for key in ("dt", "server_step_size"):
            if not (isfinite(getattr(self, key)) and getattr(self, key) > 0):
                raise InvalidInput(f"fedfix: {key} must be positive and finite, got {getattr(self, key)}")
        if self.size < 1:
            raise InvalidInput(f"fedfix: size must be at least 1, got {self.size}")

    @property
    def family(self) -> str:
        """What an aggregation is."""
        return {"fix": "periodic", "async": "per-arrival change of model", "buffered": "buffered"}[self.form]

    @property
    def waits_for(self) -> str:
        """The end of the window, nobody, or a full buffer."""
        return {"fix": "a fixed time", "async": "nobody", "buffered": "a full buffer"}[self.form]

    @property
    def server_memory(self) -> str:
        """The model, and the sum of what has arrived."""
        return "1 model" if self.form == "async" or (self.form == "buffered" and self.size == 1) else "2 models"

    @property
    def uses_prob(self) -> bool:
        """Where every arrival counts by itself, by its client's share of all updates."""
        return self.form == "async" and self.weights == "unbiased"

    @property
    def unbiased(self) -> bool:
        """The weights undo how often clients take part."""
        return self.weights == "unbiased"

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Keep every client at work; hold arrivals until the next aggregation."""
        everyone = Plan.uniform(fleet, fleet.clients, plan.step_size)
        if self.form == "async":
            return everyone, queued("pure", local)
        until = {"waiting": self.dt} if self.form == "fix" else {"wait": self.size}
        held = Dispatcher.named("held", **until)
        return everyone, Scenario(held, local_steps=local.steps, one_draw=local.epochs is not None)

    def init(self, params: Tensor, setting: Setting) -> State:
        """Compute how often clients take part, where that is known."""
        fleet, local = setting.fleet, setting.local
        steps = 1 if local.epochs is not None else local.steps
        part: tuple[float, ...] = ()
        if self.form == "fix" and not fleet.link_time.any():
            means = [windows(law, steps, rate * self.dt) for law, rate in zip(fleet.law, fleet.rate, strict=True)]
            if all(mean is not None for mean in means):
                part = tuple(np.array(means, dtype=float)[fleet.group_of_client].tolist())
        return State(params, 0, ServerMemory(), None, 0, part, {})

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Weigh the update and add it to the next aggregation; `async` and `buffered` end it themselves."""
        seen = dict(state.seen)
        factor = 1.0
        if self.weights == "unbiased":
            factor = arrival.weight * self._part(state, arrival, seen)
        delta = arrival.update.as_delta()
        total = delta * factor if state.total is None else torch.add(state.total, delta, alpha=factor)
        state = state._replace(total=total, arrived=state.arrived + 1, seen=seen)
        full = {"fix": 0, "async": 1, "buffered": self.size}[self.form]
        return (self._aggregated(state) if state.arrived == full else state), Info()

    def _part(self, state: State, arrival: Arrival, seen: dict[int, int]) -> float:
        """Return the aggregations per part of the client; where it is estimated, count this one in `seen`."""
        if self.form == "async":
            return 1 / arrival.prob
        if state.part:
            return state.part[arrival.client]
        seen[arrival.client] = seen.get(arrival.client, 0) + 1
        so_far = arrival.time / self.dt if self.form == "fix" else state.version + 1
        return max(1.0, so_far / seen[arrival.client])

    def tick(self, state: State) -> State:
        """Aggregate what has arrived at a tick."""
        return self._aggregated(state) if self.form == "fix" and state.arrived else state

    def _aggregated(self, state: State) -> State:
        assert state.total is not None
        factor = -1.0 / (state.arrived if self.weights == "identical" else 1)
        memory, params = self.server.step(state.memory, state.params, state.total, factor, self.server_step_size)
        return state._replace(params=params, version=state.version + 1, memory=memory, total=None, arrived=0)


@lru_cache(maxsize=4096)
def windows(law: Law, steps: int, reach: float) -> float | None:
    """Return the mean number of windows that a task of so many steps takes; None = not known.

    `reach` is the length of a window in mean service times. The mean of ceil(T / dt) is the sum over k of P(T > k dt).
    From k = K on, this is the mean of max(0, T / dt - K), and half of P(T > K dt), for a window that is short beside T.

    >>> windows(DETERMINISTIC, 1, 0.4), windows(DETERMINISTIC, 3, 0.3)
    (3.0, 10.0)
    >>> bool(np.isclose(windows(EXPONENTIAL, 1, 0.5), 1 / (1 - np.exp(-0.5))))
    True
    """
    if law == DETERMINISTIC:
        return float(np.ceil(steps / reach - 1e-9))
    if steps > 1 and law != EXPONENTIAL:
        return None
    mean, first, many = 1.0, 1, 256  # every task lasts longer than no time
    while first < MANY:
        at = np.arange(first, first + many, dtype=np.float64) * reach
        beyond, _ = beyond_and_left(law, steps, at)
        mean += float(beyond.sum())
        if beyond[-1] < 1e-12:
            return mean
        first, many = first + many, 2 * many
    beyond, left = beyond_and_left(law, steps, np.array([first * reach]))
    return mean + float(left[0]) / reach + float(beyond[0]) / 2


def beyond_and_left(law: Law, steps: int, at: Floats) -> tuple[Floats, Floats]:
    """Return P(T > t) and the mean of max(0, T - t), for a task of one step, or of several exponential ones.

    >>> [float(found[0].round(4)) for found in beyond_and_left(EXPONENTIAL, 2, np.array([0.0]))]
    [1.0, 2.0]
    """
    if law == EXPONENTIAL:
        from scipy.special import gammaincc

        beyond = gammaincc(steps, at)
        return beyond, steps * gammaincc(steps + 1, at) - at * beyond
    beyond = np.exp(law.log_survival(at))
    return beyond, beyond * (law.mean_beyond(at) - at)
