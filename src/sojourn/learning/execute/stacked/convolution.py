"""A convolution of stacked models, with its gradients: Triton on a GPU, PyTorch's own model by model elsewhere."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.grad import conv2d_input, conv2d_weight

MOST_CHANNELS = 64
"""With more channels one model fills a GPU, and PyTorch's own kernels are faster."""


def convolution(x: Tensor, kernel: Tensor, stride: int) -> Tensor:
    """Images [models, examples, height, width, in] and kernels [models, out, row, column, in]; padded by half."""
    made: Tensor = _forward(x, kernel, stride)
    return made


@torch.library.custom_op("sojourn::convolution", mutates_args=())
def _forward(x: Tensor, kernel: Tensor, stride: int) -> Tensor:
    if x.is_cuda:
        from sojourn.learning.execute.stacked.launch import forward

        return forward(x, kernel, stride)
    rows = [_one(*pair, stride) for pair in zip(x, kernel, strict=True)]
    return torch.stack([_channels_last(row) for row in rows]).contiguous()


@_forward.register_fake
def _(x: Tensor, kernel: Tensor, stride: int) -> Tensor:
    return x.new_empty(output_shape(x, kernel, stride))


@torch.library.custom_op("sojourn::convolution_gradient_of_input", mutates_args=())
def _of_input(slope: Tensor, kernel: Tensor, height: int, width: int, stride: int) -> Tensor:
    if slope.is_cuda:
        from sojourn.learning.execute.stacked.launch import of_input

        return of_input(slope, kernel, height, width, stride)
    shape = (slope.shape[1], kernel.shape[4], height, width)
    rows = [_input_gradient(shape, _first(k), _first(g), stride) for g, k in zip(slope, kernel, strict=True)]
    return torch.stack([_channels_last(row) for row in rows]).contiguous()


@_of_input.register_fake
def _(slope: Tensor, kernel: Tensor, height: int, width: int, stride: int) -> Tensor:
    return slope.new_empty(slope.shape[0], slope.shape[1], height, width, kernel.shape[4])


@torch.library.custom_op("sojourn::convolution_gradient_of_kernel", mutates_args=())
def _of_kernel(x: Tensor, slope: Tensor, size: int, stride: int) -> Tensor:
    if x.is_cuda:
        from sojourn.learning.execute.stacked.launch import of_kernel

        return of_kernel(x, slope, size, stride)
    shape = (slope.shape[4], x.shape[4], size, size)
    rows = [_weight_gradient(_first(one), shape, _first(g), stride) for one, g in zip(x, slope, strict=True)]
    return torch.stack([_channels_last(row) for row in rows]).contiguous()


@_of_kernel.register_fake
def _(x: Tensor, slope: Tensor, size: int, stride: int) -> Tensor:
    return x.new_empty(x.shape[0], slope.shape[4], size, size, x.shape[4])


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, kernel, ctx.stride = inputs
    ctx.save_for_backward(x, kernel)


def _back(ctx: Any, slope: Tensor) -> tuple[Tensor | None, Tensor, None]:
    x, kernel = ctx.saved_tensors
    slope = slope.contiguous()
    of_x = _of_input(slope, kernel, x.shape[2], x.shape[3], ctx.stride) if ctx.needs_input_grad[0] else None
    return of_x, _of_kernel(x, slope, kernel.shape[2], ctx.stride), None


_forward.register_autograd(_back, setup_context=_keep)


def output_shape(x: Tensor, kernel: Tensor, stride: int) -> tuple[int, ...]:
    """Return the shape of a convolution's output."""
    height, width = ((length - 1) // stride + 1 for length in x.shape[2:4])
    return x.shape[0], x.shape[1], height, width, kernel.shape[1]


def _one(x: Tensor, kernel: Tensor, stride: int) -> Tensor:
    return functional.conv2d(_first(x), _first(kernel), stride=stride, padding=kernel.shape[1] // 2)


def _input_gradient(shape: tuple[int, ...], kernel: Tensor, slope: Tensor, stride: int) -> Tensor:
    made: Tensor = conv2d_input(shape, kernel, slope, stride, kernel.shape[2] // 2)  # type: ignore[no-untyped-call]
    return made


def _weight_gradient(x: Tensor, shape: tuple[int, ...], slope: Tensor, stride: int) -> Tensor:
    made: Tensor = conv2d_weight(x, shape, slope, stride, shape[2] // 2)  # type: ignore[no-untyped-call]
    return made


def _first(one: Tensor) -> Tensor:
    """Return the images with channels before height and width, as PyTorch expects them."""
    return one.permute(0, 3, 1, 2)


def _channels_last(one: Tensor) -> Tensor:
    return one.permute(0, 2, 3, 1)
