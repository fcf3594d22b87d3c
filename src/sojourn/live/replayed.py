"""Replay a live run: train along its recorded trace, and say whether the model is the same to the bit."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.experiments.training import train
from sojourn.learning.run.build import fleet_and_plan
from sojourn.learning.run.config import TrainConfig
from sojourn.learning.run.run_config import config_of
from sojourn.live.journal import CHECKPOINTS
from sojourn.live.server import inexact
from sojourn.schedule import ended
from sojourn.trace import Trace

ELSEWHERE = (  # what a server does not know of its clients
    "a replay has the examples of the run's own data and partition, so clients that hold data of their own cannot be "
    "replayed, and it rounds as this machine does"
)


@dataclass(frozen=True)
class Replayed:
    """What came out of a replay."""

    folder: Path
    """The folder of the new run."""
    updates: int
    """Updates replayed."""
    same: bool
    """Whether the model is the recorded one to the bit."""
    difference: float
    """Largest difference of a parameter from the recorded model."""
    why: str = ""
    """Why the model cannot be the same, as the trace says, or why it may differ; empty = it is the same."""


def replay_run(place: str | Path, out: str | Path, trust: bool = False) -> Replayed:
    """Train along the trace of a finished live run, which is given by its folder or its trace file."""
    folder = Path(place).parent if Path(place).is_file() else Path(place)
    path = folder / "trace.parquet"
    if not Path(place).exists():
        raise UnreadableFile(f"{place} does not exist; name the folder of a live run, or its trace.parquet")
    if not path.exists():
        state = "is not finished; go on with --resume" if (folder / CHECKPOINTS).exists() else "has no trace.parquet"
        raise UnreadableFile(f"the run in {folder} {state}")
    if not (folder / "config.json").exists():
        raise InvalidInput(
            f"{folder} has a trace and no config.json; train along a trace alone with sojourn train --trace {path}"
        )
    trace = Trace.load(path)
    train(along(config_of(folder, trust=trust)), out, trace=trace)
    found = _compared(folder, Path(out), int(trace.applied.sum()))
    return replace(found, why=inexact(trace.metadata) or ("" if found.same else ELSEWHERE))


def along(config: TrainConfig) -> TrainConfig:
    """Return the configuration of a live run for training along its trace, with the end of its schedule written out."""
    text = config.schedule or fleet_and_plan(config)[1].schedule or "constant"
    schedule = ended(text, config.steps, config.time)
    return config.resolved(schedule=schedule, steps=None, time=None, execution="one-by-one", start=None)


def _compared(before: Path, now: Path, updates: int) -> Replayed:
    name = "model.safetensors"
    if (before / name).read_bytes() == (now / name).read_bytes():
        return Replayed(now, updates, True, 0.0)
    old, new = load_file(before / name), load_file(now / name)
    gaps = [float(np.abs(old[key] - new[key]).max()) for key in old if old[key].size]
    return Replayed(now, updates, False, max(gaps, default=0.0))
