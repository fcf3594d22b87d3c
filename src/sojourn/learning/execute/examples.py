"""Examples: a dataset on a device, and how its rows become the input of a model."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.learning.data.dataset import Dataset
from sojourn.learning.execute.augment import Augment
from sojourn.types import Integers


class Examples:
    """Training and test examples on one device; several runs may share them."""

    def __init__(
        self,
        dataset: Dataset,
        dtype: torch.dtype,
        device: torch.device | None = None,
        augment: Augment | None = None,
        integers: bool = True,
    ) -> None:
        """With `integers`, integers stay integers, for a model with embeddings; without it they become floats."""
        self.dataset, self._dtype, self._device = dataset, dtype, device or torch.device("cpu")
        self._integers = integers
        self._augment = augment or Augment()
        if not self._augment.nothing and dataset.train_x.ndim != 4:
            shape = dataset.train_x.shape[1:]
            raise InvalidInput(f"augmentation needs images, dataset {dataset.name} has examples of shape {shape}")
        self._pixels = dataset.train_x.dtype == np.uint8
        self._affine = self._scale()
        self.y, self.test_y = (
            torch.as_tensor(np.array(part), device=device) for part in (dataset.train_y, dataset.test_y)
        )
        self.x, self.test_x = self._placed(dataset.train_x), self._placed(dataset.test_x)
        self._padded = self._augment.padded(self.x)

    @property
    def augmented(self) -> bool:
        """Whether training examples are augmented at random."""
        return not self._augment.nothing

    def _placed(self, examples: NDArray[Any]) -> Tensor:
        """Put examples on the device: pixels and integers as they are, everything else in the model's dtype."""
        kept = {np.dtype(np.uint8): torch.uint8, np.dtype(np.int64): torch.int64 if self._integers else self._dtype}
        dtype = kept.get(examples.dtype, self._dtype)
        return torch.as_tensor(np.array(examples), dtype=dtype, device=self._device)

    def _scale(self) -> tuple[Tensor, Tensor] | None:
        """Return (pixel/255 - mean)/std as pixel * factor + offset, by channel; None if pixels are not scaled."""
        dataset = self.dataset
        if dataset.mean is None or dataset.std is None:
            return None
        mean, std = (np.asarray(values, dtype=np.float64) for values in (dataset.mean, dataset.std))
        shape = (-1, *[1] * (dataset.train_x.ndim - 2))
        factor, offset = (torch.from_numpy(values.reshape(shape)) for values in (1 / (255 * std), -mean / std))
        return factor.to(self._device, self._dtype), offset.to(self._device, self._dtype)

    def scaled(self, x: Tensor) -> Tensor:
        """Return the examples as the model takes them."""
        if not self._pixels:
            return x
        values = x.to(self._dtype)
        return values if self._affine is None else torch.addcmul(self._affine[1], values, self._affine[0])

    def batch(self, rows: Integers, key: int, step: int) -> tuple[Tensor, Tensor]:
        """Return the examples with these numbers, for a local step of the task that has this key."""
        if self._augment.nothing and not self._pixels:  # fast path of the usual small case
            index = torch.from_numpy(rows).to(self._device)
            return self.x.index_select(0, index), self.y.index_select(0, index)
        x, y = self.stack([rows], [key], step)
        return x[0], y[0]

    def stack(self, rows: list[Integers], keys: list[int], step: int) -> tuple[Tensor, Tensor]:
        """Return the same for several tasks with batches of one size; the first axis is the task."""
        numbers = np.concatenate(rows)
        if self._augment.nothing:
            index = self._sent(numbers)
            x = self.x.index_select(0, index)
        else:
            index, *draws = self._sent(np.vstack([numbers, self._augment.draws(keys, step, rows[0].size)])).unbind()
            x = self._augment.cut(self._padded, index, torch.stack(draws))
        x, y = self.scaled(x), self.y.index_select(0, index)
        return x.view(len(rows), -1, *x.shape[1:]), y.view(len(rows), -1, *y.shape[1:])

    def _sent(self, numbers: Integers) -> Tensor:
        """Copy to the device without waiting for it."""
        here = torch.from_numpy(numbers)
        return here.pin_memory().to(self._device, non_blocking=True) if self._device.type == "cuda" else here
