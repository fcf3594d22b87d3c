r"""Your own data and model: predict the next letters by an embedding; one writer per client.

Run it:   python examples/extending/own_text.py
Train it: PYTHONPATH=examples/extending sojourn train fleet.csv --data 'own_text:letters(writers=10)' \
            --model 'own_text:Letters(width=16)' --metrics perplexity ...
"""

import numpy as np
import torch
from torch import nn

from sojourn import Dataset

LETTERS = "abcdefgh "
LENGTH = 12


def letters(writers: int = 10, lines: int = 40, seed: int = 0) -> Dataset:
    """Return lines of letters as integers; each writer has their own habits, and owns their lines."""
    rng = np.random.default_rng(seed)
    common = rng.dirichlet(np.full(len(LETTERS), 0.3), size=len(LETTERS))
    texts, owner = [], []
    for writer in range(writers):
        habits = 0.7 * common + 0.3 * rng.dirichlet(np.full(len(LETTERS), 0.3), size=len(LETTERS))
        for _ in range(lines):
            line = [int(rng.integers(len(LETTERS)))]
            while len(line) <= LENGTH:
                line.append(int(rng.choice(len(LETTERS), p=habits[line[-1]])))
            texts.append(line)
            owner.append(writer)
    text, owners = np.array(texts), np.array(owner)
    test = np.arange(len(text)) % 5 == 0
    x, y = text[:, :-1], text[:, 1:]  # the label of a letter is the next one
    return Dataset("letters", x[~test], y[~test], x[test], y[test], owner=owners[~test])


class Letters(nn.Module):
    """A model from letters to the logits of the next ones, [examples, places, letters]."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.lookup = nn.Embedding(len(LETTERS), width)
        self.out = nn.Linear(width, len(LETTERS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.out(self.lookup(x))


def by_half(labels: np.ndarray, clients: int, rng: np.random.Generator, most: float = 0.5) -> np.ndarray:
    """Your own partition: client 0 gets the share `most` of all examples, and the others share the rest evenly."""
    owner = rng.integers(1, max(2, clients), size=len(labels))
    owner[rng.permutation(len(labels))[: int(most * len(labels))]] = 0
    return owner


def one_in_three(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Your own metric: whether the next letter is among the three likeliest."""
    return (output.topk(3, dim=-1).indices == y.unsqueeze(-1)).any(-1).double().mean()


if __name__ == "__main__":
    data = letters()
    print(f"{data.name}: {len(data.train_x)} lines of {data.train_x.dtype}, {int(data.owner.max()) + 1} writers")
    shape = tuple(Letters()(torch.as_tensor(np.array(data.train_x[:4]))).shape)
    print(f"logits of four lines: {shape}")
