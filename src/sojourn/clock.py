"""Clock: timing that is asked task by task, where it depends on what training computes.

`timing` implements it, `learning` is handed one. Most runs need none: their timing is a Trace before they begin.
"""

from typing import NamedTuple, Protocol


class Task(NamedTuple):
    """One task that has come back, or never will."""

    slot: int
    """Its place among the tasks in flight, which the next one sent takes over."""
    client: int
    """Who had it."""
    prob: float
    """Probability with which the client was drawn; NaN = it was named."""
    dispatched_at: float
    """Server clock when it left."""
    started_at: float
    """When the client began to serve it."""
    applied_at: float
    """Server clock now."""
    dispatched_step: int
    """Updates applied before the model that it carries."""
    applied_step: int
    """Updates applied before this one; -1 = never."""
    work: int
    """Local steps done."""
    applied: bool
    """False = it was lost or dropped."""


class Clock(Protocol):
    """Says which task ends next, and takes the one sent in its place."""

    @property
    def step(self) -> int:
        """Updates applied so far."""

    def started_at(self, slot: int) -> float:
        """When the client began to serve the task in this slot; NaN = not yet."""

    def arrive(self) -> Task:
        """The next task that ends; `send` must follow."""

    def send(self, client: int | None = None, work: int | None = None) -> int:
        """Dispatch the next task: to `client`, or to whom the dispatcher chooses; returns the client."""
