"""Lots as tasks of a Ray cluster: one that is running already, or one that is started here.

A worker that can read this machine's disk trains in the same folder, and resumes what another worker began. A worker
that cannot receives fleet and plan with the lot, trains in a folder of its own, and sends its files back.
"""

import json
import os
import socket
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from sojourn.errors import SojournError
from sojourn.experiments.processes import STOP
from sojourn.experiments.train_cells import Ending, Lot, train_lot
from sojourn.files import write_bytes
from sojourn.folders import made
from sojourn.learning.run.config import TrainConfig

OBJECT_STORE = 100 * 2**20  # bytes; only small things are passed around
PATIENCE = 20.0  # seconds for workers to write their checkpoints when everything is stopped
INPUTS = ("fleet", "plan", "sampling")
MARK = "here"

Files = dict[str, dict[str, bytes]]


class Errand(NamedTuple):
    """What is sent to a worker."""

    lot: Lot
    """The cells."""
    inputs: dict[str, bytes]
    """Contents of the files that the cells name."""
    ticket: Path
    """A folder that exists only for workers which share the disk."""
    seconds: float
    """Updates between two checkpoints."""
    home: Path
    """The folder that relative paths refer to."""


@contextmanager
def cluster(address: str | None, jobs: int | None) -> Iterator[None]:
    """Connect to the cluster at an address, or to the one running here, or to one that is started now.

    If this process is connected already, it stays so; an address where nobody is is refused all the same.
    """
    try:
        import ray
    except ImportError:
        raise SojournError("--on ray needs Ray, which is not installed; pip install 'sojourn[ray]'") from None
    _knock(address)
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        ray.init(address=address or "auto", **quiet)
    except (OSError, RuntimeError) as error:
        if address is not None or "Could not find any running" not in str(error):
            raise _unreachable(address or "this machine", error) from None
        closed: dict[str, Any] = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}  # to other machines
        ray.init(num_cpus=jobs, object_store_memory=OBJECT_STORE, **closed, **quiet)
    try:
        yield
    finally:
        ray.shutdown()


def _knock(address: str | None) -> None:
    """Report at once that nothing answers at the address; Ray itself takes minutes to notice."""
    host, _, port = (address or "").rpartition("/")[2].rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except OSError as error:
            raise _unreachable(str(address), error) from None


def _unreachable(where: str, error: Exception) -> SojournError:
    return SojournError(
        f"cannot connect to the Ray cluster at {where} ({error}); start it, name another, or set RAY_AUTH_MODE and "
        "RAY_AUTH_TOKEN to its values"
    )


def on_ray(
    lots: Sequence[Lot], jobs: int | None, ticket: Path, seconds: float
) -> Iterator[tuple[Lot, dict[str, Ending]]]:
    """Yield the endings of lots as they end; at most `jobs` run at a time, None = as many as the cluster can take."""
    import ray

    (ticket / MARK).touch()
    waiting, running = deque(lots), dict[Any, Lot]()
    halted_at: float | None = None
    while waiting or running:
        while waiting and halted_at is None and (jobs is None or len(running) < jobs):
            lot = waiting.popleft()
            running[_sent(lot, ticket, seconds)] = lot
        for task in ray.wait(list(running), timeout=0.5)[0] if running else []:
            lot = running.pop(task)
            yield lot, _received(task, lot)
        if halted_at is None and (ticket / STOP).exists():
            halted_at = time.monotonic()
            waiting.clear()
        if halted_at is not None and time.monotonic() - halted_at > PATIENCE:
            for task in running:
                ray.cancel(task, force=True)
            return


def _sent(lot: Lot, ticket: Path, seconds: float) -> Any:
    import ray

    wanted = {member.config.device for member in lot.members}
    on_gpu = "cuda" in wanted or ("auto" in wanted and ray.cluster_resources().get("GPU", 0) >= 1)
    remote = ray.remote(num_cpus=1, num_gpus=int(on_gpu), max_retries=0)(train_there)
    paths = {getattr(member.config, key) for member in lot.members for key in INPUTS}
    inputs = {path: Path(path).read_bytes() for path in paths if path is not None and Path(path).is_file()}
    return remote.remote(Errand(lot, inputs, ticket, seconds, Path.cwd()))


def _received(task: Any, lot: Lot) -> dict[str, Ending]:
    import ray

    try:
        told, files = ray.get(task)
    except ray.exceptions.RayError as error:
        said = str(error).strip().partition("\n")[0].partition(". ")[0].rstrip(".")
        died = Ending("died", f"its process died ({type(error).__name__}: {said})")
        return {member.hash: died for member in lot.members}
    for member in lot.members:
        _unpack(files.get(member.hash, {}), member.folder)
    return dict(told)


def train_there(errand: Errand) -> tuple[dict[str, Ending], Files]:
    """Train a lot on the machine of a worker; without a shared disk, the files are sent back."""
    if (errand.ticket / MARK).exists():
        with chdir(errand.home):
            return train_lot(errand.lot, lambda: (errand.ticket / STOP).exists(), errand.seconds), {}
    with TemporaryDirectory(prefix="sojourn-") as home:
        moved = _moved(errand, Path(home))
        told = train_lot(moved, lambda: False, errand.seconds)
        pairs = zip(errand.lot.members, moved.members, strict=True)
        return told, {before.hash: _packed(after.folder, before.config) for before, after in pairs}


def _moved(errand: Errand, home: Path) -> Lot:
    """The lot in a folder of this machine, with the files that it needs."""
    places: dict[str, str] = {}
    for number, (path, content) in enumerate(errand.inputs.items()):
        place = home / f"{number}-{Path(path).name}"
        place.write_bytes(content)
        places[path] = str(place)
    members = []
    for member in errand.lot.members:
        found = {key: places.get(str(getattr(member.config, key)), getattr(member.config, key)) for key in INPUTS}
        members.append(member._replace(config=replace(member.config, **found), folder=home / member.hash))
    return Lot(tuple(members))


def _packed(folder: Path, config: TrainConfig) -> dict[str, bytes]:
    """The files of a run that has ended; its configuration has the paths with which it was sent."""
    files = {path.name: path.read_bytes() for path in folder.glob("*") if path.is_file() and path.name != "lock"}
    if "config.json" in files:
        content = json.loads(files["config.json"])
        content["config"] |= {key: getattr(config, key) for key in INPUTS}
        files["config.json"] = (json.dumps(content, indent=2) + "\n").encode()
    return files


def _unpack(files: dict[str, bytes], folder: Path) -> None:
    """Write the files that came back; the files that mark the run as ended are written last."""
    if not files:
        return
    last = ("summary.json", "diverged.json")
    with made(folder):
        for name in sorted(files, key=lambda name: name in last):
            write_bytes(folder / name, files[name], "file of a run")
