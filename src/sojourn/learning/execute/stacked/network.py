"""A network of known layers as a function of stacked models: images [models, examples, height, width, channels].

Layers are recognised by their type. A network with any other layer cannot be stacked and is computed model by model.
"""

from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from sojourn.learning.execute.flat_model import FlatModel, cross_entropy
from sojourn.learning.execute.stacked.convolution import MOST_CHANNELS, convolution
from sojourn.learning.execute.stacked.norm import fits, group_norm, in_groups
from sojourn.learning.models.resnet import Block, Padded
from sojourn.learning.models.small import GroupNorm

Values = dict[str, Tensor]
"""Stacked parameters and statistics by name; updated statistics are stored here."""
Layer = Callable[[Any, str, Values, Tensor], Tensor]


def stacked_values(model: FlatModel, params: Tensor, stats: Tensor) -> Values:
    """Parameters [models, size] and statistics by the module's names."""
    module = model.module
    values = dict(zip(model.names, model.parts(params), strict=True))
    kept = (name for name, buffer in module.named_buffers() if buffer.is_floating_point())
    return values | dict(zip(kept, model.stat_parts(stats), strict=True))


def stackable(model: FlatModel) -> bool:
    """Whether all layers are known, narrow and occur once, the loss is cross-entropy, and Triton is installed."""
    if model.params.is_cuda and find_spec("triton") is None:
        return False
    parts = [part for _, part in model.module.named_modules(remove_duplicate=False)]
    once = len({id(part) for part in parts}) == len(parts)
    return model.loss is cross_entropy and once and all(_known(part) for part in parts)


def predict(module: nn.Module, values: Values, x: Tensor) -> Tensor:
    """Return the logits of stacked models for stacked batches; in training, statistics in `values` are updated."""
    return _wide(_apply(module, "", values, x.movedim(2, 4) if x.dim() == 5 else x))


def losses(module: nn.Module, values: Values, x: Tensor, y: Tensor) -> Tensor:
    """Mean loss of each model on its batch, as in training."""
    logits = predict(module, values, x)
    models, examples, classes = logits.shape
    each = functional.cross_entropy(logits.reshape(-1, classes), y.reshape(-1), reduction="none")
    return each.view(models, examples).mean(1)


def _known(part: nn.Module) -> bool:
    if type(part) not in LAYERS or any(not one.requires_grad for one in part.parameters()):
        return False
    if isinstance(part, nn.Conv2d):
        size = part.kernel_size[0]
        few = max(part.in_channels, part.out_channels) <= MOST_CHANNELS
        plain = part.groups == 1 and part.dilation == (1, 1) and part.padding_mode == "zeros"
        half = part.kernel_size == (size, size) and part.padding == (size // 2, size // 2)
        return few and plain and half and size in (1, 3) and part.stride[0] == part.stride[1]
    if isinstance(part, nn.AdaptiveAvgPool2d):
        return part.output_size == 1
    if isinstance(part, nn.BatchNorm2d):
        return part.affine and part.track_running_stats and part.momentum is not None and part.training
    if isinstance(part, nn.MaxPool2d):
        return not part.return_indices
    if isinstance(part, nn.Flatten):
        return (part.start_dim, part.end_dim) == (1, -1)
    return not isinstance(part, nn.Linear) or part.bias is not None


def _apply(part: nn.Module, name: str, values: Values, x: Tensor) -> Tensor:
    return LAYERS[type(part)](part, f"{name}." if name else "", values, x)


def _sequence(part: nn.Sequential, name: str, values: Values, x: Tensor) -> Tensor:
    children = [*part.named_children(), ("", nn.Identity())]
    cut = False
    for (key, child), (_, after) in pairwise(children):
        if cut:  # the norm before has applied the ReLU
            cut = False
        elif isinstance(child, NORMS):
            cut = isinstance(after, nn.ReLU)
            x = _normed(child, f"{name}{key}.", values, x, relu=cut)
        else:
            x = _apply(child, name + key, values, x)
    return x


def _convolution(part: nn.Conv2d, name: str, values: Values, x: Tensor) -> Tensor:
    made = convolution(x.contiguous(), values[name + "weight"].permute(0, 1, 3, 4, 2), int(part.stride[0]))
    return made if part.bias is None else made + values[name + "bias"][:, None, None, None]


def _normed(
    part: nn.Module, name: str, values: Values, x: Tensor, around: Tensor | None = None, relu: bool = False
) -> Tensor:
    """Normalise, add the shortcut, and apply ReLU."""
    if isinstance(part, GroupNorm) and fits(x):
        weight, bias = values[name + "weight"], values[name + "bias"]
        around = None if around is None else around.contiguous()
        return group_norm(x.contiguous(), weight, bias, around, part.num_groups, part.eps, relu)
    made = LAYERS[type(part)](part, name, values, x)
    made = made if around is None else made + around
    return functional.relu(made) if relu else made


def _group_norm(part: GroupNorm, name: str, values: Values, x: Tensor) -> Tensor:
    groups = in_groups(_wide(x), part.num_groups)
    variance, mean = torch.var_mean(groups, dim=(2, 3, 5), correction=0, keepdim=True)
    even = ((groups - mean) * torch.rsqrt(variance + part.eps)).flatten(4)
    return _affine(even, name, values, x.dtype)


def _batch_norm(part: nn.BatchNorm2d, name: str, values: Values, x: Tensor) -> Tensor:
    numbers = _wide(x)
    if not part.training:
        mean, variance = (_wide(values[name + key])[:, None, None, None] for key in ("running_mean", "running_var"))
        return _affine((numbers - mean) * torch.rsqrt(variance + part.eps), name, values, x.dtype)
    variance, mean = torch.var_mean(numbers, dim=(1, 2, 3), correction=0, keepdim=True)
    many, momentum = x.shape[1] * x.shape[2] * x.shape[3], float(part.momentum or 0.0)
    seen = {"running_mean": mean, "running_var": variance * (many / (many - 1))}
    for key, value in seen.items():
        before = values[name + key]
        values[name + key] = torch.lerp(before, value.detach()[:, 0, 0, 0].to(before.dtype), momentum)
    return _affine((numbers - mean) * torch.rsqrt(variance + part.eps), name, values, x.dtype)


def _affine(even: Tensor, name: str, values: Values, dtype: torch.dtype) -> Tensor:
    weight, bias = (_wide(values[name + key])[:, None, None, None] for key in ("weight", "bias"))
    return (even * weight + bias).to(dtype)


def _wide(x: Tensor) -> Tensor:
    """In single precision at least."""
    return x.float() if x.dtype == torch.bfloat16 else x


def _relu(part: nn.ReLU, name: str, values: Values, x: Tensor) -> Tensor:
    return functional.relu(x)


def _same(part: nn.Module, name: str, values: Values, x: Tensor) -> Tensor:
    return x


def _block(part: Block, name: str, values: Values, x: Tensor) -> Tensor:
    inner = _apply(part.conv1, name + "conv1", values, x)
    inner = _normed(part.norm1, name + "norm1.", values, inner, relu=True)
    inner = _apply(part.conv2, name + "conv2", values, inner)
    around = _apply(part.shortcut, name + "shortcut", values, x)
    return _normed(part.norm2, name + "norm2.", values, inner, around, relu=True)


def _padded(part: Padded, name: str, values: Values, x: Tensor) -> Tensor:
    fewer = x[:, :, :: part.stride, :: part.stride]
    return functional.pad(fewer, (part.more // 2, part.more - part.more // 2))


def _maximum(part: nn.MaxPool2d, name: str, values: Values, x: Tensor) -> Tensor:
    pooled: Tensor = part(x.flatten(0, 1).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
    return pooled.reshape(*x.shape[:2], *pooled.shape[1:])


def _mean(part: nn.AdaptiveAvgPool2d, name: str, values: Values, x: Tensor) -> Tensor:
    return _wide(x).mean((2, 3), keepdim=True).to(x.dtype)


def _flat(part: nn.Flatten, name: str, values: Values, x: Tensor) -> Tensor:
    return (x.movedim(4, 2) if x.dim() == 5 else x).flatten(2)


def _linear(part: nn.Linear, name: str, values: Values, x: Tensor) -> Tensor:
    return torch.baddbmm(values[name + "bias"][:, None], x, values[name + "weight"].transpose(1, 2))


NORMS = (GroupNorm, nn.BatchNorm2d, nn.Identity)
LAYERS: dict[type[nn.Module], Layer] = {
    nn.Sequential: _sequence,
    nn.Conv2d: _convolution,
    GroupNorm: _group_norm,
    nn.BatchNorm2d: _batch_norm,
    nn.ReLU: _relu,
    nn.Identity: _same,
    Block: _block,
    Padded: _padded,
    nn.MaxPool2d: _maximum,
    nn.AdaptiveAvgPool2d: _mean,
    nn.Flatten: _flat,
    nn.Linear: _linear,
}
