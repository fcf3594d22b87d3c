"""Small models for small images and vectors."""

import math

import torch
from torch import Tensor, nn

from sojourn.learning.data.dataset import Dataset
from sojourn.learning.data.problem import Problem


def logistic(dataset: Dataset) -> nn.Module:
    """Multinomial logistic regression, initialised at zero."""
    layer = nn.Linear(_features(dataset), dataset.classes)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return nn.Sequential(nn.Flatten(), layer)


def mlp(dataset: Dataset, hidden: int = 64, layers: int = 1) -> nn.Module:
    """A perceptron with hidden layers of one width."""
    parts: list[nn.Module] = [nn.Flatten()]
    width = _features(dataset)
    for _ in range(layers):
        parts += [nn.Linear(width, hidden), nn.ReLU()]
        width = hidden
    return nn.Sequential(*parts, nn.Linear(width, dataset.classes))


def cnn(dataset: Dataset, channels: int = 16, norm: str = "group") -> nn.Module:
    """Two convolutions with pooling and a linear layer, for images; norm is group, batch or none."""
    depth = int(dataset.train_x.shape[1])
    return nn.Sequential(
        nn.Conv2d(depth, channels, 3, padding=1),
        normalisation(norm, channels),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(channels, 2 * channels, 3, padding=1),
        normalisation(norm, 2 * channels),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(2 * channels * (dataset.train_x.shape[2] // 4) * (dataset.train_x.shape[3] // 4), dataset.classes),
    )


def normalisation(kind: str, channels: int) -> nn.Module:
    """GroupNorm, BatchNorm, or nothing."""
    if kind == "group":
        return GroupNorm(math.gcd(8, channels), channels)
    return nn.BatchNorm2d(channels) if kind == "batch" else nn.Identity()


class GroupNorm(nn.GroupNorm):
    """GroupNorm that keeps images on a GPU in their layout, with channels last; PyTorch's own would change it."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each group of channels of an example to mean 0 and variance 1, then scale."""
        if not x.is_cuda or x.dim() != 4:
            return super().forward(x)
        examples, channels, height, width = x.shape
        grouped = x.view(examples, self.num_groups, channels // self.num_groups, height, width).float()
        variance, mean = torch.var_mean(grouped, dim=(2, 3, 4), correction=0, keepdim=True)
        even = ((grouped - mean) * torch.rsqrt(variance + self.eps)).view(x.shape)
        return (even * self.weight[:, None, None] + self.bias[:, None, None]).to(x.dtype)


class Point(nn.Module):
    """The model of a quadratic problem: a point w, its loss on an example x is 1/2 (w - x)' H (w - x)."""

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(problem.dimension))
        self._curvature = torch.as_tensor(problem.curvature)  # type: ignore[attr-defined]

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Mean over the batch."""
        away = self.w - x
        return 0.5 * (away.square() * self._curvature.to(away.dtype)).sum(1).mean()


class Binary(nn.Module):
    """The model of a logistic problem: a vector w, with l2 regularisation, labels 0 and 1."""

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(problem.dimension))
        self.l2 = float(problem.l2)  # type: ignore[attr-defined]

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the two classes."""
        margin = x @ self.w
        return torch.stack([torch.zeros_like(margin), margin], dim=1)

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Mean over the batch, and the regularisation."""
        return nn.functional.cross_entropy(self(x), y.long()) + 0.5 * self.l2 * self.w.square().sum()


def _features(dataset: Dataset) -> int:
    return math.prod(dataset.train_x.shape[1:])
