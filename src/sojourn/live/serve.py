"""Serve a live run over gRPC or on Ray, and run its clients: what the command line and Python share."""

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from sojourn.calibration import Calibration
from sojourn.callbacks.table import callbacks as made_of
from sojourn.errors import InvalidInput
from sojourn.files import read_json
from sojourn.learning.run.build import Built, build, timing_of
from sojourn.learning.run.config import TrainConfig, unknown_speeds
from sojourn.live.draining import SECONDS
from sojourn.live.engine import Engine, Work, plain
from sojourn.live.monitor import check_port_free, numbers, serving
from sojourn.live.pace import Pace
from sojourn.live.planner import Said
from sojourn.live.remembering import client_side, remembering
from sojourn.live.run import Connect, LiveRun, built_for
from sojourn.live.settings import ClientFile, ServerFile
from sojourn.live.worker import FederationWorker, OwnDataWorker, Worker

Watch = Callable[[LiveRun], None]


def open_server(
    config: TrainConfig,
    file: ServerFile,
    resume: bool = False,
    names: Mapping[str, int] | None = None,
    report: Callable[[str, Mapping[str, Any]], None] | None = None,
    overwrite: bool = False,
    callbacks: Iterable[Any] = (),
    made_by: str | None = None,
) -> LiveRun:
    """Open a live run and listen for its clients, or start them on Ray; `run` on it does the rest.

    Without `names` a client that has the name of one in the fleet gets that one's number, and others get numbers in the
    order in which they first join; a client keeps its number for ever. With `overwrite` the run in the folder is
    replaced. `callbacks` are those besides the file's, as texts or objects. `made_by` is the command, for a report.
    """
    if overwrite and resume:
        raise InvalidInput("--resume and --overwrite exclude each other, got both; give one of them")
    if file.metrics_port:  # a port or an address that is in use must not cost the old run, nor leave half of a new one
        check_port_free(file.metrics_port)
    if overwrite and file.engine == "grpc":
        from sojourn.live.engines.grpc.server import check_free

        check_free(file.address)

    def connect(work: Work, epoch: int, known: dict[str, int]) -> Engine:
        if file.engine == "ray":
            return _on_ray(config, file, work)
        from sojourn.live.engines.grpc.server import GrpcEngine

        keys, registry = keys_of(file)
        given = dict(names or {}) | known
        meant = names_of(config)
        free = [] if names else [one for one in meant.values() if one not in given.values()]
        return GrpcEngine(
            file.address, work, epoch=epoch, names=given, open_slots=free, meant=meant, keys=keys, registry=registry
        )

    return open_run(config, file, connect, resume, report, overwrite, callbacks, made_by)


def open_run(
    config: TrainConfig,
    file: ServerFile,
    connect: Connect,
    resume: bool = False,
    report: Callable[[str, Mapping[str, Any]], None] | None = None,
    overwrite: bool = False,
    callbacks: Iterable[Any] = (),
    made_by: str | None = None,
) -> LiveRun:
    """Open a live run over any engine: with our advice where nothing is said, and planned again as the file says."""
    run, out = advised(config), Path(file.out).expanduser()
    nothing = run is not config or (resume and was_advised(out))
    open_to_plans = nothing or (unknown_speeds(run.fleet) is not None and timing_of(run)[2].dispatcher.queued)
    every = file.every(open_to_plans)
    land = None if file.calibration is None else Calibration.load(file.calibration).landscape()
    settings = replace(file.settings, replan=every)
    made = made_of([*file.callbacks, *callbacks])
    said = Said.of(run, nothing)
    return LiveRun(run, out, connect, settings, resume, report, overwrite, made, said, land, made_by=made_by)


def _on_ray(config: TrainConfig, file: ServerFile, work: Work) -> Engine:
    from sojourn.live.engines.ray.engine import RayEngine
    from sojourn.live.engines.ray.instance import ready

    names = names_of(config)
    many = min(file.processes, len(names))
    spread = [tuple(range(number, len(names), many)) for number in range(many)]
    crew, close = ready(config, plain(work, "ray"), spread, file.paced, file.cluster)
    return RayEngine(crew, work, spread, names, close)


def names_of(config: TrainConfig) -> dict[str, int]:
    """Return the clients' names and numbers: those of the fleet's groups, such as oslo, or fast-0 in a larger group."""
    from sojourn.learning.run.build import fleet_and_plan

    fleet = fleet_and_plan(config)[0]
    return {fleet.client_name(client): client for client in range(fleet.clients)}


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


def was_advised(folder: Path) -> bool:
    """Whether the policy of the run in a folder is our advice, which is filled into its configuration."""
    path = folder / "config.json"
    return path.exists() and bool(read_json(path, "configuration").get("advised", False))


def serve(run: LiveRun, file: ServerFile, stop: threading.Event, watch: Watch | None = None) -> bool:
    """Run a live run to its end, with its metrics served meanwhile; return whether the end was reached. If it is
    stopped before, it takes what is back within some seconds.
    """
    with ExitStack() as held:
        held.enter_context(run)
        held.enter_context(serving(file.metrics_port, lambda: numbers(run)))
        return run.run(stop, watch, SECONDS)


def keys_of(file: ServerFile) -> tuple[Any, Any]:
    """Return the keys of a server and its register of clients; (None, None) = it has none."""
    if file.keys is None:
        return None, None
    from sojourn.live.keys import Registry, ServerKeys

    return ServerKeys.load(Path(file.keys)), Registry(Path(file.keys) / "clients.json")


def worker_of(config: TrainConfig, file: ClientFile) -> Worker:
    """Return what the clients of a file do: with their part of the run's data, or with all of it."""
    if file.holds == "all":
        own = OwnDataWorker.of(config)
        return remembering(own, client_side(config, own.model))
    built: Built = built_for(config) if config.time or config.steps else build(config, portable=True)
    federation = built.federation
    part = FederationWorker(federation, Pace.of(built) if file.paced else None)
    return remembering(part, client_side(config, federation.model), federation.keys)


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
