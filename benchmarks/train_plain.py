"""What every side trains, and the plain PyTorch loop. It needs only torch, because it runs next to every peer."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cache
from importlib.metadata import version
from time import process_time
from typing import NamedTuple

import torch
from torch import Tensor, nn

CLIENTS = 100
HELD = 64  # number of examples of a client
BATCH = 32
STEP_SIZE = 0.02


@cache
def examples() -> tuple[Tensor, Tensor]:
    """Noisy 28x28 images of ten classes; client i holds those from i times HELD on."""
    chance = torch.Generator().manual_seed(1)
    y = torch.randint(10, (CLIENTS * HELD,), generator=chance)
    mean = 0.1 * torch.randn(10, 1, 28, 28, generator=chance)
    return mean[y] + torch.randn(len(y), 1, 28, 28, generator=chance), y


def cnn() -> nn.Module:
    """Two convolutions and three linear layers (LeNet-5), 61,706 parameters."""
    torch.manual_seed(1)
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )


def mlp() -> nn.Module:
    """One hidden layer of 64, 50,890 parameters."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))


class Task(NamedTuple):
    """An update, as the plain loop knows it in advance."""

    place: int
    """The slot of its snapshot; the next task sent takes over the slot."""
    rows: Tensor
    """Examples of its batch."""
    step_size: float
    """Step size of the server, eta / (n p)."""


class Plain:
    """Asynchronous SGD as one would write it: a list of cloned parameters for every task in flight."""

    name = "plain PyTorch loop"

    def __init__(self, module: nn.Module, tasks: Sequence[Task]) -> None:
        self.x, self.y = examples()
        self.worker = deepcopy(module)
        self.server = [parameter.detach().clone() for parameter in module.parameters()]
        self.pinned = [self._snapshot()] * (1 + max(task.place for task in tasks))
        self.tasks, self.done = tasks, 0

    def advance(self, steps: int) -> int:
        """Continue for this many updates."""
        worker = list(self.worker.parameters())
        for task in self.tasks[self.done : self.done + steps]:
            with torch.no_grad():
                for mine, sent in zip(worker, self.pinned[task.place], strict=True):
                    mine.copy_(sent)
            self.worker.zero_grad()
            x, y = self.x.index_select(0, task.rows), self.y.index_select(0, task.rows)
            nn.functional.cross_entropy(self.worker(x), y).backward()
            for weights, mine in zip(self.server, worker, strict=True):
                weights.add_(mine.grad, alpha=-task.step_size)
            self.pinned[task.place] = self._snapshot()
        self.done += steps
        return steps

    def _snapshot(self) -> list[Tensor]:
        return [weights.clone() for weights in self.server]


def random_tasks(many: int) -> list[Task]:
    """Return updates of random clients, with one task per client in flight, for environments without sojourn."""
    chance = torch.Generator().manual_seed(2)
    places = torch.randint(CLIENTS, (many,), generator=chance).tolist()
    return [Task(place, place * HELD + torch.randperm(HELD, generator=chance)[:BATCH], STEP_SIZE) for place in places]


def beside(
    name: str,
    package: str,
    peer: Callable[[int], object],
    rounds: int,
    updates: int,
    clock: Callable[[], float] = process_time,
) -> None:
    """Time rounds of updates of a peer and of the plain loop in turns; the first round is not counted.

    Prints a row: side, version, best time of an update and of a gradient of the plain loop, their ratio.
    """
    plain = Plain(cnn(), random_tasks((rounds + 1) * updates))
    taken: list[list[float]] = [[], []]
    for _ in range(rounds + 1):
        for seconds, advance in zip(taken, (peer, plain.advance), strict=True):
            began = clock()
            advance(updates)
            seconds.append((clock() - began) / updates)
    theirs, ours = (min(seconds[1:]) for seconds in taken)
    times = f"{theirs * 1e3:,.3g} ms | {ours * 1e3:.3g} ms" if theirs < 1 else f"{theirs:.3g} s | {ours * 1e3:.3g} ms"
    print(f"| {name} | {version(package)} | {times} | {theirs / ours:.3g} |", flush=True)
