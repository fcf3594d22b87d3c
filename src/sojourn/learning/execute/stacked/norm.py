"""GroupNorm of stacked models with the sum and ReLU that follow it: read once and written once on a GPU."""

from typing import Any

import torch
from torch import Tensor

LARGEST = 2**15
"""Most values of an example that fit into the registers."""


def fits(x: Tensor) -> bool:
    """Whether the kernels can take images [models, examples, height, width, channels]."""
    channels = int(x.shape[4])
    return channels & (channels - 1) == 0 and int(x.shape[2] * x.shape[3]) * channels <= LARGEST


def group_norm(
    x: Tensor, weight: Tensor, bias: Tensor, around: Tensor | None, groups: int, eps: float, relu: bool
) -> Tensor:
    """relu(GroupNorm(x) + around), either of which may be missing; weight and bias are [models, channels]."""
    y: Tensor = _forward(x, weight, bias, around, groups, eps, relu)[0]
    return y


@torch.library.custom_op("sojourn::group_norm", mutates_args=())
def _forward(
    x: Tensor, weight: Tensor, bias: Tensor, around: Tensor | None, groups: int, eps: float, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    if x.is_cuda:
        from sojourn.learning.execute.stacked.launch import norm

        return norm(x, weight, bias, around, groups, eps, relu)
    apart = in_groups(x, groups)
    variance, mean = torch.var_mean(apart, dim=(2, 3, 5), correction=0, keepdim=True)
    scale = torch.rsqrt(variance + eps)
    y = ((apart - mean) * scale).flatten(4) * weight[:, None, None, None] + bias[:, None, None, None]
    y = y if around is None else y + around
    means, scales = (value.expand_as(apart[:, :, :1, :1]).flatten(2).clone() for value in (mean, scale))
    return y.relu() if relu else y, means, scales


@_forward.register_fake
def _(
    x: Tensor, weight: Tensor, bias: Tensor, around: Tensor | None, groups: int, eps: float, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    wide = torch.float32 if x.dtype == torch.bfloat16 else x.dtype
    means = x.new_empty(x.shape[0], x.shape[1], x.shape[4], dtype=wide)
    return torch.empty_like(x), means, torch.empty_like(means)


@torch.library.custom_op("sojourn::group_norm_gradients", mutates_args=())
def _gradients(
    slope: Tensor,
    x: Tensor,
    y: Tensor,
    weight: Tensor,
    means: Tensor,
    scales: Tensor,
    groups: int,
    relu: bool,
    branched: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if x.is_cuda:
        from sojourn.learning.execute.stacked.launch import norm_back

        return norm_back(slope, x, y, weight, means, scales, groups, relu, branched)
    slope = torch.where(y > 0, slope, 0.0) if relu else slope.clone()
    scale = scales[:, :, None, None]
    even, factor = (x - means[:, :, None, None]) * scale, weight[:, None, None, None]
    flat, tilt = (_over_groups(value * factor, groups) for value in (slope, slope * even))
    made = (slope * factor - flat - even * tilt) * scale
    around = slope if branched else x.new_empty(0)
    return made, (slope * even).sum((2, 3)), slope.sum((2, 3)), around


@_gradients.register_fake
def _(
    slope: Tensor,
    x: Tensor,
    y: Tensor,
    weight: Tensor,
    means: Tensor,
    scales: Tensor,
    groups: int,
    relu: bool,
    branched: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    around = torch.empty_like(x) if branched else x.new_empty(0)
    return torch.empty_like(x), torch.empty_like(means), torch.empty_like(means), around


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    x, weight, _, around, ctx.groups, _, ctx.relu = inputs
    ctx.branched = around is not None
    ctx.save_for_backward(x, weight, *output)


def _back(ctx: Any, slope: Tensor, of_means: Tensor | None, of_scales: Tensor | None) -> tuple[Tensor | None, ...]:
    x, weight, y, means, scales = ctx.saved_tensors
    made, of_weight, of_bias, around = _gradients(
        slope.contiguous(), x, y, weight, means, scales, ctx.groups, ctx.relu, ctx.branched
    )
    of_weight, of_bias = (value.sum(1).to(weight.dtype) for value in (of_weight, of_bias))
    return made, of_weight, of_bias, around if ctx.branched else None, None, None, None


_forward.register_autograd(_back, setup_context=_keep)


def in_groups(x: Tensor, groups: int) -> Tensor:
    """Return a view with the channels of each group in their own dimension."""
    return x.view(*x.shape[:4], groups, -1)


def _over_groups(x: Tensor, groups: int) -> Tensor:
    """Return the mean over an example's group, for each of its values."""
    apart = in_groups(x, groups)
    return apart.mean((2, 3, 5), keepdim=True).expand_as(apart).flatten(4)
