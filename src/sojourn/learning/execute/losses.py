"""Losses and metrics, by name or the user's own: functions of a model's output and the labels.

loss(output, y)     one number, the mean over the batch
metric(output, y)   the same, or one number for each example
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from sojourn.errors import InvalidInput
from sojourn.learning.data.dataset import Dataset
from sojourn.learning.execute.flat_model import Loss, cross_entropy, entropy, own_loss
from sojourn.own_code import names_code, own_function
from sojourn.text import listed, nearest, parts

OfOutput = Callable[[Tensor, Tensor], Any]


def _shaped(output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return output and values with the same shape; a single output may come as a column."""
    y = y.to(output.dtype)
    if output.shape == (*y.shape, 1):
        output = output.squeeze(-1)
    if output.shape != y.shape:
        raise InvalidInput(
            f"the model's output must have the shape of the labels, {tuple(y.shape)}, got {tuple(output.shape)}; "
            "change its last layer, or give your own loss"
        )
    return output, y


def _mse(output: Tensor, y: Tensor) -> Tensor:
    return functional.mse_loss(*_shaped(output, y))


def _binary(output: Tensor, y: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(*_shaped(output, y))


LOSSES: dict[str, OfOutput] = {"cross-entropy": entropy, "mse": _mse, "binary-cross-entropy": _binary}


def _mae(output: Tensor, y: Tensor) -> Tensor:
    return functional.l1_loss(*_shaped(output, y))


def _right_classes(output: Tensor, y: Tensor) -> Tensor:
    return (output.argmax(-1) == y).double().mean()


def _right_labels(output: Tensor, y: Tensor) -> Tensor:
    output, y = _shaped(output, y)
    return ((output > 0) == (y > 0.5)).double().mean()


class Metric(NamedTuple):
    """A number that evaluates a model, besides its loss."""

    name: str
    """Its column."""
    of: OfOutput
    """Its mean over a batch."""
    finish: Callable[[float], float]
    """Function from the mean over all examples to the number that is shown."""


def _plain(mean: float) -> float:
    return mean


def _exp(mean: float) -> float:
    return math.exp(mean) if mean < 700 else math.inf


METRICS = {
    "mse": Metric("mse", _mse, _plain),
    "rmse": Metric("rmse", _mse, math.sqrt),
    "mae": Metric("mae", _mae, _plain),
    "perplexity": Metric("perplexity", entropy, _exp),
    "token-accuracy": Metric("token_accuracy", _right_classes, _plain),
    "label-accuracy": Metric("label_accuracy", _right_labels, _plain),
}
_USUAL: dict[str, tuple[str, ...]] = {
    "mse": ("rmse", "mae"),
    "cross-entropy": ("perplexity", "token-accuracy"),
    "binary-cross-entropy": ("label-accuracy",),
}


def usual_loss(module: nn.Module, dataset: Dataset) -> str:
    """Return the default loss of a model: its own, or the one that fits the labels."""
    if hasattr(module, "loss"):
        return "own"
    return "cross-entropy" if dataset.classes or dataset.train_y.dtype.kind == "i" else "mse"


def loss_of(given: str | OfOutput, module: nn.Module) -> Loss:
    """Return the loss of a text or of a function of (output, y), as a function of module and batch."""
    if isinstance(given, str) and given == "own":
        if not hasattr(module, "loss"):
            raise InvalidInput(f"loss own needs a model with a method loss(x, y), {type(module).__name__} has none")
        return own_loss
    function = _function("loss", given, LOSSES) if isinstance(given, str) else given
    if function is entropy:
        return cross_entropy
    return _Of(function, given if isinstance(given, str) else getattr(given, "__name__", "loss"))


class _Of:
    """A loss of output and labels."""

    def __init__(self, function: OfOutput, name: str) -> None:
        self._function, self._name = function, name

    def __call__(self, module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        value = self._function(module(x), y)
        if not isinstance(value, Tensor) or value.numel() != 1:
            kind = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise InvalidInput(f"loss {self._name} must return one number as a tensor, got {kind}; take the mean")
        return value.reshape(())


def metrics_of(given: str | None, loss: str, dataset: Dataset) -> tuple[Metric, ...]:
    """Return the metrics of a text, `mae, mine:f1`; without a text, the usual ones for the loss if there are no
    classes.
    """
    if given is None:
        return () if dataset.classes else tuple(METRICS[name] for name in _USUAL.get(loss, ()))
    found = []
    for text in parts(given):
        named = _function("metric", text, METRICS)
        column = text.rpartition(":")[2].rpartition(".")[2]
        found.append(named if isinstance(named, Metric) else Metric(column, named, _plain))
    names = [metric.name for metric in found]
    if len(set(names)) < len(names):
        raise InvalidInput(f"metrics must have different names, got {', '.join(names)}")
    return tuple(found)


def mean_of(metric: Metric, output: Tensor, y: Tensor) -> float:
    """Return a metric's mean over a batch, from one number or one per example."""
    given = metric.of(output, y)
    try:
        value = torch.as_tensor(given).double()
    except (TypeError, ValueError, RuntimeError):
        raise InvalidInput(f"metric {metric.name} must return a number, got {type(given).__name__}") from None
    if value.numel() != 1 and value.shape[:1] != y.shape[:1]:
        raise InvalidInput(
            f"metric {metric.name} must return one number, or one for each of the {len(y)} examples, "
            f"got a tensor of shape {tuple(value.shape)}"
        )
    return float(value.mean())


def _function(noun: str, text: str, table: Any) -> Any:
    if names_code(text):
        return own_function(noun, text)
    if text.strip() not in table:
        raise InvalidInput(
            f"{noun} must be {listed(table)}, or package.module:function, got '{text}'{nearest(text, table)}"
        )
    return table[text.strip()]
