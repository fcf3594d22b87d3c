"""Small cells, and cells that go wrong on purpose."""

import atexit
import os
import shutil
import signal
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from sojourn.experiments.cells import Cell
from sojourn.learning.data.dataset import Dataset
from sojourn.learning.run.config import TrainConfig

if "SOME_CELLS" not in os.environ:  # processes inherit it
    os.environ["SOME_CELLS"] = mkdtemp(prefix="some-cells-")
    atexit.register(shutil.rmtree, os.environ["SOME_CELLS"], ignore_errors=True)
MARKS = Path(os.environ["SOME_CELLS"])


def fleet_file(folder: Path, name: str = "fleet.csv") -> str:
    path = folder / name
    path.write_text("name,count,rate\nfast,6,4\nslow,4,1\n")
    return str(path)


def small(fleet: str, seed: int = 0, **changes: object) -> TrainConfig:
    return TrainConfig(**{"fleet": fleet, "steps": 60, "partition": "classes(k=2)", "seed": seed, **changes})


def seeds(fleet: str, many: int, **changes: object) -> list[Cell]:
    return [Cell(f"seed {seed}", small(fleet, seed, **changes)) for seed in range(many)]


def contents(folder: Path) -> dict[str, bytes]:
    """What a cell came to, by the last part of its path."""
    names = ("metrics.csv", "summary.json", "model.safetensors")
    return {f"{path.parent.name}/{path.name}": path.read_bytes() for name in names for path in folder.glob(f"*/{name}")}


def pairs() -> Dataset:
    x = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64)
    return Dataset("pairs", x[:40], y[:40], x[40:], y[40:], classes=2)


def deadly() -> Dataset:
    """Kills the process that loads it, every time."""
    os.kill(os.getpid(), signal.SIGKILL)
    return pairs()


def deadly_once() -> Dataset:
    """Kills the first process that loads it."""
    mark = MARKS / "died"
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return pairs()


def wrong() -> Dataset:
    raise RuntimeError("no such luck")


def wrong_once() -> Dataset:
    mark = MARKS / "raised"
    if not mark.exists():
        mark.touch()
        raise RuntimeError("not yet")
    return pairs()


def pairs_by_pid() -> Dataset:
    """Leaves word of which process loaded it."""
    (MARKS / f"{os.getpid()}.pid").touch()
    return pairs()
