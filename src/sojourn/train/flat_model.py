"""FlatModel: a PyTorch module whose parameters, gradients and statistics are three flat vectors.

A model in flight is then one tensor, an update is one tensor, and every algorithm is arithmetic on vectors. The
module's parameters are views of the vector `params`, their gradients views of `grad`, and floating-point buffers
(running means and variances of BatchNorm) views of `stats`. Other buffers, counters, begin every task as they were.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]

_RANDOM = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.RReLU)


def cross_entropy(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy of the module's logits."""
    return nn.functional.cross_entropy(module(x), y)


def own_loss(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The loss that the module itself defines."""
    value = module.loss(x, y)  # type: ignore[operator]
    assert isinstance(value, Tensor)
    return value


class FlatModel:
    """A module at any point of its parameter space."""

    def __init__(self, module: nn.Module, loss: Loss | None = None, chance: bool | None = None) -> None:
        self.module = module
        self.loss = loss or (own_loss if hasattr(module, "loss") else cross_entropy)
        parameters = list(module.parameters())
        first = parameters[0]
        sizes = [parameter.numel() for parameter in parameters]
        self.params = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
        self.grad = torch.zeros_like(self.params)
        for parameter, here, slope in zip(
            parameters, _split(self.params, sizes), _split(self.grad, sizes), strict=True
        ):
            parameter.data = here.view(parameter.shape)
            parameter.grad = slope.view(parameter.shape)
        self.stats = _flatten_buffers(module, first.dtype, first.device)
        self._counters = [(one, one.clone()) for one in module.buffers() if not one.is_floating_point()]
        self._one = torch.ones((), dtype=first.dtype, device=first.device)
        found = any(isinstance(part, _RANDOM) for part in module.modules())
        self.random = found if chance is None else chance
        """Whether the module rolls dice, so that every task must set them; None = look for layers known to."""

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.params.numel()

    def at(self, params: Tensor, stats: Tensor | None = None) -> nn.Module:
        """The module with these parameters and statistics, for evaluation; they are copied in."""
        self.params.copy_(params)
        self.begin(stats)
        return self.module

    def begin(self, stats: Tensor | None) -> None:
        """Set the statistics, and the counters back."""
        if stats is not None and self.stats.numel():
            self.stats.copy_(stats)
        for counter, first in self._counters:
            counter.copy_(first)

    def gradient(self, params: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient of the mean loss over a batch, and the loss. Statistics move on as the module has them do."""
        self.params.copy_(params)
        self.grad.zero_()
        loss = self.loss(self.module, x, y)
        _backward(loss, self._one)
        return self.grad.clone(), loss.detach()


def _backward(loss: Tensor, one: Tensor) -> None:
    """loss.backward(), without its checks of arguments that cannot be wrong here: they cost as much as small layers."""
    engine = getattr(torch.autograd.Variable, "_execution_engine", None)
    if engine is None:
        loss.backward(one)  # type: ignore[no-untyped-call]
    else:
        engine.run_backward((loss,), (one,), False, False, (), True, accumulate_grad=True)


def _flatten_buffers(module: nn.Module, dtype: torch.dtype, device: torch.device) -> Tensor:
    buffers = [buffer for buffer in module.buffers() if buffer.is_floating_point()]
    if not buffers:
        return torch.empty(0, dtype=dtype, device=device)
    sizes = [buffer.numel() for buffer in buffers]
    flat = torch.cat([buffer.detach().reshape(-1).to(dtype) for buffer in buffers])
    for buffer, here in zip(buffers, _split(flat, sizes), strict=True):
        buffer.data = here.view(buffer.shape)
    return flat


def _split(flat: Tensor, sizes: list[int]) -> list[Tensor]:
    return list(torch.split(flat, sizes))
