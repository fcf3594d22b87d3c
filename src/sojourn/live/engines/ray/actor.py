"""Actor: a process with clients; it serves the tasks in its mailbox one at a time, in the order in which they came."""

import time
from typing import Any

import torch
from numpy.typing import NDArray

from sojourn.errors import SojournError
from sojourn.live.engines.ray.errand import Errand, Result, array_of, tensor_of
from sojourn.live.worker import Task, Worker

Model = tuple[NDArray[Any], NDArray[Any] | None]
"""A model, flat, and its statistics; None = it has none."""


class Clients:
    """The clients of one process."""

    def __init__(self, errand: Errand) -> None:
        """Nothing is built here, so that what goes wrong can be said by `begin`."""
        self._errand = errand
        self._worker: Worker | None = None

    def begin(self) -> str:
        """Load data and model; return what is wrong in a sentence; "" = nothing."""
        torch.set_num_threads(1)
        try:
            self._worker = self._errand.worker()
        except SojournError as error:
            return str(error)
        return ""

    def work(self, model: Model, client: int, nth: int, step: int, step_size: float, steps: int) -> Result:
        """Do one task."""
        assert self._worker is not None
        begun = time.monotonic()
        params, stats = tensor_of(model[0]), None if model[1] is None else tensor_of(model[1])
        update = self._worker.compute(Task(client, nth, step, params, stats, step_size, steps))
        vector = update.delta if update.gradient is None else update.gradient
        assert vector is not None
        return Result(
            array_of(vector.to(params.dtype)),
            None if update.stats is None else array_of(update.stats.to(params.dtype)),
            update.gradient is not None,
            update.step_size,
            update.steps,
            0.0 if update.loss is None else float(update.loss),
            time.monotonic() - begun,
            self._worker.service(client, nth),
        )
