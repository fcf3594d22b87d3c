"""Residual networks for small images (He et al. 2016): ResNet20 for 32x32, ResNet18 for 64x64.

No operation changes a tensor in place, so that torch.func.vmap can run many of them stacked. Convolutions begin at He's
normal initialisation (by fan-out), which the seed of `load_model` decides.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from sojourn.learning.data.dataset import Dataset
from sojourn.learning.models.small import normalisation


def resnet20(dataset: Dataset, norm: str = "group", width: int = 16) -> nn.Module:
    """Three stages of three blocks, of 1, 2 and 4 times the width.

    If a stage halves the image, the shortcut has no parameters (option A of the paper): it takes every other pixel, and
    zeros for the new channels. With three input channels, ten classes and width 16: 269,722 parameters.
    """
    return _network(dataset, norm, [width, 2 * width, 4 * width], 3, projected=False)


def resnet18(dataset: Dataset, norm: str = "group", width: int = 64, stem: str = "plain") -> nn.Module:
    """Four stages of two blocks, of 1, 2, 4 and 8 times the width.

    The first layer is a 3x3 convolution (`plain`); or, as for large images, a 7x7 one that halves them and pooling that
    halves them again (`pooled`), which makes the blocks sixteen times cheaper. If a stage halves the image, the
    shortcut is a 1x1 convolution (option B of the paper). With three channels, 200 classes and width 64: 11,271,432
    parameters, pooled 11,279,112.
    """
    return _network(dataset, norm, [width, 2 * width, 4 * width, 8 * width], 2, projected=True, pooled=stem == "pooled")


def _network(
    dataset: Dataset, norm: str, widths: list[int], blocks: int, projected: bool, pooled: bool = False
) -> nn.Module:
    kernel, stride = (7, 2) if pooled else (3, 1)
    parts: list[nn.Module] = [
        _convolution(int(dataset.train_x.shape[1]), widths[0], norm, stride, kernel),
        normalisation(norm, widths[0]),
        nn.ReLU(),
    ]
    if pooled:
        parts.append(nn.MaxPool2d(3, stride=2, padding=1))
    before = widths[0]
    for stage, width in enumerate(widths):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            parts.append(Block(before, width, stride, norm, projected))
            before = width
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, dataset.classes))


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut around them.

    Without normalisation the second convolution begins at zero, so that every block begins as its shortcut; otherwise
    the output would grow with every block.
    """

    def __init__(self, before: int, width: int, stride: int, norm: str, projected: bool) -> None:
        super().__init__()
        self.conv1 = _convolution(before, width, norm, stride)
        self.norm1 = normalisation(norm, width)
        self.conv2 = _convolution(width, width, norm)
        self.norm2 = normalisation(norm, width)
        self.shortcut = _shortcut(before, width, stride, norm, projected)
        if norm == "none":
            nn.init.zeros_(self.conv2.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Map images to images."""
        inner = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(inner)) + self.shortcut(x))


class Padded(nn.Module):
    """The shortcut without parameters: every other pixel, zeros for half of the new channels on either side."""

    def __init__(self, more: int, stride: int) -> None:
        super().__init__()
        self.more, self.stride = more, stride

    def forward(self, x: Tensor) -> Tensor:
        """Map images to smaller images with more channels."""
        fewer = x[:, :, :: self.stride, :: self.stride]
        return functional.pad(fewer, (0, 0, 0, 0, self.more // 2, self.more - self.more // 2))


def _shortcut(before: int, width: int, stride: int, norm: str, projected: bool) -> nn.Module:
    if before == width and stride == 1:
        return nn.Identity()
    if not projected:
        return Padded(width - before, stride)
    return nn.Sequential(_convolution(before, width, norm, stride, kernel=1), normalisation(norm, width))


def _convolution(before: int, width: int, norm: str, stride: int = 1, kernel: int = 3) -> nn.Conv2d:
    """Return a convolution; it has biases only if no normalisation follows."""
    made = nn.Conv2d(before, width, kernel, stride, padding=kernel // 2, bias=norm == "none")
    nn.init.kaiming_normal_(made.weight, mode="fan_out", nonlinearity="relu")
    if made.bias is not None:
        with torch.no_grad():
            made.bias.zero_()
    return made
