"""FedASMU: models are mixed in by age, and a client in the middle of its work mixes in the server's newest model.

    server:   xi = lambda / (sqrt(t) (t - o + 1)^sigma) + iota,   alpha = mu xi / (1 + mu xi)
              w <- (1 - alpha) w + alpha w_i                       when client i's model comes back
    client:   phi = (gamma / sqrt(t)) (1 - upsilon / sqrt(t - o + 1)),   beta = nu phi / (1 + nu phi)
              w_i <- (1 - beta) w_i + beta w                       once, in the middle of its local training

t is the server's version, counted from 1, and o the version from which the client's training began. A model with
t - o > `most` is dropped.

Special cases: with lambda = 0 the share is constant and, without refresh, this is FedAsync. If the server's model has
not changed since o and upsilon = 1, nothing is mixed in at the middle.

Decided: a training consists of two tasks of the run's local work; after the first one the client checks in and gets the
newest model, which is not an update: it sends no bits up, no loss, and one more model down. The next task goes to the
client that has finished, so that it continues with what it has; the paper starts random idle devices instead. The
moment of the refresh is the middle, where the paper learns it by reinforcement learning, and lambda, sigma, iota, gamma
and upsilon are constants, where the paper updates them by gradients of the loss: this is a simplified FedASMU. Of a
model that is dropped, only the second half counts as unused work.

Liu, Jia, Che, Huo, Ren, Zhou, Dai, Dou, "FedASMU: efficient asynchronous federated learning with dynamic
staleness-aware model update", AAAI 2024, arXiv 2312.05770.
"""

from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.learning.algorithms.base import Arrival, Info, Sent, Setting, Standard, everybody
from sojourn.learning.replay.local import Local, Update
from sojourn.learning.storable import storable
from sojourn.plan import Plan
from sojourn.scenario import Scenario


@storable("fedasmu.half")
class Half(NamedTuple):
    """What a client keeps: its half-trained model and the version from which it began; None = it begins anew."""

    model: Tensor | None
    version: int


@storable("fedasmu.state")
class State(NamedTuple):
    """The server's model, and the versions from which clients that have checked in began."""

    params: Tensor
    version: int
    begun: dict[int, int]


@dataclass(frozen=True)
class FedAsmu(Standard):
    """Asynchronous mixing by age, with a refresh of the client's model in the middle of its local training."""

    mu: float = 1.0
    """Size of the server's share of a new model."""
    lam: float = 1.0
    """Part of the share that falls with age and time (lambda)."""
    sigma: float = 0.5
    """How fast it falls with age."""
    iota: float = 0.0
    """Part of the share that does not fall."""
    most: float | None = None
    """Age above which a model is dropped; None = never."""
    refresh: bool = True
    """Whether clients mix in the newest model in the middle of their training."""
    nu: float = 1.0
    """Size of a client's share of the newest model."""
    gamma: float = 1.0
    """Part of this share that falls with time."""
    upsilon: float = 1.0
    """How much less of it is taken if the server's model has hardly changed, from 0 to 1."""

    name = "fedasmu"
    sends = "delta"
    remembers = True
    family = "per-arrival model mix"
    waits_for = "nobody"
    server_memory = "1 model"
    unbiased = False
    reference = "Liu et al., AAAI 2024"

    def __post_init__(self) -> None:
        for key in ("mu", "lam", "sigma", "iota", "nu", "gamma"):
            value = getattr(self, key)
            if not (isfinite(value) and value >= 0):
                raise InvalidInput(f"fedasmu: {key} must be non-negative and finite, got {value}")
        if self.mu * (self.lam + self.iota) == 0:
            raise InvalidInput("fedasmu: mu and one of lam and iota must be positive, or no model counts; raise them")
        if not 0 <= self.upsilon <= 1:
            raise InvalidInput(f"fedasmu: upsilon must lie in [0, 1], got {self.upsilon}")
        if self.most is not None and not self.most >= 0:
            raise InvalidInput(f"fedasmu: most must not be negative, got {self.most}")

    @property
    def must_remember(self) -> bool:
        """Whether it breaks if a client forgets: the server counts on who has checked in."""
        return self.refresh

    @property
    def client_keeps(self) -> str:
        """Its half-trained model."""
        return "its half-trained model" if self.refresh else "nothing"

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Keep every client at work."""
        return everybody(fleet, plan, local)

    def init(self, params: Tensor, setting: Setting) -> State:
        """Start from the first model; nobody has checked in."""
        return State(params, 0, {})

    def start(self, kept: Any, sent: Sent) -> tuple[Tensor, float]:
        """Begin with the model that was sent; in the middle mix it into the client's own."""
        if kept is None or kept.model is None:
            return sent.params, 1.0
        return torch.lerp(kept.model, sent.params, self.refreshed(sent.version, kept.version)), 1.0

    def finish(self, kept: Any, sent: Sent, start: Tensor, update: Update) -> tuple[Half, Update]:
        """After the first half keep the model and only check in; after the second one send the model."""
        mine = start + update.as_delta()
        if self.refresh and (kept is None or kept.model is None):
            return Half(mine, sent.version), update.emptied()
        return Half(None, 0), update._replace(gradient=None, delta=mine - sent.params)

    def share(self, now: int, began: int) -> float:
        """Return the server's share of a model (alpha), given the server's version and the model's, from 0."""
        xi = self.lam / (sqrt(now + 1) * float((now - began + 1) ** self.sigma)) + self.iota
        return self.mu * xi / (1 + self.mu * xi)

    def refreshed(self, now: int, began: int) -> float:
        """Return the client's share of the newest model (beta), given the versions of both, from 0. A model that was
        overtaken on its way, and is older than the client's own, counts as one that has not changed.
        """
        phi = self.gamma / sqrt(now + 1) * (1 - self.upsilon / sqrt(max(now - began, 0) + 1))
        return self.nu * phi / (1 + self.nu * phi)

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Note who has checked in; mix in the model of who has finished."""
        client, begun = arrival.client, state.begun
        if arrival.update.empty:
            return state._replace(begun={**begun, client: arrival.sent.version}), Info()
        began = begun.get(client, arrival.sent.version)
        left = {one: version for one, version in begun.items() if one != client}
        if self.most is not None and state.version - began > self.most:
            return state._replace(begun=left), Info(used=False)
        model = arrival.sent.params + arrival.update.as_delta()
        params = torch.lerp(state.params, model, self.share(state.version, began))
        return State(params, state.version + 1, left), Info()
