"""The client's side: it does the local work which the server asks for, with sojourn's own workers."""

from collections.abc import Callable
from typing import Any

import torch
from flwr.app import Context, Message
from torch import nn

from sojourn.errors import InvalidInput
from sojourn.learning.data.given import dataset_of
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.run.build import build
from sojourn.learning.run.config import TrainConfig
from sojourn.live.engines.flower.records import Carried, task_of, update_content
from sojourn.live.engines.flower.words import asked
from sojourn.live.worker import FederationWorker, LoopWorker, OwnDataWorker, Worker


def trained(message: Message, worker: Worker, model: Carried) -> Message:
    """Do the task of a message, and return the reply."""
    ask = asked(message)
    if ask is None:
        raise InvalidInput("this app works for sojourn's server only, the message is from another; use its app")
    torch.set_num_threads(1)
    task, work = task_of(message, ask.facts, model)
    worker.begin(task.client, work)
    return Message(update_content(worker.compute(task), worker.examples, model), reply_to=message)


def of_objects(
    context: Context, model: Any, data: Any, fit: Callable[..., Any] | None, loss: Callable[..., Any] | None
) -> tuple[Worker, Carried]:
    """Make a worker from a module and data, or from a module and a training loop; return it with its model.

    Data may be a function of the node's Context, so that each SuperNode loads its own.
    """
    module = model if isinstance(model, nn.Module) else model()
    if not isinstance(module, nn.Module):
        raise InvalidInput(f"model must be an nn.Module, got {type(module).__name__}; give one like the server's")
    carried = Carried(module)
    if fit is not None:
        return LoopWorker(module, fit), carried
    held = data(context) if callable(data) and not hasattr(data, "__getitem__") else data
    return OwnDataWorker(FlatModel(module, loss, chance=True), dataset_of(held)), carried


def of_run_keys(config: TrainConfig) -> tuple[Worker, Carried]:
    """Make a worker from the keys of the run: it computes on its client's part of the run's data."""
    federation = build(config.resolved(execution="one-by-one"), portable=True).federation
    return FederationWorker(federation), Carried(federation.model)
