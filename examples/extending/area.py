"""AREA in one file: the server's model is the mean of the clients' latest models, and clients remember their own.

    client i:  x_i <- its model after K local steps from w;   sends x_i - y_i;   y_i <- x_i
    server:    w <- w + (1/n) (x_i - y_i)                     with each arrival

y_i is the model that client i reported last, at first the first model. So w is always the mean of the y_i, and every
client has the same weight in it, however often it reports. The server keeps one model, a client one.

Special cases: with n = 1 it is local SGD at that client. If every client reports once between two models that are sent,
it is FedAvg.

Decided: the server applies every arrival at once (the paper lets it gather some), and the next task goes to the client
that has finished. A client that forgets its y_i would break the mean, so that AREA does not run live, where clients may
be started again.

Iakovidou, Kim, "Asynchronous federated stochastic optimization for heterogeneous objectives under arbitrary delays",
arXiv 2405.10123.

Check it: python examples/extending/area.py
Enter it: PYTHONPATH=examples/extending python examples/field enter area:Area
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from sojourn.algorithms import Arrival, Info, Sent, Setting, Standard, Update, everybody, storable


@storable("area.state")
class State(NamedTuple):
    """The server's model, how often it changed, the first model, and the number of clients."""

    params: torch.Tensor
    version: int
    clients: int


@storable("area.reported")
class Reported(NamedTuple):
    """What a client keeps: the model that it reported last."""

    model: torch.Tensor


@dataclass(frozen=True)
class Area(Standard):
    """Asynchronous exact averaging: the mean of the clients' latest models."""

    name = "area"
    sends = "delta"
    remembers = True
    must_remember = True  # who begins anew would report all of its model once more
    needs_sent = False

    def timing(self, fleet: Any, plan: Any, local: Any) -> Any:
        """Keep every client at work, so that its first task carries the first model."""
        return everybody(fleet, plan, local)

    def init(self, params: torch.Tensor, setting: Setting) -> State:
        """Start from the first model, which counts as reported by all."""
        return State(params, 0, setting.clients)

    def finish(self, kept: Any, sent: Sent, start: torch.Tensor, update: Update) -> tuple[Reported, Update]:
        """Send the change since the last report; a client's first task carries the first model."""
        mine = start + update.as_delta()
        before = sent.params if kept is None else kept.model
        return Reported(mine), update._replace(gradient=None, delta=mine - before)

    def apply(self, state: State, arrival: Arrival) -> tuple[State, Info]:
        """Replace the client's part of the mean."""
        params = torch.add(state.params, arrival.update.as_delta(), alpha=1 / state.clients)
        return state._replace(params=params, version=state.version + 1), Info()


if __name__ == "__main__":
    from sojourn.testing import check_algorithm

    check_algorithm(Area(), steps=200)
    print("Area has every property")
