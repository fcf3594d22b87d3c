"""Algorithm: what an algorithm must define, independent of the clock and of the model.

An algorithm is a frozen dataclass. Its fields are its hyper-parameters, its methods are pure functions of an explicit
state:

    init(params, setting) -> state              at the start
    send(state, client)   -> Sent               what a client is sent when a task is dispatched
    start(kept, sent)     -> (model, scale)     where its local work begins, and a factor of its steps; `kept` is the
                                                client's own memory, None at first
    finish(kept, sent, start, update) -> (kept, update)   what it keeps and sends after the local work
    apply(state, arrival) -> (state, info)      when an update has come back
    tick(state)           -> state              when a round or period of the server ends
    timing(fleet, plan, local) -> (plan, scenario)   the timing that it needs

Tensors are never changed in place, because a model in flight is a reference to the tensor that was sent. `state.params`
is the server's model. The state and a client's memory consist of tensors, numbers, None, tuples, NamedTuples and dicts
by client, so that they can be stored in a checkpoint; declare a NamedTuple by `storable`.
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
    """What the server sends to a client."""

    params: Tensor
    """The model."""
    version: int
    """Number of changes of the server's model so far."""


class Arrival(NamedTuple):
    """An update that has come back to the server."""

    client: int
    """The client that sent it."""
    step: int
    """Number of updates received before this one."""
    dispatched_step: int
    """Number of updates that the server had received when it sent the model."""
    time: float
    """Server clock."""
    prob: float
    """Probability with which the client was drawn."""
    weight: float
    """The client's weight q in the objective."""
    sent: Sent
    """What the server had sent to the client."""
    update: Update
    """What the client sends back."""
    factor: float = 1.0
    """How much the update counts: the correction for how often its client's updates arrive, with mean one."""

    @property
    def staleness(self) -> int:
        """Number of updates received between sending the model and this update."""
        return self.step - self.dispatched_step


class Info(NamedTuple):
    """What the server did with an update."""

    used: bool = True
    """Whether the update enters the model, now or later with its buffer."""


@dataclass(frozen=True, eq=False)
class Setting:
    """What an algorithm may know about the federation."""

    fleet: Fleet
    """The fleet."""
    plan: Plan
    """The plan."""
    weights: Floats
    """Weight q of every client in the objective; the weights sum to 1."""
    local: Local
    """The clients' local work."""
    share: Floats | None = None
    """Every client's share of all updates (s); None = not known in advance."""

    @property
    def clients(self) -> int:
        """Number of clients (n)."""
        return self.fleet.clients


class Algorithm(Protocol):
    """What an algorithm must define. The server calls `init` once, `send` for each task and `apply` for each update."""

    @property
    def name(self) -> str:
        """The name of the algorithm."""

    @property
    def remembers(self) -> bool:
        """Whether clients keep something from one task to the next."""

    @property
    def weighs(self) -> bool:
        """Whether the algorithm uses the clients' weights in the objective."""

    @property
    def uses_prob(self) -> bool:
        """Whether the algorithm uses the probability with which a client was drawn."""

    @property
    def sends(self) -> str:
        """What clients send: a `gradient`, which the server's step size scales, or a `delta`, the change of their
        model.
        """

    @property
    def needs_sent(self) -> bool:
        """Whether `apply` uses the model that was sent, `Arrival.sent.params`; a live server that was killed has only
        its version, and sends such tasks again.
        """

    @property
    def corrects(self) -> bool:
        """Whether the algorithm multiplies updates by `Arrival.factor`, so that a plan can set the correction."""

    @property
    def correction(self) -> float:
        """The algorithm's own correction: 1 = unbiased, 0 = all updates count alike."""

    def init(self, params: Tensor, setting: Setting) -> Any:
        """Return the state at the start; `params` is the first model as one flat tensor."""

    def send(self, state: Any, client: int) -> Sent:
        """What the server sends to a client."""

    def start(self, kept: Any, sent: Sent) -> tuple[Tensor, float]:
        """Return the model from which the client's local work begins, and a factor of its step size."""

    def finish(self, kept: Any, sent: Sent, start: Tensor, update: Update) -> tuple[Any, Update]:
        """Return what the client keeps, and the update that it sends."""

    def apply(self, state: Any, arrival: Arrival) -> tuple[Any, Info]:
        """Return the new state after an update, and whether the update was used."""

    def tick(self, state: Any) -> Any:
        """Return the new state at the end of a round or period of the server."""

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Return the plan and scenario that the algorithm needs: whom to sample, and how to dispatch tasks."""

    def bits_each_way(self, size: int) -> tuple[int, int]:
        """Return the bits of a model of `size` parameters on its way to a client, and of an update on its way back."""


class Standard:
    """Base with what most algorithms do: the plan routes tasks, clients get the model, a parameter takes 32 bits."""

    remembers = False
    weighs = False
    corrects = False
    correction = 0.0
    uses_prob = False
    needs_sent = True

    def timing(self, fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
        """Draw clients by the plan, and let tasks queue."""
        return plan, queued("routed", local)

    def send(self, state: Any, client: int) -> Sent:
        """Send the server's model."""
        return Sent(state.params, state.version)

    def start(self, kept: Any, sent: Sent) -> tuple[Tensor, float]:
        """Start from the model that was sent."""
        return sent.params, 1.0

    def finish(self, kept: Any, sent: Sent, start: Tensor, update: Update) -> tuple[Any, Update]:
        """Send the update as it is, and keep nothing."""
        return None, update

    def tick(self, state: Any) -> Any:
        """Do nothing."""
        return state

    def bits_each_way(self, size: int) -> tuple[int, int]:
        """Return 32 bits per parameter each way."""
        return 32 * size, 32 * size


def queued(dispatcher: str, local: Local) -> Scenario:
    """Return a scenario with client queues; a task with local epochs takes one service time."""
    return Scenario(Dispatcher(dispatcher), local_steps=local.steps, one_draw=local.epochs is not None)


def interrupted(name: str, calls: Dispatcher, local: Local) -> Scenario:
    """Return a scenario in which calls interrupt clients between local steps; `local` must have a number of steps."""
    if local.epochs is not None:
        raise InvalidInput(
            f"{name} interrupts clients between local steps: epochs must not be given, got {local.epochs}; give steps"
        )
    return Scenario(calls, local_steps=local.steps)
