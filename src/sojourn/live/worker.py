"""Worker: what a client does with a task; engines call it, and it knows nothing of transport."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from sojourn.errors import InvalidInput
from sojourn.learning.data.dataset import Dataset
from sojourn.learning.data.load import load_dataset
from sojourn.learning.data.partition import Partition
from sojourn.learning.execute.executor import OneByOne
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.replay.federation import Federation
from sojourn.learning.replay.local import Update
from sojourn.learning.run.build import model_for
from sojourn.learning.run.config import TrainConfig
from sojourn.live.engine import Work
from sojourn.random import TaskKeys
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
    version: int = 0
    """Number of changes of the server's model before this one."""

    def on(self, device: torch.device) -> "Task":
        """Return the task with its model on a device; what comes over the network is in main memory."""
        stats = None if self.stats is None else self.stats.to(device)
        return self._replace(params=self.params.to(device), stats=stats)


class Worker(Protocol):
    """Does the local work of one client, or of several clients of one process."""

    @property
    def examples(self) -> int:
        """Number of examples that the client holds; 0 = it does not say."""

    def begin(self, client: int, work: Work) -> None:
        """Take note of the client's number and its work; raise an InvalidInput if the model does not fit."""

    def compute(self, task: Task) -> Update:
        """Do the local work; called in one thread per process, one task at a time.

        The tensors of the update are kept until the server has them safe: they must not be changed afterwards.
        """

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

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self._federation.model.params.device

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of parameters and statistics."""
        return sizes_of(self._federation.model)

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
        task = task.on(self.device)
        job = self._federation.job(task.client, task.nth, task.params, task.stats, task.steps, task.step_size)
        return self._executor.compute([job])[0]

    def service(self, client: int, nth: int) -> float:
        """Return the artificial service time."""
        return 0.0 if self._service is None else self._service(client, nth)


def check_model(model: FlatModel, work: Work) -> None:
    """Raise an error if a model is not of the size that the server trains, or clients do something to updates."""
    if work.algorithm:
        raise InvalidInput(
            "clients of this run do something of their own with an update, this client does not know what; give it "
            "the server's keys algorithm and wrap"
        )
    found = sizes_of(model)
    if found != (work.parameters, work.statistics):
        raise InvalidInput(
            f"the client's model has {found[0]:,} parameters and {found[1]:,} statistics, the server's "
            f"{work.parameters:,} and {work.statistics:,}; give both the same model"
        )


def sizes_of(model: FlatModel) -> tuple[int, int]:
    """Return the numbers of parameters and statistics, which a client tells the server before it is let in."""
    return model.params.numel(), model.stats.numel()


class OwnDataWorker:
    """A client that has a model and data of its own: every task draws its batches from all of them."""

    def __init__(self, model: FlatModel, dataset: Dataset) -> None:
        self.model, self._dataset = model, dataset
        self._clients: dict[int, Federation] = {}

    @classmethod
    def of(cls, config: TrainConfig) -> "OwnDataWorker":
        """Make a worker from the keys of a run: data, model, loss, seed, device."""
        dataset = load_dataset(config.data)
        return cls(model_for(config, dataset, portable=True)[0], dataset)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.model.params.device

    @property
    def examples(self) -> int:
        """Number of training examples."""
        return len(self._dataset.train_y)

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of parameters and statistics."""
        return sizes_of(self.model)

    def begin(self, client: int, work: Work) -> None:
        """Prepare the local work that the server asks for."""
        check_model(self.model, work)
        everything = Partition.by_owner(np.zeros(self.examples, np.int64))
        seed = TaskKeys(work.seed)(client, 0)  # a stream of batches of its own
        self._clients[client] = Federation(
            self.model, self._dataset, everything, replace(work.local, schedule=Schedule()), seed, work.order
        )

    def compute(self, task: Task) -> Update:
        """Do the local work."""
        mine, task = self._clients[task.client], task.on(self.device)
        job = mine.job(0, task.nth, task.params, task.stats, task.steps, task.step_size)
        return OneByOne(mine.model, mine.examples, mine.local).compute([job])[0]

    def service(self, client: int, nth: int) -> float:
        """Return 0: the work takes as long as it takes."""
        return 0.0


class LoopWorker:
    """A client whose training loop is its own: `fit(module, task)` trains the module in place and returns a loss.

    The update is the change of the model. `task` is a Task, with the step size and the number of local steps that the
    server proposes.
    """

    def __init__(self, module: nn.Module, fit: Callable[[nn.Module, Task], float], examples: int = 0) -> None:
        self.model, self._fit, self._examples = FlatModel(module), fit, examples

    @property
    def examples(self) -> int:
        """Number of training examples, if the client says it."""
        return self._examples

    @property
    def device(self) -> torch.device:
        """Where the module is."""
        return self.model.params.device

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of parameters and statistics."""
        return sizes_of(self.model)

    def begin(self, client: int, work: Work) -> None:
        """Check that the model is the server's."""
        check_model(self.model, work)

    def compute(self, task: Task) -> Update:
        """Call the loop, and return how the model has changed."""
        task = task.on(self.device)
        module = self.model.at(task.params, task.stats if task.stats is not None else self.model.stats)
        loss = self._fit(module, task)
        delta = self.model.params - task.params
        stats = None if task.stats is None else self.model.stats.clone()
        value = torch.tensor(float("nan") if loss is None else float(loss), dtype=delta.dtype)
        return Update(None, delta, task.step_size, max(1, task.steps), value.nan_to_num(), stats)

    def service(self, client: int, nth: int) -> float:
        """Return 0: the work takes as long as it takes."""
        return 0.0
