"""Launch the Triton kernels: blocks and grids."""

import torch
import triton
from torch import Tensor

from sojourn.learning.execute.stacked.convolution import output_shape
from sojourn.learning.execute.stacked.kernels import (
    convolve,
    input_gradient,
    kernel_gradient,
    normalise,
    normalise_back,
)

PIECES = 16  # pieces of the pixels, whose kernel gradients are summed afterwards


def forward(x: Tensor, kernel: Tensor, stride: int, block: int = 128, warps: int = 4) -> Tensor:
    """The convolution."""
    models, examples, height, width, into = x.shape
    y = x.new_empty(output_shape(x, kernel, stride))
    size, out = kernel.shape[2], kernel.shape[1]
    grid = (triton.cdiv(y[0].numel() // out, block), models)
    convolve[grid](
        x, kernel, y, height, width, y.shape[2], y.shape[3], examples, *_strides(kernel, 4, 1),
        CI=into, CIP=_power(into), CO=out, COP=_power(out), K=size, STRIDE=stride, FLIP=False, BM=block,
        num_warps=warps,
    )  # fmt: skip
    return y


def of_input(
    slope: Tensor, kernel: Tensor, height: int, width: int, stride: int, block: int = 128, warps: int = 4
) -> Tensor:
    """The gradient of its input."""
    models, examples, high, wide, out = slope.shape
    size, into = kernel.shape[2], kernel.shape[4]
    made = slope.new_empty(models, examples, height, width, into)
    if stride == 1:
        convolve[(triton.cdiv(examples * height * width, block), models)](
            slope, kernel, made, high, wide, height, width, examples, *_strides(kernel, 1, 4),
            CI=out, CIP=_power(out), CO=into, COP=_power(into), K=size, STRIDE=1, FLIP=True, BM=block,
            num_warps=warps,
        )  # fmt: skip
        return made
    pixels = examples * -(-height // stride) * -(-width // stride)
    input_gradient[(triton.cdiv(pixels, block), stride * stride, models)](
        slope, kernel, made, height, width, high, wide, examples, *_strides(kernel, 4, 1),
        CI=into, CIP=_power(into), CO=out, COP=_power(out), K=size, STRIDE=stride, BM=block, num_warps=warps,
    )  # fmt: skip
    return made


def of_kernel(
    x: Tensor, slope: Tensor, size: int, stride: int, block: int = 64, warps: int | None = None, pieces: int = PIECES
) -> Tensor:
    """The gradient of its kernel."""
    models, examples, height, width, into = x.shape
    high, wide, out = slope.shape[2:]
    parts = torch.empty(models, pieces, size, size, into, out, dtype=torch.float32, device=x.device)
    tile = _power(into) * _power(out)
    kernel_gradient[(pieces, size, models)](
        x, slope, parts, height, width, high, wide, examples, pieces,
        CI=into, CIP=_power(into), CO=out, COP=_power(out), K=size, STRIDE=stride,
        BM=block, num_warps=warps or (2 if tile <= 1024 else 4),
    )  # fmt: skip
    return parts.sum(1).permute(0, 4, 1, 2, 3).to(x.dtype).contiguous()


def norm(
    x: Tensor, weight: Tensor, bias: Tensor, around: Tensor | None, groups: int, eps: float, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return GroupNorm with what follows it, and the mean and scale by example and channel."""
    models, examples, height, width, channels = x.shape
    y = torch.empty_like(x)
    means, scales = (x.new_empty(models, examples, channels, dtype=torch.float32) for _ in range(2))
    pixels = height * width
    normalise[(examples, models)](
        x, weight, bias, x if around is None else around, y, means, scales, pixels, examples, weight.stride(0), eps,
        C=channels, G=groups, PP=_room(pixels), AROUND=around is not None, RELU=relu,
        num_warps=_warps(pixels * channels),
    )  # fmt: skip
    return y, means, scales


def norm_back(
    slope: Tensor, x: Tensor, y: Tensor, weight: Tensor, means: Tensor, scales: Tensor, groups: int, relu: bool,
    branched: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Return its gradients: of x, of weight and bias by example, and of the shortcut where it branched off."""
    models, examples, height, width, channels = x.shape
    made = torch.empty_like(x)
    around = torch.empty_like(x) if branched else x.new_empty(0)
    of_weight, of_bias = torch.empty_like(means), torch.empty_like(means)
    pixels = height * width
    normalise_back[(examples, models)](
        slope, x, y, weight, means, scales, made, around, of_weight, of_bias, pixels, examples, weight.stride(0),
        C=channels, G=groups, PP=_room(pixels), AROUND=branched, RELU=relu, num_warps=_warps(pixels * channels),
    )  # fmt: skip
    return made, of_weight, of_bias, around


def _room(pixels: int) -> int:
    return 1 << (pixels - 1).bit_length()


def _warps(values: int) -> int:
    return 8 if values > 8192 else 4


def _strides(kernel: Tensor, of_x: int, of_y: int) -> tuple[int, int, int, int]:
    """Strides of kernels by model, tap, and channels of x and of y; taps lie in a row."""
    assert kernel.stride(2) == kernel.shape[3] * kernel.stride(3)
    return kernel.stride(0), kernel.stride(3), kernel.stride(of_x), kernel.stride(of_y)


def _power(number: int) -> int:
    """Rounded up to a power of two; products of matrices need 16."""
    return max(16, 1 << (number - 1).bit_length())
