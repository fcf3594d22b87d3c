"""Points of a short training: where the constants are measured."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sojourn.learning.replay.replay import Replay
from sojourn.learning.run.along import updates_of
from sojourn.learning.run.build import Built
from sojourn.trace import Trace

MARKS = 20  # models of the second half of a training that are averaged


class Place(NamedTuple):
    """A point of a training."""

    step: int
    """Updates received before."""
    time: float
    """Virtual time."""
    params: Tensor
    """The server's model."""
    stats: Tensor
    """Its statistics."""


def places(built: Built, trace: Trace, points: int, watch: Callable[[], None] | None = None) -> Iterator[Place]:
    """The first model of the run, its last, and others at even distances; then the mean of its second half.

    The mean, of which only the loss is of interest, has often a lower loss than any model on the way. Its step is -1.
    """
    total = updates_of(built, trace)
    replay = Replay(built.algorithm, built.federation, trace, built.setting, built.executor, total=total)
    stops = set(np.linspace(0, total, points).round().astype(int).tolist())
    marks = set(np.linspace(total / 2, total, MARKS).round().astype(int).tolist())
    mean, many = torch.zeros_like(replay.params), 0
    for step in sorted(stops | marks):
        replay.advance(step)
        if step in stops:
            yield Place(step, replay.time, replay.params, replay.stats)
        if step in marks:
            many += 1
            mean = torch.lerp(mean, replay.params, 1 / many)
        if watch is not None:
            watch()
    yield Place(-1, replay.time, mean, replay.stats)
