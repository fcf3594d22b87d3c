"""Examples: a dataset on a device, and how its rows become input of a model."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sojourn.data.dataset import Dataset

Integers = NDArray[np.int64]


class Examples:
    """Training and test examples on one device; several runs may share them."""

    def __init__(self, dataset: Dataset, dtype: torch.dtype, device: torch.device | None = None) -> None:
        self.dataset = dataset
        self.x, self.test_x = (
            torch.as_tensor(np.array(part), dtype=dtype, device=device) for part in (dataset.train_x, dataset.test_x)
        )
        self.y, self.test_y = (
            torch.as_tensor(np.array(part), device=device) for part in (dataset.train_y, dataset.test_y)
        )

    def batch(self, rows: Integers, key: int, step: int) -> tuple[Tensor, Tensor]:
        """Examples by their numbers, for the step of a task that has this key."""
        index = torch.from_numpy(rows).to(self.x.device)
        return self.x.index_select(0, index), self.y.index_select(0, index)

    def stack(self, rows: list[Integers], keys: list[int], step: int) -> tuple[Tensor, Tensor]:
        """The same for several tasks with batches of one size: their number comes first in the shape."""
        index = torch.from_numpy(np.concatenate(rows)).to(self.x.device)
        x, y = self.x.index_select(0, index), self.y.index_select(0, index)
        return x.view(len(rows), -1, *x.shape[1:]), y.view(len(rows), -1, *y.shape[1:])
