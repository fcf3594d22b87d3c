"""Flying: a task in flight, when its client worked on it, and its row in the trace."""

from math import inf, isnan, nan
from typing import NamedTuple

from sojourn.learning.algorithms.base import Sent
from sojourn.live.engine import Arrived, TaskName

QUEUED, IN_HAND, UNDECIDED = range(3)  # where a task is


class Flying(NamedTuple):
    """A task in flight."""

    name: TaskName
    """Its name."""
    sent: Sent
    """What it carries; after a restart the model is gone, and only its version is known."""
    dispatched_at: float
    """Time of dispatch."""
    dispatched_step: int
    """Number of updates in its model."""
    prob: float
    """The client's share as believed at dispatch."""
    pulled_at: float = nan
    """Time at which the client received it; NaN = not yet, or before a restart."""
    deadline: float = inf
    """Time at which it is given up."""
    place: int = QUEUED
    """Where it is: in the engine's queue, in its client's hands, or after a restart undecided until the client says."""


def waiting(flying: Flying) -> bool:
    """Whether a task waits in the engine's queue: its client has not fetched it yet."""
    return flying.place == QUEUED


def service_of(flying: Flying, event: Arrived, at: float) -> tuple[float, float]:
    """Return when the client began and ended the service, on the server's clock.

    The client says how long it held the task and how long it worked. What remains of the time since it received the
    task is travel, half of it each way; what it held without working was waiting, before the service.
    """
    travel = 0.0 if isnan(flying.pulled_at) else max(0.0, at - flying.pulled_at - event.held)
    ended = at - travel / 2
    return max(flying.dispatched_at, ended - event.service), ended


def row_of(
    flying: Flying, began: float, ended: float, at: float, step: int, work: int, fate: int
) -> tuple[int | float, ...]:
    """Return a row of the trace, in the order of its columns."""
    client, dispatched = flying.name.client, flying.dispatched_at
    return (client, flying.prob, dispatched, began, ended, at, flying.dispatched_step, step, work, fate)
