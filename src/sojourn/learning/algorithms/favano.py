"""FAVANO (FAVAS): at fixed times the server calls s clients, and each returns what it has done so far, reweighted.

    v_i = w_i^init + (w_i - w_i^init) / a_i          for the s clients called
    w  <- ( w + sum_i v_i ) / (s + 1)                then v_i's clients restart from w

w_i is the client's model after e_i <= K local steps since its last call, w_i^init the model that it received then. With
`deterministic` reweighting a_i = E[min(E_i, K)], where E_i is the number of steps that fit between two calls. With
`stochastic` reweighting a_i = P(E_i > 0) e_i, and a client that has done nothing returns w_i^init. Either way the
expected update is to first order proportional to the mean gradient, whatever the speeds.

A client is called in each period with probability s/n, so that the time between its calls is geometric. For exponential
steps both expectations are known; for other laws they are estimated during the run.

Special case: with one step per client, stochastic reweighting with P = 1, and weight 1/s instead of 1/(s+1) it is
FedAvg with K = 1.

Leconte, Nguyen, Moulines, arXiv 2305.16099, ICASSP 2024.
"""

from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.laws.law import EXPONENTIAL
from sojourn.learning.algorithms.base import Arrival, Info, Setting, Standard, interrupted, not_negative
from sojourn.learning.replay.local import Local
from sojourn.learning.storable import storable
from sojourn.plan import Plan
from sojourn.scenario import Dispatcher, Scenario


@storable("favano.state")
class State(NamedTuple):
    """The server's model, the sum over the period so far, and what is known about the clients' speeds."""

    params: Tensor
    version: int
    total: Tensor | None
    calls: int
    chance: tuple[float, ...]
    mean: tuple[float, ...]
    seen: dict[int, tuple[int, int, int]]


@dataclass(frozen=True)
class Favano(Standard):
    """FAVANO: the server averages the reweighted partial work of some clients at fixed times."""

    contacts: int = 20
    """Number of clients called each time (s)."""
    waiting: float = 4.0
    """Time in seconds that the server waits between two calls."""
    interaction: float = 3.0
    """Time in seconds that a call takes."""
    reweighting: str = "stochastic"
    """How partial work is reweighted: stochastic or deterministic."""
    keep: float = 1.0
    """Weight of the server's own model in the average; 0 = it is not kept."""

    name = "favano"
    sends = "delta"
    family = "periodic"
    waits_for = "a fixed time"
    server_memory = "2 models"
    unbiased = True
    reference = "Leconte et al., ICASSP 2024"

    def __post_init__(self) -> None:
        if self.reweighting not in ("stochastic", "deterministic"):
            raise InvalidInput(f"favano: reweighting must be stochastic or deterministic, got '{self.reweighting}'")
        if not (isfinite(self.keep) and self.keep >= 0):
            raise InvalidInput(f"favano: keep must be non-negative and finite, got {self.keep}")
        if self.contacts < 1:
            raise InvalidInput(f"favano: contacts must be a whole number of at least 1, got {self.contacts}")
        not_negative(self.name, waiting=self.waiting, interaction=self.interaction)

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Call clients periodically and interrupt them; every client works, up to K local steps."""
        calls = Dispatcher("periodic", contacts=self.contacts, waiting=self.waiting, interaction=self.interaction)
        return Plan.uniform(fleet, fleet.clients, plan.step_size), interrupted(self.name, calls, local)

    def init(self, params: Tensor, setting: Setting) -> State:
        """Compute the expectations where steps are exponential."""
        fleet, most = setting.fleet, setting.local.steps
        known = all(law == EXPONENTIAL for law in fleet.law)
        chance, mean = _expected(fleet.rate, self.waiting + self.interaction, self.contacts / fleet.clients, most)
        group = fleet.group_of_client
        chances, means = (tuple(values[group].tolist()) if known else () for values in (chance, mean))
        return State(params, 0, None, 0, chances, means, {})

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Add the reweighted model to the period."""
        steps = arrival.update.steps
        seen = dict(state.seen)
        calls, worked, done = seen.get(arrival.client, (0, 0, 0))
        seen[arrival.client] = (calls + 1, worked + (steps > 0), done + steps)
        a = self._reweight(state, arrival.client, seen[arrival.client], steps)
        model = torch.add(arrival.sent.params, arrival.update.as_delta(), alpha=1 / a if a > 0 else 0.0)
        total = model if state.total is None else state.total + model
        used = steps > 0
        return state._replace(total=total, calls=state.calls + 1, seen=seen), Info(used)

    def _reweight(self, state: State, client: int, seen: tuple[int, int, int], steps: int) -> float:
        calls, worked, done = seen
        if self.reweighting == "stochastic":
            chance = state.chance[client] if state.chance else max(worked, 1) / calls
            return chance * steps
        return state.mean[client] if state.mean else max(done, 1) / calls

    def tick(self, state: State) -> State:
        """Average the period."""
        if state.total is None:
            return state
        whole = self.keep + state.calls
        params = torch.add(state.total, state.params, alpha=self.keep) / whole
        return state._replace(params=params, version=state.version + 1, total=None, calls=0)


def _expected(
    rate: NDArray[np.float64], period: float, called: float, most: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return P(E > 0) and E[min(E, K)], where E counts Poisson steps in a geometric number of periods.

    >>> chance, mean = _expected(np.array([0.5]), 7.0, 1.0, 1)
    >>> bool(np.isclose(chance[0], 1 - np.exp(-3.5)) and np.isclose(mean[0], chance[0]))
    True
    """
    from scipy.special import gammainc

    none = called * np.exp(-rate * period) / (1 - (1 - called) * np.exp(-rate * period))
    periods = np.arange(1, 2 + int(np.ceil(-40 / np.log1p(-called))) if called < 1 else 2)
    weight = called * (1 - called) ** (periods - 1)
    steps = np.arange(1, most + 1)
    # P(N >= k) for a Poisson number of mean m is the regularised lower incomplete gamma function at (k, m)
    mean = [float((gammainc(steps[:, None], mu * period * periods) * weight).sum()) for mu in rate]
    return 1 - none, np.array(mean)
