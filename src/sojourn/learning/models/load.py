"""Make models from their text form."""

import copy
from typing import Any

import torch
from torch import nn

from sojourn.errors import InvalidInput
from sojourn.learning.data.dataset import Dataset
from sojourn.learning.data.load import load_problem
from sojourn.learning.models.resnet import resnet18, resnet20
from sojourn.learning.models.small import Binary, Point, cnn, logistic, mlp
from sojourn.machine_memory import check_memory
from sojourn.own_code import OBJECT, names_code, own_call
from sojourn.shown import quoted
from sojourn.text import parse_choice

_OPTIONS: dict[str, dict[str, Any]] = {
    "logistic": {},
    "mlp": {"hidden": int, "layers": int},
    "cnn": {"channels": int, "norm": str},
    "resnet20": {"norm": str, "width": int},
    "resnet18": {"norm": str, "width": int, "stem": str},
    "problem": {},
}
_MADE = {"logistic": logistic, "mlp": mlp, "cnn": cnn, "resnet20": resnet20, "resnet18": resnet18}
MOST_LAYERS, MOST_WIDTH = 1000, 10**9
COPIES = 4  # fewest copies of a model in memory: its parameters, the first ones, a gradient, an update
_LEAST = {"cnn": 4, "resnet20": 8, "resnet18": 8}  # smallest side of an image


def load_model(text: str, dataset: Dataset, data_text: str, seed: int, dtype: torch.dtype = torch.float32) -> nn.Module:
    """Return the model of a text: `logistic`, `mlp(hidden=64)`, `cnn(channels=16, norm=group)`, or
    `package.module:function`.

    `resnet20(norm=group, width=16)` and `resnet18(norm=group, width=64, stem=plain)` are for larger images; norm is
    group, batch or none, stem plain or pooled. `problem` is the model that belongs to a quadratic or logistic problem.
    The function is yours; it takes the Dataset and the arguments in brackets, and returns a module from examples to
    outputs, or one with a method `loss(x, y)`. Only the seed decides the first parameters.
    """
    with torch.random.fork_rng(devices=[]):
        if ":" not in text:
            _check_size(text, dataset, data_text, dtype)
        torch.manual_seed(seed)
        return _make(text, dataset, data_text).to(dtype)


def _make(text: str, dataset: Dataset, data_text: str) -> nn.Module:
    if names_code(text):
        return _from_function(text.strip(), dataset)
    name, options = parse_choice("model", text, _OPTIONS)
    if name == "problem":
        problem = load_problem(data_text)
        return Point(problem) if hasattr(problem, "curvature") else Binary(problem)
    for key, value in options.items():
        if isinstance(value, int) and value < 1:
            raise InvalidInput(f"model {name}: {key} must be at least 1, got {value}")
        most = MOST_LAYERS if key == "layers" else MOST_WIDTH
        if isinstance(value, int) and value > most:
            raise InvalidInput(f"model {name}: {key} must be at most {most:,}, got {quoted(value)}")
    if not dataset.classes:
        raise InvalidInput(
            f"model {name} classifies, dataset {dataset.name} has no classes; use a model of your own, "
            "package.module:function, or the model 'problem' for a problem"
        )
    if name in _LEAST:
        _check_images(name, dataset, options)
    return _MADE[name](dataset, **options)


def _check_size(text: str, dataset: Dataset, data_text: str, dtype: torch.dtype) -> None:
    """Raise an error if a model does not fit into memory; it is first built without allocating any."""
    try:
        with torch.device("meta"):
            numbers = sum(one.numel() for one in _make(text, dataset, data_text).parameters())
    except RuntimeError:  # so large that PyTorch cannot count it
        numbers = 2**63
    check_memory(COPIES * dtype.itemsize * numbers, f"model {text.strip()}", "make it smaller")


def _check_images(name: str, dataset: Dataset, options: dict[str, Any]) -> None:
    least = _LEAST[name]
    if dataset.train_x.ndim != 4 or min(dataset.train_x.shape[2:]) < least:
        shape = tuple(dataset.train_x.shape[1:])
        raise InvalidInput(
            f"model {name} needs images of at least {least}x{least}, dataset {dataset.name} has {shape}; use mlp"
        )
    for key, words in (("norm", ("group", "batch", "none")), ("stem", ("plain", "pooled"))):
        if options.get(key, words[0]) not in words:
            listed = f"{', '.join(words[:-1])} or {words[-1]}"
            raise InvalidInput(f"model {name}: {key} must be {listed}, got '{options[key]}'")
    for key in ("channels", "width"):
        if options.get(key, 1) < 1:
            raise InvalidInput(f"model {name}: {key} must be at least 1, got {options[key]}")


def _from_function(text: str, dataset: Dataset) -> nn.Module:
    found = own_call("model", text, dataset)
    found = copy.deepcopy(found) if text.startswith(OBJECT) else found  # the program's own module is not changed
    if not isinstance(found, nn.Module):
        raise InvalidInput(f"model {text}: the function must return a torch module, got {type(found).__name__}")
    if not any(True for _ in found.parameters()):
        raise InvalidInput(f"model {text}: the module must have parameters to train, it has none")
    return found
