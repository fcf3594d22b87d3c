"""Worker: what a client does with a task; engines call it, and it knows nothing of transport."""

from typing import NamedTuple, Protocol

from torch import Tensor

from sojourn.learning.replay.local import Update
from sojourn.live.engine import Work


class Task(NamedTuple):
    """A task as a client receives it."""

    client: int
    """The client's number in the fleet."""
    nth: int
    """How many tasks were sent to the client before this one."""
    step: int
    """Number of updates in the model."""
    params: Tensor
    """The model, flat."""
    stats: Tensor | None
    """Its statistics (BatchNorm); None = it has none."""
    step_size: float
    """Step size of the local steps."""
    steps: int
    """Local steps to do; 0 = as many as the client's epochs need."""


class Worker(Protocol):
    """Does the local work of one client, or of several clients of one process."""

    @property
    def examples(self) -> int:
        """Number of examples that the client holds; 0 = it does not say."""

    def begin(self, client: int, work: Work) -> None:
        """Take note of the client's number and its work; raise an InvalidInput if the model does not fit."""

    def compute(self, task: Task) -> Update:
        """Do the local work; called in one thread per process, one task at a time."""

    def service(self, client: int, nth: int) -> float:
        """Return how many seconds the service of a task lasts at least; 0 = as long as the work takes."""
