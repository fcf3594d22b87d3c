"""FlatModel: a PyTorch module whose parameters, gradients and statistics are three flat vectors.

A model in flight is then one tensor, an update is one tensor, and every algorithm is arithmetic on vectors. The
module's parameters are views of the vector `params`, their gradients views of `grad`, and floating-point buffers
(running means and variances of BatchNorm) views of `stats`. Other buffers, such as counters, are reset before every
task. Parameters that need no gradient are not part of the vector and never change.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sojourn.errors import InvalidInput
from sojourn.learning.layout import Layout

Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]

_ENGINE: Any = getattr(torch.autograd.Variable, "_execution_engine", None)  # see `_backward`
_RANDOM = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.RReLU)


def cross_entropy(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy of the module's logits."""
    return entropy(module(x), y)


def entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy; sequences may have their logits last, [examples, places, classes]."""
    if logits.dim() > 2 and logits.shape[:-1] == y.shape:
        logits, y = logits.flatten(0, -2), y.flatten()
    return nn.functional.cross_entropy(logits, y)


def own_loss(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The loss that the module itself defines."""
    value = module.loss(x, y)  # type: ignore[operator]
    assert isinstance(value, Tensor)
    return value


class FlatModel:
    """A module at any point of its parameter space; `precision` is that of products: fp32, tf32 or bf16."""

    def __init__(
        self,
        module: nn.Module,
        loss: Loss | None = None,
        chance: bool | None = None,
        precision: str = "fp32",
        channels_last: bool = False,
    ) -> None:
        """`channels_last` has convolution kernels lie so in the vector, which is fast on a GPU. A vector that other
        processes are to understand has all parameters as PyTorch has them.
        """
        self.module, self.half = module, precision == "bf16"
        self._tensor_float = precision == "tf32"
        self.loss = loss or (own_loss if hasattr(module, "loss") else cross_entropy)
        trained = [(name, one) for name, one in module.named_parameters() if one.requires_grad]
        if not trained:
            raise InvalidInput("a model must have a parameter that is trained, this one has none; unfreeze some")
        parameters = [one for _, one in trained]
        first = parameters[0]
        self.layout = Layout(
            tuple(name for name, _ in trained), tuple(parameter.shape for parameter in parameters), channels_last
        )
        """Where each parameter lies in the vector."""
        self.params = self.flatten([parameter.detach() for parameter in parameters])
        self.grad = torch.zeros_like(self.params)
        for parameter, here, slope in zip(parameters, self.parts(self.params), self.parts(self.grad), strict=True):
            parameter.data = here
            parameter.grad = slope
        buffers = [buffer for buffer in module.buffers() if buffer.is_floating_point()]
        self._stat_shapes = [buffer.shape for buffer in buffers]
        flat = [buffer.detach().reshape(-1).to(first.dtype) for buffer in buffers]
        self.stats = torch.cat(flat) if flat else torch.empty(0, dtype=first.dtype, device=first.device)
        for buffer, here in zip(buffers, self.stat_parts(self.stats), strict=True):
            buffer.data = here
        self._counters = [(one, one.clone()) for one in module.buffers() if not one.is_floating_point()]
        self._one = torch.ones((), dtype=first.dtype, device=first.device)
        found = any(isinstance(part, _RANDOM) for part in module.modules())
        self.random = found if chance is None else chance
        """Whether the module uses random numbers, so that every task must set their seed; None = look for layers known
        to.
        """

    def flatten(self, parts: Sequence[Tensor]) -> Tensor:
        """Return one vector of the parameters, or of tensors with their shapes."""
        return self.layout.flatten(parts)

    def parts(self, flat: Tensor) -> list[Tensor]:
        """Return the parameters as views of a vector, or of many stacked vectors."""
        return self.layout.parts(flat)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters in the vector."""
        return self.layout.names

    @property
    def shapes(self) -> tuple[torch.Size, ...]:
        """Their shapes."""
        return self.layout.shapes

    def stat_parts(self, flat: Tensor) -> list[Tensor]:
        """Return the statistics as views of a vector, or of many stacked vectors."""
        pieces = torch.split(flat, [shape.numel() for shape in self._stat_shapes], dim=-1)
        return [piece.view(*flat.shape[:-1], *shape) for piece, shape in zip(pieces, self._stat_shapes, strict=True)]

    @property
    def whole(self) -> bool:
        """Whether every parameter of the module is in the vector, none of them frozen."""
        return all(one.requires_grad for one in self.module.parameters())

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.params.numel()

    def at(self, params: Tensor, stats: Tensor | None = None) -> nn.Module:
        """Return the module with these parameters and statistics copied into it, for evaluation."""
        self.params.copy_(params)
        self.begin(stats)
        return self.module

    def state(self, params: Tensor, stats: Tensor) -> dict[str, Tensor]:
        """Return copies of these parameters and statistics by the names that they have in the module.

        The module itself is not touched, so that another thread may use it.
        """
        first = {id(counter): value for counter, value in self._counters}
        found = {}
        for name, one in self.module.state_dict(keep_vars=True).items():
            home = one.untyped_storage().data_ptr()
            flat = next(
                (flat for mine, flat in ((self.params, params), (self.stats, stats)) if _at(mine) == home), None
            )
            if flat is None or not one.numel():
                here = first.get(id(one), one)
            else:
                here = flat.as_strided(one.shape, one.stride(), flat.storage_offset() + one.storage_offset())
            found[name] = here.detach().contiguous().clone()
        return found

    def prepare(self) -> None:
        """Set the precision of products on a GPU, a setting of the whole process, to that of this model."""
        if self.params.is_cuda:
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = self._tensor_float

    def begin(self, stats: Tensor | None) -> None:
        """Set the statistics, and reset the counters."""
        if stats is not None and self.stats.numel():
            self.stats.copy_(stats)
        for counter, first in self._counters:
            counter.copy_(first)

    def gradient(self, params: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradient of the mean loss over a batch, and the loss. The module updates its statistics."""
        self.params.copy_(params)
        self.grad.zero_()
        if self.half:
            with torch.autocast(params.device.type, torch.bfloat16):
                loss = self.loss(self.module, x, y)
        else:
            loss = self.loss(self.module, x, y)
        _backward(loss, self._one)
        return self.grad.clone(), loss.detach()


def _backward(loss: Tensor, one: Tensor) -> None:
    """Call loss.backward() without its argument checks, which are not needed here and cost as much as small layers.

    This is the only private call of PyTorch. With `loss.backward` instead, the replay of a small perceptron takes 1.15
    to 1.24 times as long as a plain loop, with `torch.autograd.grad` 1.19 to 1.27, with this 1.03 to 1.16 in the same
    rounds (benchmarks/training.py). If PyTorch does not have it, `loss.backward` is used.
    """
    if _ENGINE is None:
        loss.backward(one)  # type: ignore[no-untyped-call]
    else:
        _ENGINE.run_backward((loss,), (one,), False, False, (), True, accumulate_grad=True)


def _at(tensor: Tensor) -> int:
    """Return where the memory of a tensor begins."""
    return tensor.untyped_storage().data_ptr()
