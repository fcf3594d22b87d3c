"""Join a federation from Python, with objects: a module and data, or a training loop of one's own."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sojourn.errors import InvalidInput
from sojourn.learning.algorithms.table import algorithm as chosen
from sojourn.learning.data.given import dataset_of
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.wrappers.base import Wrapper
from sojourn.learning.wrappers.table import wrapper, wrappers
from sojourn.learning.wrappers.wrapped import fitted, wrapped
from sojourn.live.remembering import fingerprint, remembering
from sojourn.live.settings import check_address, check_secure
from sojourn.live.worker import LoopWorker, OwnDataWorker, Worker


def join_as(
    address: str,
    model: Any,
    data: Any,
    fit: Callable[..., Any] | None,
    name: str | None,
    keys: str | Path | None,
    insecure: bool,
    loss: Callable[..., Any] | None,
    give_up: float | None,
    stop: threading.Event | None,
    algorithm: Any,
    wrap: Any,
) -> dict[str, int]:
    """Run one client until the run ends; see `sojourn.live.client`."""
    from sojourn.live.engines.grpc.client import run_clients
    from sojourn.live.keys import ClientKeys

    check_address(address)
    check_secure(address, keys is not None, insecure)
    torch.set_num_threads(1)
    held = None if keys is None else ClientKeys.load(Path(keys))
    called = name or (None if held is None else held.name)
    if not called:
        raise InvalidInput("a client without keys needs a name, got none; write name='oslo'")
    around = _wrappers(wrap)
    worker, held_model = _worker(model() if isinstance(model, type) else model, data, fit, loss, around)
    made = wrapped(chosen(algorithm) if isinstance(algorithm, str) else algorithm, around)
    worker = remembering(worker, (fitted(made, held_model.layout), fingerprint(made, held_model)))
    return run_clients(address, {called: worker}, keys=held, stop=stop, patience=give_up)


def _wrappers(given: Any) -> list[Wrapper]:
    if given is None or isinstance(given, str):
        return wrappers(given)
    many = given if isinstance(given, list | tuple) else [given]
    return [wrapper(one) if isinstance(one, str) else one for one in many]


def _worker(
    module: Any, data: Any, fit: Callable[..., Any] | None, loss: Callable[..., Any] | None, around: list[Wrapper]
) -> tuple[Worker, FlatModel]:
    if not isinstance(module, nn.Module):
        raise InvalidInput(f"model must be an nn.Module, got {type(module).__name__}; give one like the server's")
    if (fit is None) == (data is None):
        raise InvalidInput("give data, or fit for a training loop of your own, one of them")
    for one in around:
        module = one.of_module(module, 0)  # what is random in it comes from the server
    if fit is not None:
        looping = LoopWorker(module, fit)
        return looping, looping.model
    model = FlatModel(module, loss, chance=True)
    return OwnDataWorker(model, dataset_of(data)), model
