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
    local_steps(state, client) -> number        the local steps of a client's next task, where it sets them
    local_work(local)     -> local              the local work that it needs, such as a proximal term

It also says what kind of method it is (`family` and the facts after it), which `sojourn algorithms` prints.

Tensors are never changed in place, because a model in flight is a reference to the tensor that was sent. `state.params`
is the server's model. The state and a client's memory consist of tensors, numbers, None, tuples, NamedTuples and dicts
by client, so that they can be stored in a checkpoint; declare a NamedTuple by `storable`.
"""

from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.learning.replay.local import Local, Update
from sojourn.learning.storable import storable
from sojourn.plan import Plan
from sojourn.scenario import Dispatcher, Scenario
from sojourn.types import Floats

NOT_SAID = "not stated"


@storable("sent")
class Sent(NamedTuple):
    """What the server sends to a client."""

    params: Tensor
    """The model."""
    version: int
    """Number of changes of the server's model so far."""
    bits: int | None = None
    """Bits that it takes on the way; None = as many as `bits_each_way` says, 0 = the client has this model already."""


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
    def must_remember(self) -> bool:
        """Whether the algorithm breaks if a client that remembers forgets, because the server counts on its memory; a
        live client that is started again forgets, so that such an algorithm does not run live.
        """

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
    def sets_steps(self) -> bool:
        """Whether the algorithm sets the local steps of each task by its state, so that timing depends on the model."""

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

    def local_steps(self, state: Any, client: int) -> int | None:
        """Return the local steps of the client's next task; None = as many as the run says."""

    def local_work(self, local: Local) -> Local:
        """Return the local work that the algorithm needs, from that of the run."""

    def bits_each_way(self, size: int) -> tuple[int, int]:
        """Return the bits of a model of `size` parameters on its way to a client, and of an update on its way back;
        `Sent.bits` and `Update.bits` may say otherwise for a single task.
        """


class Standard:
    """Base with what most algorithms do: the plan routes tasks, clients get the model, a parameter takes 32 bits."""

    @property
    def family(self) -> str:
        """Kind of method: what the server acts on."""
        return NOT_SAID

    @property
    def waits_for(self) -> str:
        """What the server waits for before it changes its model."""
        return NOT_SAID

    @property
    def client_keeps(self) -> str:
        """What a client keeps from one task to the next."""
        return NOT_SAID if self.remembers else "nothing"

    @property
    def server_memory(self) -> str:
        """Most tensors as large as a model in the state, with plain SGD at the server: `n + 2 models`."""
        return NOT_SAID

    @property
    def unbiased(self) -> bool | None:
        """Whether one local step per task and small steps lead to the optimum, whatever the clients' speeds; None =
        not checked.
        """
        return None

    @property
    def waves(self) -> bool:
        """Whether tasks in flight can be computed together, ahead of time; not where timing depends on the model."""
        return True

    @property
    def reference(self) -> str:
        """Where the method was published."""
        return NOT_SAID

    @property
    def uses_prob(self) -> bool:
        """Whether the algorithm uses the probability with which a client was drawn."""
        return False

    @property
    def must_remember(self) -> bool:
        """Whether it breaks if a client that remembers forgets; most do not mind."""
        return False

    remembers = False
    weighs = False
    corrects = False
    correction = 0.0
    needs_sent = True
    sets_steps = False

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

    def local_steps(self, state: Any, client: int) -> int | None:
        """Leave the local steps to the run."""
        return None

    def local_work(self, local: Local) -> Local:
        """Leave the local work as it is."""
        return local

    def bits_each_way(self, size: int) -> tuple[int, int]:
        """Return 32 bits per parameter each way."""
        return 32 * size, 32 * size


def local_work_of(algorithm: Algorithm, local: Local) -> Local:
    """Return the local work that an algorithm needs; one that does not say takes that of the run."""
    own = getattr(algorithm, "local_work", None)
    return local if own is None else own(local)


def everybody(fleet: Fleet, plan: Plan, local: Local) -> tuple[Plan, Scenario]:
    """Return the timing in which every client always has one task: the next goes to the client that has finished."""
    return Plan.uniform(fleet, fleet.clients, plan.step_size), queued("pure", local)


def not_negative(name: str, **options: float) -> None:
    """Raise an error in the name of an algorithm if one of its options is negative or not finite."""
    for key, value in options.items():
        if not (isfinite(value) and value >= 0):
            raise InvalidInput(f"{name}: {key} must be non-negative and finite, got {value}")


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
