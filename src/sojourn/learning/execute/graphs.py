"""Gradients of many models on a GPU: a CUDA graph is captured once and replayed without the host.

A graph belongs to a number of models, a power of two (unused places of the last one compute on old data), and to a
shape of batch. Batches and models are copied into its buffers before it is replayed. How the models of a graph are
computed:

stacked      as one, by kernels for stacked models: networks of known layers with few channels, in bfloat16
side by side each by its own kernels, as in PyTorch, on one of several streams: all others

With `bf16` a graph's models, activations and gradients are bfloat16; what is sent, stored and averaged stays float32.
"""

from copy import deepcopy
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value

from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.execute.stacked.network import losses, stackable, stacked_values
from sojourn.learning.execute.waves import Lossy

MOST = 16  # most models in a graph
STREAMS = 8
SHAPES = 8  # shapes of batches that get graphs; clients with few examples may cause many more


class _Graph(NamedTuple):
    """A captured graph with its buffers; None = not captured, computed directly."""

    graph: Any
    params: Tensor
    stats: Tensor
    x: Tensor
    y: Tensor
    gradients: Tensor
    losses: Tensor


class Graphs:
    """Stacked gradients of one model's architecture."""

    def __init__(self, model: FlatModel, dtype: torch.dtype, stacked: bool | None = None) -> None:
        self._model, self._dtype, self._device = model, dtype, model.params.device
        self._graphs: dict[tuple[int, tuple[int, ...]], _Graph] = {}
        self._shapes: set[tuple[int, ...]] = set()
        self._pool = torch.cuda.graph_pool_handle()  # shared by the activations of all graphs, since one runs at a time
        possible = stackable(model) and dtype == torch.bfloat16
        use = possible if stacked is None else stacked
        self._how: _Stacked | _SideBySide = _Stacked(model) if use else _SideBySide(model)

    def __call__(
        self, params: Tensor, stats: Tensor | None, x: Tensor, y: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return gradients, losses and updated statistics of stacked models on stacked batches."""
        self._model.prepare()
        rows = len(params)
        gradients = torch.empty(rows, self._model.size, dtype=params.dtype, device=self._device)
        found = torch.empty(rows, dtype=params.dtype, device=self._device)
        moved = None if stats is None else torch.empty_like(stats)
        for begin in range(0, rows, MOST):
            part = slice(begin, min(rows, begin + MOST))
            many = part.stop - begin
            graph = self._graph(max(2, 1 << (many - 1).bit_length()), x, y)
            graph.params[:many].copy_(params[part])
            graph.x[:many].copy_(x[part])
            graph.y[:many].copy_(y[part])
            if stats is not None:
                graph.stats[:many].copy_(stats[part])
            if graph.graph is None:
                self._how.fill(graph)
            else:
                graph.graph.replay()
            gradients[part].copy_(graph.gradients[:many])
            found[part].copy_(graph.losses[:many])
            if moved is not None:
                moved[part].copy_(graph.stats[:many])
        return gradients, found, moved

    def _graph(self, many: int, x: Tensor, y: Tensor) -> _Graph:
        key = (many, tuple(x.shape[1:]))
        if key not in self._graphs:
            if key[1] not in self._shapes and len(self._shapes) == SHAPES:
                return self._buffers(many, x, y)
            self._shapes.add(key[1])
            self._graphs[key] = self._capture(many, x, y)
        return self._graphs[key]

    def _buffers(self, many: int, x: Tensor, y: Tensor) -> _Graph:
        model, dtype, device = self._model, self._dtype, self._device
        return _Graph(
            graph=None,
            params=_rows(many, model.params, dtype),
            stats=_rows(many, model.stats, self._how.stats_dtype or dtype),
            x=_channels_last(many, x, dtype),
            y=torch.zeros(many, *y.shape[1:], dtype=y.dtype, device=device),
            gradients=torch.zeros(many, model.size, dtype=model.params.dtype, device=device),
            losses=torch.zeros(many, dtype=model.params.dtype, device=device),
        )

    def _capture(self, many: int, x: Tensor, y: Tensor) -> _Graph:
        device = self._device
        made = self._buffers(many, x, y)._replace(graph=torch.cuda.CUDAGraph())
        before = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        before.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(before):
            for _ in range(2):  # compile, choose algorithms, fill caches
                self._how.warm(made)
        torch.cuda.current_stream(device).wait_stream(before)
        with torch.cuda.graph(made.graph, pool=self._pool):
            self._how.fill(made)
        return made


class _Stacked:
    """The models of a graph as one."""

    stats_dtype = torch.float32

    def __init__(self, model: FlatModel) -> None:
        self._model = model
        # compiled for the first number of models, then once more for any: torch.compile detects what varies
        self._fused: Any = torch.compile(self._losses)

    def warm(self, graph: _Graph) -> None:
        """Run once, before capture."""
        self.fill(graph)

    def fill(self, graph: _Graph) -> None:
        """Gradients, losses and statistics into the graph's buffers."""
        leaf = graph.params.detach().requires_grad_()
        found, moved = self._fused(leaf, graph.stats, graph.x, graph.y)
        graph.gradients.copy_(torch.autograd.grad(found.sum(), leaf)[0])
        graph.losses.copy_(found.detach())
        graph.stats.copy_(moved)

    def _losses(self, flat: Tensor, stats: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        module, values = self._model.module, stacked_values(self._model, flat, stats)
        kept = [name for name, buffer in module.named_buffers() if buffer.is_floating_point()]
        found = losses(module, values, x, y)
        return found, torch.cat([values[name] for name in kept], dim=1) if kept else stats


class _SideBySide:
    """Each model of a graph separately, on one of several streams."""

    stats_dtype = None

    def __init__(self, model: FlatModel) -> None:
        self._model, self._lossy = model, _without_counters(Lossy(model))
        self._fused: Any = torch.compile(self._gradient) if find_spec("triton") else self._gradient
        self._streams = [torch.cuda.Stream(model.params.device) for _ in range(STREAMS)]  # type: ignore[no-untyped-call]

    def warm(self, graph: _Graph) -> None:
        """Run once, before capture: the first model, and the last, which may lie differently in memory."""
        self._one(graph, 0)
        self._one(graph, len(graph.params) - 1)

    def fill(self, graph: _Graph) -> None:
        """Gradients, losses and statistics into the graph's buffers."""
        here = torch.cuda.current_stream(graph.params.device)
        for stream in self._streams:
            stream.wait_stream(here)
        for row in range(len(graph.params)):
            with torch.cuda.stream(self._streams[row % STREAMS]):
                self._one(graph, row)
        for stream in self._streams:
            here.wait_stream(stream)

    def _one(self, graph: _Graph, row: int) -> None:
        slope, loss = self._fused(graph.params[row], graph.stats[row], graph.x[row], graph.y[row])
        graph.gradients[row].copy_(slope)
        graph.losses[row].copy_(loss)

    def _gradient(self, flat: Tensor, stats: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return gradient and loss of one model, and update its statistics."""
        names = [f"module.{name}" for name in self._model.names]
        kept = [name for name, buffer in self._lossy.named_buffers() if buffer.is_floating_point()]
        buffers = dict(zip(kept, self._model.stat_parts(stats), strict=True))

        def loss(point: Tensor) -> Tensor:
            given = dict(zip(names, self._model.parts(point), strict=True))
            value = functional_call(self._lossy, {**given, **buffers}, (x, y))
            assert isinstance(value, Tensor)
            return value

        slope, value = grad_and_value(loss)(flat)
        return slope, value


def _without_counters(lossy: Lossy) -> Lossy:
    """Return a copy whose BatchNorm layers do not count batches: the count is not used and cannot be captured."""
    copied = deepcopy(lossy)
    for part in copied.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.momentum is not None:
            part.num_batches_tracked = None
    return copied


def _rows(many: int, vector: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a vector many times; rows begin at addresses that a GPU reads fast."""
    size = vector.numel()
    room = torch.zeros(many, -(-size // 128) * 128, dtype=dtype, device=vector.device)
    room[:, :size] = vector
    return room[:, :size]


def _channels_last(many: int, x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a buffer for batches; images lie with their channels last."""
    shape = x.shape[1:]
    if len(shape) != 4:
        return torch.zeros(many, *shape, dtype=dtype, device=x.device)
    batch, depth, height, width = shape
    return torch.zeros(many, batch, height, width, depth, dtype=dtype, device=x.device).permute(0, 1, 4, 2, 3)
