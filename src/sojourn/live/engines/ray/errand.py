"""Errand: what an actor is told when it starts, so that it can build its clients by itself, and what it sends back.

An errand is the run's configuration, with the contents of the files that it names and the objects that a program handed
over. Data are loaded on the actor's machine, once; tasks never carry any.
"""

import sys
import warnings
from contextlib import chdir, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.files import read_bytes, write_bytes
from sojourn.learning.run.config import TrainConfig
from sojourn.live.engine import Work
from sojourn.live.worker import FederationWorker, Worker
from sojourn.own_code import objects_of, take_over
from sojourn.version import __version__

INPUTS = ("fleet", "plan", "sampling")  # keys that may name a file of the server's machine


class Errand(NamedTuple):
    """What an actor is told; nothing in it refers to the server's process."""

    config: TrainConfig
    """The keys of the run."""
    inputs: dict[str, bytes]
    """Contents of the files that they name."""
    objects: dict[str, Any]
    """Objects of the server's program that they name."""
    home: str
    """The server's folder; where it exists, relative names and the user's own code are looked up in it."""
    work: Work
    """What every client does."""
    clients: tuple[int, ...]
    """Numbers of the actor's clients."""
    paced: bool
    """Whether service lasts as long as the fleet's laws say."""
    version: str = __version__
    """The server's version of sojourn."""

    def worker(self) -> Worker:
        """Build the worker of the clients; raise an InvalidInput if it cannot be done on this machine."""
        from sojourn.learning.run.build import build
        from sojourn.live.pace import Pace

        if self.version != __version__:
            raise InvalidInput(
                f"all machines must have the same version of sojourn, got {__version__} here and {self.version} at the "
                "server; install the same"
            )
        take_over(self.objects)
        there = Path(self.home).is_dir()
        if there and self.home not in sys.path:
            sys.path.append(self.home)
        with TemporaryDirectory(prefix="sojourn-") as folder, chdir(self.home) if there else nullcontext():
            built = build(_placed(self, Path(folder)).resolved(execution="one-by-one"), portable=True)
        worker = FederationWorker(built.federation, Pace.of(built) if self.paced else None)
        for client in self.clients:
            worker.begin(client, self.work)
        return worker


class Result(NamedTuple):
    """What an actor sends back for a task."""

    vector: NDArray[Any]
    """The gradient, or the difference of models."""
    stats: NDArray[Any] | None
    """The client's statistics; None = the model has none."""
    plain: bool
    """Whether it is a gradient."""
    step_size: float
    """Step size of the local steps."""
    steps: int
    """Local steps done."""
    loss: float
    """Mean loss over the task's batches."""
    seconds: float
    """Time that the work took."""
    least: float
    """Seconds that the service lasts at least; 0 = as long as the work takes."""


def errand_of(config: TrainConfig, work: Work, clients: tuple[int, ...], paced: bool) -> Errand:
    """Return the errand of an actor with these clients."""
    if config.device == "auto":  # all machines compute on the kind of device that the server has
        config = config.resolved(device="cuda" if torch.cuda.is_available() else "cpu")
    named = [str(getattr(config, key)) for key in INPUTS if getattr(config, key) is not None]
    inputs = {path: read_bytes(path, "file of the run") for path in named if Path(path).is_file()}
    return Errand(config, inputs, objects_of(config.texts), str(Path.cwd()), work, clients, paced)


def _placed(errand: Errand, folder: Path) -> TrainConfig:
    """Return the configuration with the files of the errand, which are written to a folder."""
    places: dict[str, str] = {}
    for number, (path, content) in enumerate(errand.inputs.items()):
        place = folder / f"{number}-{Path(path).name}"
        write_bytes(place, content, "input of the run")
        places[path] = str(place)
    found = {key: str(getattr(errand.config, key)) for key in INPUTS if getattr(errand.config, key) is not None}
    return errand.config.resolved(**{key: places.get(path, path) for key, path in found.items()})


def array_of(tensor: Tensor) -> NDArray[Any]:
    """Return the numbers of a tensor, without a copy where they lie in main memory."""
    found: NDArray[Any] = tensor.detach().cpu().contiguous().numpy()
    return found


with warnings.catch_warnings():  # PyTorch warns once that writing to such a tensor would change the array
    warnings.simplefilter("ignore")
    torch.from_numpy(np.frombuffer(b"once", np.float32))


def tensor_of(array: NDArray[Any]) -> Tensor:
    """Return a tensor of these numbers, without a copy if they lie so that they can be used; nobody may change it."""
    return torch.from_numpy(array if array.flags.aligned else array.copy())
