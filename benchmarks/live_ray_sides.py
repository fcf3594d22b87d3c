"""The sides of the live benchmark on Ray: a bare loop, and a real live run whose clients compute nothing."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import ray
import torch

from sojourn.learning.replay.local import Update
from sojourn.learning.run.config import TrainConfig
from sojourn.live.engine import Engine, Work
from sojourn.live.engines.ray.crew import RayCrew
from sojourn.live.engines.ray.engine import RayEngine
from sojourn.live.run import LiveRun, Settings
from sojourn.live.worker import Task, Worker

STORE = 512 * 2**20  # bytes of the object store
START = 180.0  # seconds that actors may take to begin on a busy machine
LONG = 3600.0  # seconds that the server waits for an update: clients pause while another side works
FOR_EVER = 10**9
STEP_SIZE = np.float32(1e-3)


@contextmanager
def ray_started() -> Iterator[None]:
    """Start a Ray instance on this machine, as a live run does."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray.init(
        address="local",
        num_cpus=16,
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        object_store_memory=STORE,
        log_to_driver=False,
        logging_level="ERROR",
    )
    try:
        yield
    finally:
        ray.shutdown()


class Bare:
    """An actor that returns a prepared gradient."""

    def __init__(self, parameters: int) -> None:
        self._gradient = np.full(parameters, 1e-6, np.float32)

    def work(self, model: Any, client: int, nth: int) -> Any:
        """Return it."""
        return self._gradient


class BareLoop:
    """Send the model, wait for the first gradient that comes back, step along it, send the next."""

    def __init__(self, parameters: int, clients: int, actors: int) -> None:
        made = ray.remote(Bare).options(num_cpus=0)
        self.actors = [made.remote(parameters) for _ in range(actors)]
        self._model = np.zeros(parameters, np.float32)
        self._pending: dict[Any, int] = {}
        self._nth = [0] * clients
        ray.get([actor.work.remote(self._model, 0, 0) for actor in self.actors])

    def __call__(self, seconds: float) -> int:
        """Work for some seconds; return the steps."""
        begun, steps = time.monotonic(), 0
        if not self._pending:
            self._send(*range(len(self._nth)))
        while time.monotonic() - begun < seconds:
            done = ray.wait(list(self._pending), num_returns=1)[0][0]
            client = self._pending.pop(done)
            self._model = self._model - STEP_SIZE * ray.get(done)
            steps += 1
            self._send(client)
        return steps

    def _send(self, *clients: int) -> None:
        model = ray.put(self._model)
        for client in clients:
            actor = self.actors[client % len(self.actors)]
            self._pending[actor.work.remote(model, client, self._nth[client])] = client
            self._nth[client] += 1


bare = BareLoop


def end(loop: Callable[[float], int]) -> None:
    """End the actors of a bare loop."""
    for actor in getattr(loop, "actors", []):
        ray.kill(actor)


class Prepared:
    """A worker that computes nothing."""

    examples = 0

    def __init__(self, parameters: int) -> None:
        self._gradient, self._loss = torch.full((parameters,), 1e-6), torch.tensor(0.5)

    def begin(self, client: int, work: Work) -> None:
        """There is nothing to prepare."""

    def compute(self, task: Task) -> Update:
        """Return the prepared gradient."""
        return Update(self._gradient, None, task.step_size, 1, self._loss)

    def service(self, client: int, nth: int) -> float:
        """Return 0: at once."""
        return 0.0


class PreparedErrand(NamedTuple):
    """What our actors are told."""

    parameters: int

    def worker(self) -> Worker:
        """Return what computes nothing."""
        return Prepared(self.parameters)


def ours(
    held: ExitStack, folder: Path, clients: int, hidden: int, actors: int, durable: bool
) -> Callable[[float], int]:
    """Open a live run: C = n, at most one task per client; return the function that lets it work."""
    folder.mkdir()
    (folder / "fleet.csv").write_text(f"name,count,rate\nall,{clients},100\n")
    config = TrainConfig(
        fleet=str(folder / "fleet.csv"),
        concurrency=clients,
        cap="1",
        partition="iid",
        model=f"mlp(hidden={hidden})",
        device="cpu",
        steps=FOR_EVER,
        evaluate_every=FOR_EVER,
    )
    spread = [tuple(range(number, clients, actors)) for number in range(actors)]

    def connect(work: Work, epoch: int, names: dict[str, int]) -> Engine:
        crew = RayCrew([PreparedErrand(work.parameters)] * actors, {"num_cpus": 0})
        return RayEngine(crew, work, spread)

    settings = Settings(patience=LONG, durable=durable)
    run = held.enter_context(LiveRun(config, folder / "run", connect, settings))

    def work(seconds: float, least: int = 0) -> int:
        stop, before = threading.Event(), run.server.received
        until = time.monotonic() + seconds

        def watch() -> None:
            done = run.server.received - before
            if time.monotonic() > until or 0 < least <= done:
                stop.set()

        run.loop.run(stop, watch)
        return run.server.received - before

    if work(START, clients) < clients:
        raise SystemExit(f"the actors of the live run have not begun after {START:g} s")
    return work
