"""Federation: everything that is trained and nothing of how: model, examples, who holds them, local work."""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sojourn.data.dataset import Dataset
from sojourn.data.partition import Partition
from sojourn.errors import InvalidInput
from sojourn.train.batches import Batches
from sojourn.train.flat_model import FlatModel
from sojourn.train.local import Local


@dataclass(eq=False)
class Federation:
    """A model and the clients' data, on one device."""

    model: FlatModel
    """The model; its parameters at construction are the first model of every run."""
    dataset: Dataset
    """Examples to learn from and to judge by."""
    partition: Partition
    """Who holds which training examples."""
    local: Local
    """What a client does with a model."""
    seed: int = 0
    """Names the batches of every task."""
    order: str = "shuffled"
    """Order of a client's batches: shuffled or independent."""
    first: Tensor = field(init=False)
    """The first model."""
    first_stats: Tensor = field(init=False)
    """Its statistics."""
    batches: Batches = field(init=False)
    """Which examples a task sees."""

    def __post_init__(self) -> None:
        self.first, self.first_stats = self.model.params.clone(), self.model.stats.clone()
        device, dtype = self.model.params.device, self.model.params.dtype
        self.x = torch.as_tensor(np.array(self.dataset.train_x), dtype=dtype, device=device)
        self.y = torch.as_tensor(np.array(self.dataset.train_y), device=device)
        self.test_x = torch.as_tensor(np.array(self.dataset.test_x), dtype=dtype, device=device)
        self.test_y = torch.as_tensor(np.array(self.dataset.test_y), device=device)
        if int(self.partition.sizes.min()) < 1:
            empty = int(np.argmin(self.partition.sizes))
            raise InvalidInput(f"every client must hold an example, client {empty} has none; use fewer clients")
        self.batches = Batches(self.partition, self.local.batch_size, self.seed, self.order)

    @property
    def clients(self) -> int:
        """Their number."""
        return self.partition.clients

    def short_batches(self) -> NDArray[np.int64]:
        """Clients that hold fewer examples than a batch: their batches are all that they have."""
        return np.flatnonzero(self.partition.sizes < self.local.batch_size)

    def batch(self, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Examples by their numbers."""
        index = torch.from_numpy(rows).to(self.x.device)
        return self.x.index_select(0, index), self.y.index_select(0, index)
