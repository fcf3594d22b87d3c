"""How the server steps along a gradient: SGD, momentum, Adam, Yogi.

Adam and Yogi keep the mean m of the gradients and a mean square v, and step by m / (sqrt(v) + epsilon), both corrected
for their start at zero. Adam's v is an exponential mean of g^2. Yogi's moves towards g^2 by (1 - beta2) g^2, whatever
the distance, so that it does not forget a large gradient at once:

    v <- v - (1 - beta2) sign(v - g^2) g^2

Zaheer, Reddi, Sachan, Kale, Kumar, "Adaptive methods for nonconvex optimization", NeurIPS 2018; Reddi et al., "Adaptive
federated optimization", ICLR 2021.
"""

from dataclasses import dataclass, field
from math import isfinite
from typing import NamedTuple

import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.learning.storable import storable
from sojourn.schedule import Schedule

KINDS = ("sgd", "momentum", "adam", "yogi")


@storable("server-memory")
class ServerMemory(NamedTuple):
    """What the server keeps from one step to the next."""

    taken: int = 0
    """Steps taken."""
    mean: Tensor | None = None
    """Velocity (momentum), or mean gradient (Adam, Yogi)."""
    square: Tensor | None = None
    """Mean squared gradient (Adam, Yogi)."""


@dataclass(frozen=True)
class ServerStep:
    """How the server turns a gradient into a step: SGD, momentum, Adam or Yogi.

    >>> rule = ServerStep(step_size=0.5)
    >>> rule.step(ServerMemory(), torch.tensor([1.0]), torch.tensor([2.0]), factor=1.0)[1]
    tensor([0.])
    """

    kind: str = "sgd"
    """The rule: sgd, momentum, adam or yogi."""
    step_size: float = 0.1
    """Step size (eta)."""
    momentum: float = 0.9
    """momentum: share of the velocity that is kept; adam, yogi: beta 1."""
    second: float = 0.99
    """adam, yogi: beta 2."""
    epsilon: float = 1e-8
    """adam, yogi: small number that is added to the root of the mean square."""
    schedule: Schedule = field(default_factory=Schedule)
    """Factor of the step size over steps or time."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidInput(f"the server's step must be one of {', '.join(KINDS)}, got '{self.kind}'")
        if not (isfinite(self.step_size) and self.step_size > 0):
            raise InvalidInput(f"the server's step size must be positive and finite, got {self.step_size}")
        if not (0 <= self.momentum < 1 and 0 <= self.second < 1):
            raise InvalidInput(f"momentum and second must lie in [0, 1), got {self.momentum} and {self.second}")

    def step_size_at(self, step: int, time: float) -> float:
        """Return the step size at a server step and a time in seconds."""
        return self.step_size * self.schedule.factor(step, time)

    def step(
        self, memory: ServerMemory, params: Tensor, gradient: Tensor, factor: float, step_size: float | None = None
    ) -> tuple[ServerMemory, Tensor]:
        """Step against `factor` times the gradient, and return the new memory and model; `step_size` overrides the
        rule's own.
        """
        eta = self.step_size if step_size is None else step_size
        if self.kind == "sgd":
            return memory, torch.add(params, gradient, alpha=-eta * factor)
        scaled = gradient * factor
        if self.kind == "momentum":
            velocity = scaled if memory.mean is None else torch.add(scaled, memory.mean, alpha=self.momentum)
            return ServerMemory(memory.taken + 1, velocity), torch.add(params, velocity, alpha=-eta)
        return self._adaptive(memory, params, scaled, eta)

    def _adaptive(
        self, memory: ServerMemory, params: Tensor, gradient: Tensor, eta: float
    ) -> tuple[ServerMemory, Tensor]:
        zero = torch.zeros_like(params)
        count = memory.taken + 1
        mean = torch.lerp(gradient, zero if memory.mean is None else memory.mean, self.momentum)
        before, now = zero if memory.square is None else memory.square, gradient.square()
        if self.kind == "adam":
            square = torch.lerp(now, before, self.second)
        else:
            square = torch.addcmul(before, torch.sign(before - now), now, value=self.second - 1)
        scale = (square / (1 - self.second**count)).sqrt_().add_(self.epsilon)
        moved = torch.addcdiv(params, mean, scale, value=-eta / (1 - self.momentum**count))
        return ServerMemory(count, mean, square), moved
