"""Algorithm: what an algorithm is, apart from the clock and from the model.

An algorithm is a frozen dataclass with its hyper-parameters as fields and pure functions over an explicit state:

    init(params, setting) -> state              at the start
    send(state, client)   -> Sent               what a client is sent when a task is dispatched
    start(kept, sent)     -> (model, scale)     where its local work begins, and a factor of its steps; `kept` is the
                                                client's own memory, None at first
    finish(kept, sent, start, update) -> (kept, update)   what it keeps and sends after the local work
    apply(state, arrival) -> (state, info)      when an update has come back
    tick(state)           -> state              when a round or period of the server ends
    timing(fleet, plan, local) -> (plan, scenario)   the timing that it needs

Tensors are never changed in place: a model in flight is a reference to the tensor that was sent. `state.params` is the
server's model. Memory of a client, and state, consist of tensors, numbers, None, tuples, NamedTuples and dicts by
client, so that they can be checkpointed as they are; a NamedTuple is declared by `storable`.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.learning.replay.local import Local, Update
from sojourn.learning.storable import storable
from sojourn.plan import Plan
from sojourn.scenario import Dispatcher, Scenario
from sojourn.types import Floats


@storable("sent")
class Sent(NamedTuple):
    """What a client is sent."""

    params: Tensor
    """The model."""
    version: int
    """How often the server's model had changed by then."""


class Arrival(NamedTuple):
    """An update that has come back."""

    client: int
    """Who sent it."""
    step: int
    """Updates received before this one."""
    dispatched_step: int
    """Updates received before the model that it was computed on."""
    time: float
    """Server clock."""
    prob: float
    """Probability with which the client had been drawn."""
    weight: float
    """The client's weight q in the objective."""
    sent: Sent
    """What the client had been sent."""
    update: Update
    """What it sends back."""
    factor: float = 1.0
    """How much it counts, by the correction for how often its client's updates come; the mean is one."""

    @property
    def staleness(self) -> int:
        """Updates received in between."""
        return self.step - self.dispatched_step


class Info(NamedTuple):
    """What became of an update."""

    used: bool = True
    """Whether it enters the model, now or with its buffer."""


@dataclass(frozen=True, eq=False)
class Setting:
    """The federation, as far as an algorithm may know it."""

    fleet: Fleet
    """The fleet."""
    plan: Plan
    """The plan."""
    weights: Floats
    """Weight q of every client in the objective; they sum to 1."""
    local: Local
    """The clients' local work."""
    share: Floats | None = None
    """Share of every client of all updates (s); None = not known before."""

    @property
    def clients(self) -> int:
        """Their number (n)."""
        return self.fleet.clients


class Algorithm(Protocol):
    """An algorithm."""

    @property
    def name(self) -> str:
        """Its name in the table of algorithms."""

    @property
    def remembers(self) -> bool:
        """Whether clients keep something from task to task."""

    @property
    def weighs(self) -> bool:
        """Whether it uses the clients' weights in the objective."""

    @property
    def uses_prob(self) -> bool:
        """Whether it uses the probability with which a client was drawn."""

    @property
    def sends(self) -> str:
        """What its clients send: a `gradient`, which the server's step size scales, or a `delta` of models."""

    @property
    def corrects(self) -> bool:
        """Whether it counts updates by `Arrival.factor`, so that a correction can be given."""

    @property
    def correction(self) -> float:
        """Its own correction: 1 = unbiased, 0 = updates count as they come."""

    def init(self, params: Tensor, setting: Setting) -> Any:
        """State at the start."""

    def send(self, state: Any, client: int) -> Sent:
        """What a client is sent."""

    def start(self, kept: Any, sent: Sent) -> tuple[Tensor, float]:
        """Where the client's local work begins, and a factor of its step size."""

    def finish(self, kept: Any, sent: Sent, start: Tensor, update: Update) -> tuple[Any, Update]:
        """What the client keeps and sends."""

    def apply(self, state: Any, arrival: Arrival) -> tuple[Any, Info]:
        """What the server does with an update."""

    def tick(self, state: Any) -> Any:
        """What the server does at the end of a round or period."""

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """The timing that it needs: whom it samples, and how tasks are dispatched."""

    def bits_each_way(self, size: int) -> tuple[int, int]:
        """Bits that a model of `size` parameters takes on its way down and an update on its way up."""


class Standard:
    """What most algorithms do: tasks routed by the plan, the model sent, the local work done, 32 bits a parameter."""

    remembers = False
    weighs = False
    corrects = False
    correction = 0.0
    uses_prob = False

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Clients drawn by the plan, tasks queued."""
        return plan, queued("routed", local)

    def send(self, state: Any, client: int) -> Sent:
        """The server's model."""
        return Sent(state.params, state.version)

    def start(self, kept: Any, sent: Sent) -> tuple[Tensor, float]:
        """The model that was sent."""
        return sent.params, 1.0

    def finish(self, kept: Any, sent: Sent, start: Tensor, update: Update) -> tuple[Any, Update]:
        """The update as it is; nothing is kept."""
        return None, update

    def tick(self, state: Any) -> Any:
        """Nothing."""
        return state

    def bits_each_way(self, size: int) -> tuple[int, int]:
        """32 for each parameter."""
        return 32 * size, 32 * size


def queued(dispatcher: str, local: Local) -> Scenario:
    """A scenario of client queues; local epochs are charged one service time a task."""
    return Scenario(Dispatcher(dispatcher), local_steps=local.steps, one_draw=local.epochs is not None)


def interrupted(name: str, calls: Dispatcher, local: Local) -> Scenario:
    """A scenario of calls that interrupt clients between local steps, of which there must be a number."""
    if local.epochs is not None:
        raise InvalidInput(
            f"{name} interrupts clients between local steps: epochs must not be given, got {local.epochs}; give steps"
        )
    return Scenario(calls, local_steps=local.steps)
