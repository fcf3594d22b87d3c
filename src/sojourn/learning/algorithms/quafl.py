"""QuAFL: at fixed times the server calls s clients; both sides mix the other's quantised model into their own.

    X   <- ( X + sum_i Q(Y_i) ) / (s + 1)
    X_i <- Q(X) / (s + 1) + s Y_i / (s + 1)           from which client i continues

X is the server's model (the one before the call is sent), Y_i client i's model after e_i <= K local steps from X_i, and
Q a quantiser whose key is the receiver's own model. `rescale` multiplies the local step size by (s+1)/s, which undoes
the damping of the average.

Special case: without a quantiser, with clients that always finish K steps, and without weight on the server's or the
client's own model it is FedAvg.

Zakerinia, Talaei, Nadiradze, Alistarh, arXiv 2206.10032, Algorithm 1.
"""

from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.learning.algorithms.base import Arrival, Info, Sent, Setting, Standard, interrupted, not_negative
from sojourn.learning.replay.local import Local, Update
from sojourn.learning.replay.quantiser import Lattice
from sojourn.learning.storable import storable
from sojourn.plan import Plan
from sojourn.scenario import Dispatcher, Scenario


@storable("quafl.state")
class State(NamedTuple):
    """The server's model, the one before the last call, and the sum over the call so far."""

    params: Tensor
    version: int
    before: Tensor
    total: Tensor | None
    calls: int


@dataclass(frozen=True)
class Quafl(Standard):
    """Quantised asynchronous federated learning: server and clients average their quantised models at fixed times."""

    contacts: int = 20
    """Number of clients called each time (s)."""
    waiting: float = 4.0
    """Time in seconds that the server waits between two calls."""
    interaction: float = 3.0
    """Time in seconds that a call takes."""
    bits: int = 14
    """Bits per number of the lattice quantiser; 32 = not quantised."""
    side: float = 1e-4
    """Side length of the lattice."""
    rescale: bool = True
    """Whether the local step size is multiplied by (s+1)/s."""
    server_average: bool = True
    """Whether the server's own model counts in its average."""
    client_average: bool = True
    """Whether the client's own model counts in its average; if not, the client takes the server's model."""

    name = "quafl"
    sends = "delta"
    remembers = True
    family = "periodic"
    waits_for = "a fixed time"
    client_keeps = "its model"
    server_memory = "3 models"
    unbiased = False
    reference = "Zakerinia et al., arXiv 2206.10032"

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= 32:
            raise InvalidInput(f"quafl: bits must lie between 1 and 32, got {self.bits}")
        if not (isfinite(self.side) and self.side > 0):
            raise InvalidInput(f"quafl: side must be positive and finite, got {self.side}")
        if self.contacts < 1:
            raise InvalidInput(f"quafl: contacts must be a whole number of at least 1, got {self.contacts}")
        not_negative(self.name, waiting=self.waiting, interaction=self.interaction)

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Call clients periodically and interrupt them; every client works, up to K local steps."""
        calls = Dispatcher("periodic", contacts=self.contacts, waiting=self.waiting, interaction=self.interaction)
        return Plan.uniform(fleet, fleet.clients, plan.step_size), interrupted(self.name, calls, local)

    def init(self, params: Tensor, setting: Setting) -> State:
        """Start with the first model at the server and at every client."""
        return State(params, 0, params, None, 0)

    def send(self, state: State, client: int) -> Sent:
        """Send the model before the call's average; if the client's own model does not count, send the new one."""
        return Sent(state.before if self.client_average else state.params, state.version)

    def start(self, kept: Any, sent: Sent) -> tuple[Tensor, float]:
        """Mix the server's model into the client's own."""
        scale = (self.contacts + 1) / self.contacts if self.rescale else 1.0
        if kept is None:
            return sent.params, scale
        theirs = self._through(sent.params, kept)
        share = self.contacts / (self.contacts + 1)
        return torch.lerp(theirs, kept, share) if self.client_average else theirs, scale

    def finish(self, kept: Any, sent: Sent, start: Tensor, update: Update) -> tuple[Tensor, Update]:
        """Keep the client's model."""
        mine = start + update.as_delta()
        return mine, update._replace(gradient=None, delta=mine - sent.params)

    def _through(self, x: Tensor, key: Tensor) -> Tensor:
        return x if self.bits == 32 else Lattice(self.side, self.bits).through(x, key)

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Add the client's quantised model to the call."""
        model = self._through(arrival.sent.params + arrival.update.as_delta(), state.params)
        total = model if state.total is None else state.total + model
        return state._replace(total=total, calls=state.calls + 1), Info()

    def tick(self, state: State) -> State:
        """Average the call."""
        if state.total is None:
            return state
        own = 1 if self.server_average else 0
        params = torch.add(state.total, state.params, alpha=own) / (state.calls + own)
        return State(params, state.version + 1, state.params, None, 0)

    def bits_each_way(self, size: int) -> tuple[int, int]:
        """Return the quantiser's bits per parameter."""
        return self.bits * size, self.bits * size
