"""Your own model and data: two functions that the command line finds by name.

    PYTHONPATH=examples sojourn train fleet.csv --data own_task:two_moons --model own_task:network --out run/

A data function takes nothing and returns a Dataset; with `owner` in it, `--partition natural` gives every client its
own examples. A model function takes the Dataset and returns a PyTorch module from examples to logits, or a module with
its own method `loss(x, y)`.
"""

import numpy as np
from torch import nn

from sojourn.learning.data.dataset import Dataset


def two_moons(examples: int = 600, clients: int = 10) -> Dataset:
    """Two interleaved half circles with noise; each client holds an arc of them."""
    rng = np.random.default_rng(0)
    angle = np.sort(rng.uniform(0, np.pi, (2, examples)), axis=1)
    upper = np.stack([np.cos(angle[0]), np.sin(angle[0])], axis=1)
    lower = np.stack([1 - np.cos(angle[1]), 0.5 - np.sin(angle[1])], axis=1)
    x = np.concatenate([upper, lower]) + 0.1 * rng.standard_normal((2 * examples, 2))
    y = np.repeat([0, 1], examples)
    owner = np.tile(np.arange(examples) * clients // examples, 2)
    test = np.arange(2 * examples) % 5 == 0
    return Dataset("two moons", x[~test], y[~test], x[test], y[test], classes=2, owner=owner[~test])


def network(dataset: Dataset) -> nn.Module:
    """A small network with two hidden layers."""
    width = dataset.train_x.shape[1]
    return nn.Sequential(nn.Linear(width, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, dataset.classes))
