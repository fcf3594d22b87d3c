"""Federation: everything that is trained and nothing of how: model, examples, who holds them, local work."""

from dataclasses import dataclass, field
from typing import Any

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
        device = self.model.params.device
        self.x = self._placed(self.dataset.train_x)
        self.y = torch.as_tensor(np.array(self.dataset.train_y), device=device)
        self.test_x = self._placed(self.dataset.test_x)
        self.test_y = torch.as_tensor(np.array(self.dataset.test_y), device=device)
        if int(self.partition.sizes.min()) < 1:
            empty = int(np.argmin(self.partition.sizes))
            raise InvalidInput(f"every client must hold an example, client {empty} has none; use fewer clients")
        self.batches = Batches(self.partition, self.local.batch_size, self.seed, self.order)
        self.pixels = self.x.dtype == torch.uint8
        self._affine: tuple[Tensor, Tensor] | None = self._scale()

    def _placed(self, examples: NDArray[Any]) -> Tensor:
        """On the device, pixels as they are (a quarter of the memory), everything else as the model's numbers."""
        dtype = torch.uint8 if examples.dtype == np.uint8 else self.model.params.dtype
        return torch.as_tensor(np.array(examples), dtype=dtype, device=self.model.params.device)

    def _scale(self) -> tuple[Tensor, Tensor] | None:
        """(pixel/255 - mean)/std as pixel * factor + offset, by channel; None where they are used as they are."""
        if self.dataset.mean is None or self.dataset.std is None:
            return None
        mean, std = (np.asarray(values, dtype=np.float64) for values in (self.dataset.mean, self.dataset.std))
        shape = (-1, *[1] * (self.x.ndim - 2))
        factor, offset = (torch.from_numpy(values.reshape(shape)) for values in (1 / (255 * std), -mean / std))
        return factor.to(self.model.params), offset.to(self.model.params)

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
        x = self.x.index_select(0, index)
        return self.scaled(x) if self.pixels else x, self.y.index_select(0, index)

    def scaled(self, pixels: Tensor) -> Tensor:
        """Pixels as the model takes them."""
        values = pixels.to(self.model.params.dtype)
        if self._affine is None:
            return values
        factor, offset = self._affine
        return torch.addcmul(offset, values, factor)
