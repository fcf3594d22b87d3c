"""The Ray that a live run uses: an instance of its own on this machine, or a cluster at an address."""

import os
import socket
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from sojourn.errors import InvalidInput, SojournError
from sojourn.learning.run.config import TrainConfig
from sojourn.live.engine import Work
from sojourn.live.engines.ray.crew import RayCrew
from sojourn.live.engines.ray.errand import errand_of
from sojourn.machine_memory import available

LEAST_STORE = 128 * 2**20  # bytes of the object store
SHARE_OF_MEMORY = 0.3  # of the free memory that the object store may take
COPIES = 4  # of a model, for each task that actors have: its model, its update, and room for those being freed
KNOCK = 10.0  # seconds for a cluster to answer


def check_installed() -> None:
    """Raise an error unless Ray is installed."""
    if find_spec("ray") is None:
        raise SojournError("the engine ray needs Ray, which is not installed; pip install 'sojourn[ray,train]'")


def started(cluster: str | None, processes: int, size: int, handed: int) -> Callable[[], None]:
    """Start an instance, or connect to the cluster at an address; return the function that ends it.

    `size` is the bytes of a model, and `handed` the number of tasks that actors have at most. If this process is
    connected to Ray already, that connection is used, and kept.
    """
    check_installed()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    if ray.is_initialized():
        _check_room(processes)
        return lambda: None
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if cluster is None:
        store = int(min(max(LEAST_STORE, COPIES * size * handed), SHARE_OF_MEMORY * available()))
        closed: dict[str, Any] = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}  # to other machines
        ray.init(address="local", num_cpus=processes, object_store_memory=store, **closed, **quiet)
        return _shutdown
    try:
        _knock(cluster)
        ray.init(address=cluster, **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        said = str(error).strip().partition("\n")[0].rstrip(".")
        raise SojournError(
            f"cannot connect to the Ray cluster at {cluster} ({said}); start it, name another, or set RAY_AUTH_MODE "
            "and RAY_AUTH_TOKEN to its values"
        ) from None
    try:
        _check_room(processes)
    except BaseException:
        ray.shutdown()
        raise
    return _shutdown


def ready(
    config: TrainConfig, work: Work, spread: Sequence[tuple[int, ...]], paced: bool, cluster: str | None
) -> tuple[RayCrew, Callable[[], None]]:
    """Return the actors of a run, which wait to be started, and the function that ends the Ray on which they are."""
    errands = [errand_of(config, work, clients, paced) for clients in spread]
    numbers = (work.parameters + work.statistics) * (8 if config.dtype == "float64" else 4)
    tasks = sum(map(len, spread)) * (2 if work.prefetch else 1)
    close = started(cluster, len(spread), numbers, tasks)
    try:
        return RayCrew(errands, options(cluster, errands[0].config.device, len(spread))), close
    except BaseException:
        close()
        raise


def options(cluster: str | None, device: str, processes: int) -> dict[str, Any]:
    """Return what every actor asks for: a core each on a cluster, spread over its machines, and a share of its GPUs."""
    if cluster is None:
        return {"num_cpus": 0}
    import ray

    gpus = ray.cluster_resources().get("GPU", 0.0) if device == "cuda" else 0.0
    return {"num_cpus": 1, "num_gpus": min(1.0, gpus / processes), "scheduling_strategy": "SPREAD"}


def _check_room(processes: int) -> None:
    import ray

    cores = int(ray.cluster_resources().get("CPU", 0.0))
    if processes > cores:
        raise InvalidInput(f"processes must be at most the cores of the Ray cluster, {cores}, got {processes}")


def _knock(cluster: str) -> None:
    """Report at once that nothing answers at the address; Ray itself takes minutes to notice."""
    host, _, port = cluster.rpartition("/")[2].rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=KNOCK).close()


def _shutdown() -> None:
    import ray

    ray.shutdown()
