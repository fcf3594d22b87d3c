"""Join a federation from Python, with objects: a module and data, or a training loop of one's own."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sojourn.errors import InvalidInput
from sojourn.learning.data.given import dataset_of
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.live.worker import LoopWorker, OwnDataWorker, Worker


def join_as(
    address: str,
    model: Any,
    data: Any,
    fit: Callable[..., Any] | None,
    name: str | None,
    keys: str | Path | None,
    loss: Callable[..., Any] | None,
    give_up: float | None,
    stop: threading.Event | None,
) -> dict[str, int]:
    """Run one client until the run ends; see `sojourn.live.client`."""
    from sojourn.live.engines.grpc.client import run_clients
    from sojourn.live.keys import ClientKeys

    torch.set_num_threads(1)
    held = None if keys is None else ClientKeys.load(Path(keys))
    called = name or (None if held is None else held.name)
    if not called:
        raise InvalidInput("a client without keys needs a name, got none; write name='oslo'")
    worker = _worker(model() if isinstance(model, type) else model, data, fit, loss)
    return run_clients(address, {called: worker}, keys=held, stop=stop, patience=give_up)


def _worker(module: Any, data: Any, fit: Callable[..., Any] | None, loss: Callable[..., Any] | None) -> Worker:
    if not isinstance(module, nn.Module):
        raise InvalidInput(f"model must be an nn.Module, got {type(module).__name__}; give one like the server's")
    if (fit is None) == (data is None):
        raise InvalidInput("give data, or fit for a training loop of your own, one of them")
    if fit is not None:
        return LoopWorker(module, fit)
    return OwnDataWorker(FlatModel(module, loss, chance=True), dataset_of(data))
