"""Worker: what a client does with a task; engines call it, and it knows nothing of transport."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Protocol

from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.learning.execute.executor import OneByOne
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.replay.federation import Federation
from sojourn.learning.replay.local import Update
from sojourn.live.engine import Work
from sojourn.schedule import Schedule


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


class FederationWorker:
    """Clients of a federation whose data this process has: each computes on its own part, as in a simulated run.

    For the same task it computes the same bits as the trainer that replays the recorded trace.
    """

    def __init__(self, federation: Federation, service: Callable[[int, int], float] | None = None) -> None:
        """`service` returns the artificial service time of a client's nth task in seconds; None = none."""
        self._federation, self._service = federation, service
        self._executor = OneByOne(federation.model, federation.examples, federation.local)

    @property
    def examples(self) -> int:
        """Return 0: it depends on the client."""
        return 0

    def begin(self, client: int, work: Work) -> None:
        """Check that model and local work are those of the server."""
        mine = self._federation
        check_model(mine.model, work)
        if not 0 <= client < mine.clients:
            raise InvalidInput(f"the data have {mine.clients} clients, this one is number {client}; give them more")
        same = (work.seed, work.order) == (mine.seed, mine.order)
        if not same or replace(work.local, schedule=Schedule()) != replace(mine.local, schedule=Schedule()):
            raise InvalidInput("the client's local work differs from the server's; use the same run file for both")

    def compute(self, task: Task) -> Update:
        """Do the local work on the client's own examples."""
        job = self._federation.job(task.client, task.nth, task.params, task.stats, task.steps, task.step_size)
        return self._executor.compute([job])[0]

    def service(self, client: int, nth: int) -> float:
        """Return the artificial service time."""
        return 0.0 if self._service is None else self._service(client, nth)


def check_model(model: FlatModel, work: Work) -> None:
    """Raise an error if a model is not of the size that the server trains."""
    found = (model.params.numel(), model.stats.numel())
    if found != (work.parameters, work.statistics):
        raise InvalidInput(
            f"the client's model has {found[0]:,} parameters and {found[1]:,} statistics, the server's "
            f"{work.parameters:,} and {work.statistics:,}; give both the same model"
        )
