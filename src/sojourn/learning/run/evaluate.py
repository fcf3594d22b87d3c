"""Evaluate a model: loss and accuracy on the test examples, overall and for each client's mix of classes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from sojourn.errors import InvalidInput
from sojourn.learning.execute.flat_model import FlatModel, cross_entropy
from sojourn.learning.execute.losses import mean_of
from sojourn.learning.execute.stacked.network import predict, stackable, stacked_values
from sojourn.learning.replay.federation import Federation
from sojourn.learning.run.metrics import PERCENTILES

AT_ONCE = {"cpu": 2000, "cuda": 5000}
VALUES_AT_ONCE = {
    "cpu": 2**21,
    "cuda": 2**24,
}  # limits the number of large examples, since activations must fit into memory too
Predictor = Callable[[Tensor], Tensor]


class Judgement(NamedTuple):
    """The evaluation of a model."""

    loss: float
    """Mean loss on the test examples."""
    accuracy: float
    """Share of the test examples that are classified correctly; NaN = there are no classes."""
    clients: NDArray[np.float64]
    """Accuracy for each client's mix of classes; NaN = there are no classes."""
    others: tuple[float, ...] = ()
    """The federation's own metrics, in their order."""

    def percentiles(self) -> list[float]:
        """Return the accuracy of the worst client, and the 10%, 50% and 90% quantiles over clients."""
        if np.isnan(self.clients).any():
            return [float("nan")] * len(PERCENTILES)
        return [float(value) for value in np.percentile(self.clients, PERCENTILES)]


def judge(federation: Federation, params: Tensor, stats: Tensor) -> Judgement:
    """Evaluate a model on the test set."""
    module = federation.model.at(params, stats)
    predictor = _predictor(federation.model, params, stats)
    learning = [part for part in module.modules() if part.training]
    module.eval()
    try:
        with fitting(federation, predictor), torch.no_grad():
            return _judge(federation, predictor)
    finally:
        for part in learning:  # only layers that are not frozen
            part.training = True


@contextmanager
def fitting(federation: Federation, logits_of: Predictor) -> Iterator[None]:
    """Say in a sentence, in place of PyTorch's error, that the model does not fit its data, if that is the reason."""
    try:
        yield
    except (RuntimeError, IndexError) as error:
        said = _misfit(federation, logits_of)
        if said is None:
            raise
        raise InvalidInput(said) from error


def _misfit(federation: Federation, logits_of: Predictor) -> str | None:
    """Return a sentence if the model does not fit the shape of the examples or the number of classes."""
    examples, classes = federation.examples, federation.dataset.classes
    shape = tuple(federation.dataset.test_x.shape[1:])
    try:
        with torch.no_grad():
            output = logits_of(examples.scaled(examples.test_x[:2]))
    except (RuntimeError, IndexError) as error:
        return f"the model must take examples of shape {shape}, got the error '{error}'; check its first layers"
    usual = classes and federation.model.loss is cross_entropy
    if usual and (output.dim() < 2 or output.shape[1] < classes):
        got = f"{output.shape[1]} outputs" if output.dim() > 1 else "a single output"
        return (
            f"the model must have an output for each of the {classes} classes (the largest label is {classes - 1}), "
            f"got {got}; change its last layer or the labels"
        )
    return None


def _predictor(model: FlatModel, params: Tensor, stats: Tensor) -> Predictor:
    """Return a function from examples to logits; in bfloat16 if a GPU trains in it by kernels for stacked models."""
    if not (model.half and model.layout.channels_last and not model.random and stackable(model)):
        return model.module
    values = stacked_values(model, params.to(torch.bfloat16)[None], stats[None])
    return lambda x: predict(model.module, values, x.to(torch.bfloat16)[None])[0]


def _judge(federation: Federation, logits_of: Predictor) -> Judgement:
    x, y, classes = federation.examples.test_x, federation.examples.test_y, federation.dataset.classes
    loss = torch.zeros((), dtype=torch.float64, device=x.device)
    right = torch.zeros(max(classes, 1), dtype=torch.int64, device=x.device)
    kind = x.device.type
    metrics, sums = federation.metrics, [0.0] * len(federation.metrics)
    piece = max(1, min(AT_ONCE[kind], VALUES_AT_ONCE[kind] // max(1, x[0].numel())))
    for begin in range(0, len(x), piece):
        here, truth = x[begin : begin + piece], y[begin : begin + piece]
        shown = federation.examples.scaled(here)
        mean, hits, output = _piece(federation.model, logits_of, shown, truth, classes)
        loss += mean.double() * len(here)
        right += hits
        if metrics:
            output = logits_of(shown) if output is None else output
            sums = [total + mean_of(one, output, truth) * len(here) for total, one in zip(sums, metrics, strict=True)]
    whole = float(loss) / len(x)
    others = tuple(one.finish(total / len(x)) for total, one in zip(sums, metrics, strict=True))
    if not classes:
        nothing = np.full(federation.clients, np.nan)
        return Judgement(whole, float("nan"), nothing, others)
    seen = np.bincount(federation.dataset.test_y.astype(np.int64), minlength=classes)
    by_class = right.cpu().numpy() / np.maximum(seen, 1)
    return Judgement(whole, float(right.sum()) / len(x), client_mix(federation) @ by_class, others)


def _piece(
    model: FlatModel, logits_of: Predictor, x: Tensor, y: Tensor, classes: int
) -> tuple[Tensor, Tensor | int, Tensor | None]:
    """Return the mean loss, how many of each class are classified correctly, and the output if it was computed."""
    if not classes:
        return model.loss(model.module, x, y), 0, None
    logits = logits_of(x)
    usual = model.loss is cross_entropy  # then the network need not be run again
    loss = functional.cross_entropy(logits, y) if usual else model.loss(model.module, x, y)
    hits = (logits.argmax(1) == y).long()
    return loss, torch.zeros(classes, dtype=torch.int64, device=y.device).index_add_(0, y.long(), hits), logits


def client_mix(federation: Federation) -> NDArray[np.float64]:
    """Return the share of each class among each client's examples."""
    table = federation.partition.table(federation.dataset.train_y, federation.dataset.classes).astype(np.float64)
    return np.asarray(table / table.sum(axis=1, keepdims=True))
