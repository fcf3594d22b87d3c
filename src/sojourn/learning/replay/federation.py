"""Federation: what is trained (model, examples, who holds them, local work), independent of the algorithm."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.learning.data.dataset import Dataset
from sojourn.learning.data.partition import Partition
from sojourn.learning.execute.examples import Examples
from sojourn.learning.execute.executor import Job
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.execute.losses import Metric
from sojourn.learning.replay.batches import Batches
from sojourn.learning.replay.local import Local
from sojourn.random import TaskKeys


@dataclass(eq=False)
class Federation:
    """A model and the clients' data, on one device."""

    model: FlatModel
    """The model; its parameters at construction are the first model of every run."""
    dataset: Dataset
    """Training and test examples."""
    partition: Partition
    """Who holds which training examples."""
    local: Local
    """What a client does with a model."""
    seed: int = 0
    """Seed of the batches of every task."""
    order: str = "shuffled"
    """Order of a client's batches: shuffled or independent."""
    shared: Examples | None = None
    """The dataset on the model's device, if it is there already for another run."""
    metrics: tuple[Metric, ...] = ()
    """Metrics by which the model is evaluated, besides its loss."""
    first: Tensor = field(init=False)
    """The first model."""
    first_stats: Tensor = field(init=False)
    """Its statistics."""
    examples: Examples = field(init=False)
    """The dataset on the model's device."""
    batches: Batches = field(init=False)
    """The batches of every task."""
    keys: TaskKeys = field(init=False)
    """Random keys of tasks, for augmentation and dropout."""

    def __post_init__(self) -> None:
        self.first, self.first_stats = self.model.params.clone(), self.model.stats.clone()
        self.examples = self.shared or Examples(self.dataset, self.model.params.dtype, self.model.params.device)
        if int(self.partition.sizes.min()) < 1:
            empty = int(np.argmin(self.partition.sizes))
            raise InvalidInput(f"every client must hold an example, client {empty} has none; use fewer clients")
        self.batches = Batches(self.partition, self.local.batch_size, self.seed, self.order)
        self.keys = TaskKeys(self.seed)

    @property
    def clients(self) -> int:
        """Number of clients."""
        return self.partition.clients

    def job(self, client: int, nth: int, start: Tensor, stats: Tensor | None, steps: int, step_size: float) -> Job:
        """Return the local work of a client's nth task from the model `start`; `steps` is ignored where local work is
        counted in epochs.
        """
        most, doing = self.local.steps_of(self.batches.held[client]), self.steps_of(client, steps)
        rows = list(self.batches.of(client, nth, doing, most))
        return Job(start, stats, rows, step_size, self.keys(client, nth))

    def steps_of(self, client: int, work: int) -> int:
        """Return the local steps of a client's task: those of its work, or of its epochs where these are counted."""
        return work if self.local.epochs is None else self.local.steps_of(self.batches.held[client])

    def short_batches(self) -> NDArray[np.int64]:
        """Clients that hold fewer examples than a batch, so that each of their batches holds all of them."""
        return np.flatnonzero(self.partition.sizes < self.local.batch_size)
