"""Model, data and training of one organisation."""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

TEST = 297  # the last images are for testing


class Net(nn.Module):
    """A small perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def load_all() -> tuple[Tensor, Tensor]:
    """Return all images and their labels."""
    x, y = load_digits(return_X_y=True)
    return torch.tensor(x, dtype=torch.float32) / 16, torch.tensor(y)


def load_part(part: int, parts: int) -> tuple[Tensor, Tensor]:
    """Return the training images of one of several organisations."""
    x, y = load_all()
    return x[:-TEST][part::parts], y[:-TEST][part::parts]


def load_test() -> tuple[Tensor, Tensor]:
    """Return the images for testing."""
    x, y = load_all()
    return x[-TEST:], y[-TEST:]


def train(net: nn.Module, x: Tensor, y: Tensor, epochs: int, lr: float) -> float:
    """Train the model in place, and return the mean loss."""
    optimiser = torch.optim.SGD(net.parameters(), lr=lr)
    losses = []
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(32):
            loss = nn.functional.cross_entropy(net(x[batch]), y[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
    return sum(losses) / len(losses)
