"""Augmentation: random crops and flips of images, which depend only on (task, local step).

`crop(pad=4)` pads an image with zeros and cuts its size out of it anywhere, `flip` mirrors half of them, `crop-flip`
does both. The random numbers are drawn on the CPU; pixels are moved on the device, for many tasks at once.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sojourn.compiled import compiled
from sojourn.errors import InvalidInput
from sojourn.random import MOVE, mix, unit
from sojourn.text import parse_choice
from sojourn.types import Integers

_OPTIONS = {"none": {}, "flip": {}, "crop": {"pad": int}, "crop-flip": {"pad": int}}


@dataclass(frozen=True)
class Augment:
    """How images may be changed at random.

    >>> Augment.parse("crop-flip(pad=2)")
    Augment(pad=2, flip=True)
    """

    pad: int = 0
    """Pixels by which an image may move to each side."""
    flip: bool = False
    """Whether half of the images are mirrored."""

    def __post_init__(self) -> None:
        if self.pad < 0:
            raise InvalidInput(f"augmentation: pad must not be negative, got {self.pad}")

    @classmethod
    def parse(cls, text: str) -> "Augment":
        """Read the text form."""
        name, options = parse_choice("augmentation", text, _OPTIONS)
        pad = options.get("pad", 4) if name.startswith("crop") else 0
        return cls(pad, name.endswith("flip"))

    @property
    def nothing(self) -> bool:
        """Whether images stay as they are."""
        return self.pad == 0 and not self.flip

    def draws(self, keys: list[int], step: int, size: int) -> Integers:
        """Return row and column where each image of each task is cut out, and whether it is mirrored: [3, tasks *
        size].
        """
        return _draws(np.array(keys, dtype=np.int64).view(np.uint64), step, size, self.pad, self.flip)

    def padded(self, images: Tensor) -> Tensor:
        """Return the images with zeros around them."""
        return torch.nn.functional.pad(images, (self.pad,) * 4) if self.pad else images

    def cut(self, padded: Tensor, index: Tensor, draws: Tensor) -> Tensor:
        """Return the images with these numbers, cut and mirrored as drawn."""
        height, width = (length - 2 * self.pad for length in padded.shape[2:])
        down = torch.arange(height, device=padded.device)
        right = torch.arange(width, device=padded.device)
        rows = draws[0, :, None] + down
        columns = draws[1, :, None] + torch.where(draws[2, :, None] > 0, width - 1 - right, right)
        depth = torch.arange(padded.shape[1], device=padded.device)
        return padded[index[:, None, None, None], depth[:, None, None], rows[:, None, :, None], columns[:, None, None]]


@compiled
def _draws(keys: NDArray[np.uint64], step: int, size: int, pad: int, flip: bool) -> Integers:
    found = np.zeros((3, keys.size * size), np.int64)
    for task in range(keys.size):
        stream = mix(keys[task] + MOVE * np.uint64(step + 1))
        for one in range(task * size, (task + 1) * size):
            for axis in range(2):
                stream += MOVE
                found[axis, one] = np.int64(unit(mix(stream)) * (2 * pad + 1))
            stream += MOVE
            found[2, one] = np.int64(flip and unit(mix(stream)) < 0.5)
    return found
