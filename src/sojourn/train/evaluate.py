"""How good a model is: loss and accuracy on the test examples, for all and for each client's mix of classes."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sojourn.train.federation import Federation

AT_ONCE = 2000
VALUES_AT_ONCE = 2**21  # of large examples fewer: what a network makes of them has to fit too
PERCENTILES = (0, 10, 50, 90)


class Judgement(NamedTuple):
    """What a model is worth."""

    loss: float
    """Mean loss on the test examples."""
    accuracy: float
    """Share of them that are classified rightly; NaN = there are no classes."""
    clients: NDArray[np.float64]
    """Accuracy for each client: of its classes, in its own proportions; NaN = there are no classes."""

    def percentiles(self) -> list[float]:
        """Accuracy of the worst client, and those that 10%, 50% and 90% of the clients do not reach."""
        if np.isnan(self.clients).any():
            return [float("nan")] * len(PERCENTILES)
        return [float(value) for value in np.percentile(self.clients, PERCENTILES)]


def judge(federation: Federation, params: Tensor, stats: Tensor) -> Judgement:
    """Evaluate a model on the test set."""
    module = federation.model.at(params, stats)
    module.eval()
    try:
        with torch.no_grad():
            return _judge(federation, module)
    finally:
        module.train()


def _judge(federation: Federation, module: nn.Module) -> Judgement:
    x, y, classes = federation.examples.test_x, federation.examples.test_y, federation.dataset.classes
    loss = torch.zeros((), dtype=torch.float64, device=x.device)
    right = torch.zeros(max(classes, 1), dtype=torch.int64, device=x.device)
    piece = max(1, min(AT_ONCE, VALUES_AT_ONCE // max(1, x[0].numel())))
    for begin in range(0, len(x), piece):
        here, truth = x[begin : begin + piece], y[begin : begin + piece]
        here = federation.examples.scaled(here)
        loss += federation.model.loss(module, here, truth).double() * len(here)
        if classes:
            hits = module(here).argmax(1) == truth
            right += torch.bincount(truth[hits].long(), minlength=classes)
    mean = float(loss) / len(x)
    if not classes:
        nothing = np.full(federation.clients, np.nan)
        return Judgement(mean, float("nan"), nothing)
    seen = np.bincount(federation.dataset.test_y.astype(np.int64), minlength=classes)
    by_class = right.cpu().numpy() / np.maximum(seen, 1)
    return Judgement(mean, float(right.sum()) / len(x), client_mix(federation) @ by_class)


def client_mix(federation: Federation) -> NDArray[np.float64]:
    """Share of each class among each client's examples."""
    table = federation.partition.table(federation.dataset.train_y, federation.dataset.classes).astype(np.float64)
    return np.asarray(table / table.sum(axis=1, keepdims=True))
