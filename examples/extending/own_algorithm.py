"""Your own algorithm in one file: clients get a running mean of the server's models.

    w_{k+1} = w_k - step_size * g,   sent to clients: the mean of the last models, with weight `share` for the newest

Run it:   python examples/extending/own_algorithm.py
Train it: PYTHONPATH=examples/extending sojourn train fleet.csv --algorithm 'own_algorithm:Averaged(share=0.2)' ...
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from sojourn.algorithms import Arrival, Info, Sent, ServerStep, Setting, Standard, storable


@storable("own_algorithm.averaged")  # checkpoints hold only declared classes
class State(NamedTuple):
    """The server's model, how often it changed, and the mean of its past."""

    params: torch.Tensor
    version: int
    mean: torch.Tensor


@dataclass(frozen=True)
class Averaged(Standard):  # Standard does the rest as most algorithms do
    """Asynchronous SGD whose clients get a running mean of the models."""

    server: ServerStep = field(default_factory=ServerStep)
    """How the server steps along a gradient, with the run's step size and schedule."""
    share: float = 0.5
    """Weight of the newest model in the mean; 1 = plain asynchronous SGD."""

    name = "averaged"
    sends = "gradient"

    def init(self, params: torch.Tensor, setting: Setting) -> State:
        """Start with the first model as the mean."""
        return State(params, 0, params)

    def send(self, state: State, client: int) -> Sent:
        """Send the mean."""
        return Sent(state.mean, state.version)

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Step against the gradient, and move the mean towards the new model."""
        size = self.server.step_size_at(arrival.step, arrival.time)
        params = state.params - size * arrival.update.as_gradient()
        return State(params, state.version + 1, torch.lerp(state.mean, params, self.share)), Info()


if __name__ == "__main__":
    from sojourn.testing import check_algorithm

    for share in (1.0, 0.5):
        check_algorithm(Averaged(share=share))
        print(f"Averaged(share={share}) has every property")
