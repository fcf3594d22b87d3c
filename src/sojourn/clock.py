"""Clock: timing that is computed task by task, because it depends on what training computes.

`timing` implements it, and `learning` receives one. Most runs need none: their timing is known as a Trace before they
begin.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

Steps = Callable[[int], int | None]
"""Returns the local steps of a client's next task; None = as many as the scenario says."""


class Task(NamedTuple):
    """One task that has come back to the server, or that never will."""

    slot: int
    """Its slot among the tasks in flight; the next task sent takes it over."""
    client: int
    """The client that had it."""
    prob: float
    """Probability with which the client was drawn; NaN = the client was named, not drawn."""
    dispatched_at: float
    """Server clock when the task was dispatched, in seconds."""
    started_at: float
    """When the client began to serve it."""
    applied_at: float
    """Server clock now, in seconds."""
    dispatched_step: int
    """Number of updates in the model that the task carries."""
    applied_step: int
    """Updates applied before this one; -1 = never."""
    work: int
    """Local steps done."""
    applied: bool
    """False = it was lost or dropped."""
    finished_at: float = float("nan")
    """When the client finished serving it; NaN = it never did."""


class Clock(Protocol):
    """Tells which task ends next, and accepts the task that is sent in its place."""

    @property
    def step(self) -> int:
        """Updates applied so far."""

    def started_at(self, slot: int) -> float:
        """When the client began to serve the task in this slot; NaN = not yet."""

    def arrive(self) -> Task:
        """Return the next task that ends; the caller must then call `send`."""

    def send(self, client: int | None = None, work: int | Steps | None = None) -> int:
        """Dispatch the next task to `client`, or to the client that the dispatcher chooses; return the client.

        `work` is its number of local steps, or says it once the client is known.
        """

    @property
    def sent_work(self) -> int:
        """Local steps of the task that was sent last."""

    def in_flight(self) -> Mapping[str, Any]:
        """Return the tasks that have not ended, as columns of a Trace."""
