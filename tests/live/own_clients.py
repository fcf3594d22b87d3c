"""Clients from Python with objects, for processes of their own."""

import json
import sys

import numpy as np
import torch
from torch import nn

import sojourn.live


def net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Linear(3, 2)


def examples(client: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(client).standard_normal((200, 3)).astype(np.float32)
    return x, (x[:, 0] > 0).astype(np.int64)


def fit(module: nn.Module, task: object) -> float:
    """One step of SGD, as somebody's own training loop would do it."""
    x, y = (torch.from_numpy(one) for one in examples(1))
    optimiser = torch.optim.SGD(module.parameters(), lr=task.step_size)
    loss = nn.functional.cross_entropy(module(x), y)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return loss.item()


if __name__ == "__main__":
    name, address = sys.argv[1:]
    how = {"data": examples(0)} if name == "data" else {"fit": fit}
    print(json.dumps(sojourn.live.client(address, net(), name=name, give_up=60.0, **how)))
