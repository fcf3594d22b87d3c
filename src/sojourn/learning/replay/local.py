"""What a client does with the model that it received: compute a gradient, or some local steps of SGD."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil, isfinite
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.storable import storable
from sojourn.schedule import Schedule

Batch = tuple[Tensor, Tensor]


@storable("update", renamed={"rate": "step_size"})
class Update(NamedTuple):
    """What a client sends back: a gradient or a difference of models, with facts about the local work."""

    gradient: Tensor | None
    """The stochastic gradient, if the task was one plain gradient; otherwise None."""
    delta: Tensor | None
    """Model after the local steps minus model before, if the task was not one plain gradient; otherwise None."""
    step_size: float
    """Step size of the local steps."""
    steps: int
    """Number of local steps done."""
    loss: Tensor | None
    """Mean loss over the task's batches, each at the model of that step; None = the client does not say."""
    stats: Tensor | None = None
    """The client's statistics (BatchNorm) after the task; None = the model has none."""
    bits: int | None = None
    """Bits that it takes on the way; None = as many as the algorithm's `bits_each_way` says."""
    key: int = 0
    """Random key of the task, for what the client or the server draws when it sends or receives the update."""
    clipped: Tensor | None = None
    """Whether its client has clipped it, 1 or 0; known in simulations only, None = not known."""
    remembered: int | None = None
    """Of a live client: the mark of its memory before the task; None = it has no memory, or in a simulation."""
    empty: bool = False
    """Whether it holds nothing that the server uses, as when a client only checks in; it passes through no wrapper."""

    @property
    def vector(self) -> Tensor:
        """The numbers that are sent: the gradient, or the difference of models."""
        vector = self.delta if self.gradient is None else self.gradient
        assert vector is not None
        return vector

    def with_vector(self, vector: Tensor, bits: int | None = None) -> "Update":
        """Return the update with other numbers in place of its own, and what they take on the way."""
        if self.gradient is None:
            return self._replace(delta=vector, bits=bits)
        return self._replace(gradient=vector, bits=bits)

    def emptied(self) -> "Update":
        """Return what is left of the update where the server uses nothing of it: that the client is there, which counts
        no bits, and the steps that it has done.
        """
        zero = torch.zeros_like(self.vector)
        return self.with_vector(zero, bits=0)._replace(loss=None, stats=None, clipped=None, empty=True)

    def on(self, device: torch.device) -> "Update":
        """Return the update with its tensors on a device; it may come from a client that computes on another."""
        if self.vector.device == device:
            return self
        moved: dict[str, Any] = {
            key: one.to(device) for key, one in zip(self._fields, self, strict=True) if isinstance(one, Tensor)
        }
        return self._replace(**moved)

    def as_gradient(self) -> Tensor:
        """Return the gradient; after several steps the pseudo-gradient (start - end) / step size, which is the sum of
        gradients.
        """
        if self.gradient is not None:
            return self.gradient
        assert self.delta is not None
        return self.delta / -self.step_size

    def as_delta(self) -> Tensor:
        """Return the model after the local steps minus the model before."""
        if self.delta is not None:
            return self.delta
        assert self.gradient is not None
        return self.gradient * -self.step_size


@dataclass(frozen=True)
class Local:
    """The local work of a client: how many steps of SGD, on which batches, with which options."""

    steps: int = 1
    """Local steps per task (K); periodic dispatchers may interrupt earlier."""
    epochs: int | None = None
    """Instead of `steps`: number of passes through the client's examples."""
    batch_size: int = 32
    """Number of examples per step."""
    step_size: float = 0.1
    """Step size of the local steps; it has no effect if one plain gradient is sent."""
    momentum: float = 0.0
    """Heavy-ball momentum, which starts from zero with every task."""
    weight_decay: float = 0.0
    """Weight decay: this number times the model is added to every gradient."""
    proximal: float = 0.0
    """Proximal term: this number times the difference from the model received is added to every gradient."""
    clip: float | None = None
    """Largest norm of a stochastic gradient; longer gradients are scaled down to it."""
    schedule: Schedule = field(default_factory=Schedule)
    """Schedule of the step size over steps or time, evaluated at dispatch."""

    def __post_init__(self) -> None:
        rules = {
            "steps": self.steps >= 1,
            "epochs": self.epochs is None or self.epochs >= 1,
            "batch_size": self.batch_size >= 1,
            "step_size": isfinite(self.step_size) and self.step_size > 0,
            "momentum": 0 <= self.momentum < 1,
            "weight_decay": isfinite(self.weight_decay) and self.weight_decay >= 0,
            "proximal": isfinite(self.proximal) and self.proximal >= 0,
            "clip": self.clip is None or self.clip > 0,
        }
        for key, kept in rules.items():
            if not kept:
                rule = {
                    "momentum": "at least 0 and below 1",
                    "weight_decay": "non-negative",
                    "proximal": "non-negative",
                }
                raise InvalidInput(f"local {key} must be {rule.get(key, 'positive')}, got {getattr(self, key)}")

    def steps_of(self, examples: int) -> int:
        """Return the local steps per task of a client with this many examples."""
        if self.epochs is None:
            return self.steps
        return self.epochs * ceil(examples / min(self.batch_size, examples))

    def step_size_at(self, step: int, time: float) -> float:
        """Return the step size of the local steps of a task that is dispatched at a server step and a time."""
        return self.step_size * self.schedule.factor(step, time)

    @property
    def plain(self) -> bool:
        """Whether a single step is just a plain gradient."""
        return self.epochs is None and self.steps == 1


def work(model: FlatModel, local: Local, start: Tensor, batches: Iterable[Batch], step_size: float) -> Update:
    """Do the local steps from `start`, and return the Update; a plain single gradient is returned as it is."""
    if not model.module.training:
        model.module.train()
    params, velocity, losses = start, None, []
    stats = model.stats if model.stats.numel() else None
    for x, y in batches:
        gradient, loss = model.gradient(params, x, y)
        losses.append(loss)
        gradient = _regularised(gradient, local, params, start)
        if local.plain:
            return Update(gradient, None, step_size, 1, loss, None if stats is None else stats.clone())
        if local.momentum:
            velocity = gradient if velocity is None else gradient.add_(velocity, alpha=local.momentum)
            gradient = velocity
        params = torch.add(params, gradient, alpha=-step_size)
    loss = torch.stack(losses).mean() if losses else torch.zeros((), dtype=start.dtype, device=start.device)
    return Update(None, params - start, step_size, len(losses), loss, None if stats is None else stats.clone())


def _regularised(gradient: Tensor, local: Local, params: Tensor, start: Tensor) -> Tensor:
    if local.clip is not None:
        norm = float(torch.linalg.vector_norm(gradient))
        if norm > local.clip:
            gradient.mul_(local.clip / norm)
    if local.weight_decay:
        gradient.add_(params, alpha=local.weight_decay)
    if local.proximal and params is not start:
        gradient.add_(params - start, alpha=local.proximal)
    return gradient
