"""Serve a live run over gRPC, and run its clients: what the command line and Python share."""

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sojourn.learning.run.build import Built, build
from sojourn.learning.run.config import TrainConfig
from sojourn.live.engine import Engine, Work
from sojourn.live.monitor import numbers, serving
from sojourn.live.pace import Pace
from sojourn.live.run import LiveRun, built_for
from sojourn.live.settings import ClientFile, ServerFile
from sojourn.live.worker import FederationWorker, OwnDataWorker, Worker

Watch = Callable[[LiveRun], None]


def open_server(
    config: TrainConfig,
    file: ServerFile,
    resume: bool = False,
    names: Mapping[str, int] | None = None,
    report: Callable[[str, Mapping[str, Any]], None] | None = None,
) -> LiveRun:
    """Open a live run and listen for its clients; `run` on it does the rest.

    Without `names` clients get numbers in the order in which they first join; a client keeps its number for ever.
    """
    config = advised(config)

    def connect(work: Work, epoch: int, known: dict[str, int]) -> Engine:
        from sojourn.live.engines.grpc.server import GrpcEngine

        keys, registry = _keys(file)
        given = dict(names or {}) | known
        clients = run_clients_of(config)
        free = [] if names else [one for one in range(clients) if one not in given.values()]
        return GrpcEngine(file.address, work, epoch=epoch, names=given, open_slots=free, keys=keys, registry=registry)

    return LiveRun(config, file.out, connect, file.settings, resume, report)


def advised(config: TrainConfig) -> TrainConfig:
    """Return the configuration with the robust policy if it says nothing of a policy: one task per client, to whoever
    is free, with correction 1/2.

    >>> advised(TrainConfig("fleet.csv")).cap, advised(TrainConfig("fleet.csv", concurrency=5)).cap
    ('1', None)
    """
    said = (config.plan, config.sampling, config.concurrency, config.cap, config.correction, config.dispatcher)
    if any(one is not None for one in said) or config.algorithm != TrainConfig.algorithm:
        return config
    return config.resolved(cap="1", correction=0.5)


def run_clients_of(config: TrainConfig) -> int:
    """Return the number of clients of a run's fleet."""
    from sojourn.learning.run.build import fleet_and_plan

    return fleet_and_plan(config)[0].clients


def serve(run: LiveRun, file: ServerFile, stop: threading.Event, watch: Watch | None = None) -> bool:
    """Run a live run to its end, with its metrics served meanwhile; return whether the end was reached."""
    with ExitStack() as held:
        held.enter_context(run)
        held.enter_context(serving(file.metrics_port, lambda: numbers(run)))
        return run.run(stop, watch)


def _keys(file: ServerFile) -> tuple[Any, Any]:
    if file.keys is None:
        return None, None
    from sojourn.live.keys import Registry, ServerKeys

    return ServerKeys.load(Path(file.keys)), Registry(Path(file.keys) / "clients.json")


def worker_of(config: TrainConfig, file: ClientFile) -> Worker:
    """Return what the clients of a file do: with their part of the run's data, or with all of it."""
    if file.holds == "all":
        return OwnDataWorker.of(config)
    built: Built = built_for(config) if config.time or config.steps else build(config)
    return FederationWorker(built.federation, Pace.of(built) if file.paced else None)


def join(config: TrainConfig, file: ClientFile, stop: threading.Event | None = None, **options: Any) -> dict[str, int]:
    """Run the clients of a file until the run ends; return how often what happened."""
    import torch

    from sojourn.live.engines.grpc.client import run_clients
    from sojourn.live.keys import ClientKeys

    torch.set_num_threads(1)
    worker = worker_of(config, file)
    keys = None if file.keys is None else ClientKeys.load(Path(file.keys))
    clients = dict.fromkeys(file.clients, worker)
    return run_clients(file.server, clients, keys=keys, stop=stop, patience=file.give_up, **options)
