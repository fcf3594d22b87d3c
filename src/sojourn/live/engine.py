"""Engine: what carries tasks to clients and their updates back; the loop decides, the engine only transports.

The loop offers tasks, receives events and says what became of updates. The engine holds one queue per client, hands
tasks over in the order in which they were offered, one at a time (two where a client prefetches), and checks what
clients send: who they are, and the form of an update. A message that fails a check becomes `Rejected` and never reaches
the model.

A task is named by (client, nth, epoch): the client's nth task in the order of dispatch, and how often the server had
been started when the task was sent. After a crash the server may send another task with the same nth, so the epoch
tells the two apart. A client keeps an update until it is told what became of it: `acknowledge` or `refuse`.
"""

from typing import NamedTuple, Protocol

from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.learning.replay.local import Local, Update


class TaskName(NamedTuple):
    """The name of a task."""

    client: int
    """Number of the client in the fleet, from 0."""
    nth: int
    """How many tasks were sent to the client before this one."""
    epoch: int
    """How often the server had been started when the task was sent, from 1."""


class Offer(NamedTuple):
    """A task on its way to a client."""

    name: TaskName
    """The name of the task."""
    params: Tensor
    """The model, flat; it is never changed, so that tasks of one step share it."""
    stats: Tensor | None
    """Its statistics (BatchNorm); None = it has none."""
    step: int
    """Number of updates in the model."""
    step_size: float
    """Step size of the local steps."""
    steps: int
    """Local steps to do; 0 = as many as the client's epochs need."""
    version: int = 0
    """Number of changes of the server's model before this one."""


class Joined(NamedTuple):
    """A client is there, for the first time or again."""

    client: int
    """Its number."""
    held: tuple[TaskName, ...]
    """The tasks that it still holds: in service, or computed and not acknowledged."""
    examples: int = 0
    """Number of examples that it says it holds; 0 = it does not say."""


class Left(NamedTuple):
    """A client is gone: it said so, or its connection broke and it did not come back."""

    client: int
    """Its number."""
    reason: str
    """Why."""


class Asked(NamedTuple):
    """A client has asked for a task, after one was withdrawn that it had not fetched: it is there after all."""

    client: int
    """Its number."""


class Pulled(NamedTuple):
    """A client has received a task."""

    name: TaskName
    """The name of the task."""
    at: float
    """The engine's clock, in seconds: see `Engine.now`."""


class Moving(NamedTuple):
    """A further part of a task, or of its update, is on its way: the client is alive, and its connection is slow."""

    name: TaskName
    """The name of the task."""


class Arrived(NamedTuple):
    """An update has come back."""

    name: TaskName
    """The name of its task."""
    update: Update
    """The update; its tensors have the sizes of the model."""
    service: float
    """Seconds that the client worked on it, by the client's own stopwatch."""
    held: float
    """Seconds from receiving the task to sending the update, by the client's own stopwatch."""
    at: float
    """The engine's clock when all of it was there, in seconds."""
    size: int = 0
    """Bytes of the update on its way; 0 = not known."""


class Rejected(NamedTuple):
    """The engine refused a message of a known client; the client has been told."""

    client: int
    """Its number."""
    name: TaskName | None
    """The task that it was about; None = unknown."""
    reason: str
    """Why, in a few words."""


class TurnedAway(NamedTuple):
    """Somebody was not let in, and has been told; no task and no client of the run is touched by it."""

    who: str
    """Name of the client that it is by its certificate, or that it says it is; empty = nobody knows."""
    place: str
    """The address that it called from."""
    reason: str
    """Why, in a few words."""
    unsaid: int = 0
    """How many others were turned away since the last such event, without an event of their own."""


Event = Joined | Left | Asked | Pulled | Moving | Arrived | Rejected | TurnedAway


class Work(NamedTuple):
    """What every client is told when it joins: numbers, never code."""

    parameters: int
    """Size of the model."""
    statistics: int
    """Size of its statistics."""
    local: Local
    """The local work; its schedule is the server's, which sends a step size with each task."""
    seed: int
    """Seed of the batches of every task."""
    order: str
    """Order of a client's batches: shuffled or independent."""
    prefetch: bool
    """Whether a client may fetch its next task while it works on one."""
    algorithm: str = ""
    """Fingerprint of what clients do with an update before they send it; empty = they send it as it is."""


def plain(work: Work, engine: str) -> Work:
    """Return the work; refuse an algorithm whose clients do more than send their updates, which this engine lacks."""
    if work.algorithm:
        raise InvalidInput(
            f"clients of this algorithm change or remember updates, which the engine {engine} does not do yet; use the "
            "engine grpc, or another algorithm without wrap"
        )
    return work


class Engine(Protocol):
    """Carries tasks and updates. All methods are called from one thread, and none of them blocks except `receive`."""

    def now(self) -> float:
        """Return the engine's clock in seconds; it never goes back."""

    def offer(self, offer: Offer) -> None:
        """Put a task into its client's queue."""

    def withdraw(self, name: TaskName) -> None:
        """Forget a task; if its client has all of it, its update still becomes an event, and gets its answer."""

    def receive(self, timeout: float) -> Event | None:
        """Return the next event; wait at most `timeout` seconds for it; None = nothing yet."""

    def acknowledge(self, names: list[TaskName]) -> None:
        """Tell clients that these updates are safe: they will not be asked for again."""

    def refuse(self, name: TaskName, reason: str) -> None:
        """Tell a client that its update was not used, and why."""

    def expel(self, client: int, reason: str) -> None:
        """Disconnect a client and admit it no more."""

    def stop(self, ended: bool) -> None:
        """Stop; tell all clients that the run has ended, or leave them waiting for the server to come back."""
