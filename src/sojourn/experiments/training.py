"""Training joined with its timing: simulated here, then learned along; or learned along a trace that is given."""

from pathlib import Path
from typing import Any

import torch

from sojourn.calibration import Calibration
from sojourn.files import no_links
from sojourn.learning.calibrate.calibrate import Effort, calibrate
from sojourn.learning.calibrate.calibrate import Progress as Measuring
from sojourn.learning.data.images.source import Watch
from sojourn.learning.run.along import check_given
from sojourn.learning.run.build import Built, fleet_and_plan
from sojourn.learning.run.config import TrainConfig
from sojourn.learning.run.trainer import Outcome, Trainer
from sojourn.schedule import by_budget, ended
from sojourn.timing.shares import exact_shares
from sojourn.timing.simulate.record import simulate
from sojourn.trace import Trace

KEPT = "trace.parquet"
A_TASK = 600  # bytes of memory that a task of the trace takes, as columns and as a timeline


def simulated(built: Built) -> Trace:
    """The timing that a run needs; service times are keyed by client and task, so that algorithms share them."""
    config, setting = built.config, built.setting
    return simulate(
        setting.fleet,
        setting.plan,
        config.steps,
        time=config.time,
        start=str(config.start),
        seed=config.seed,
        scenario=built.scenario,
        engine="events",
        task_bytes=A_TASK,
    )


def open_run(
    config: TrainConfig,
    folder: str | Path,
    resume: bool = False,
    watch: Watch | None = None,
    like: Built | None = None,
    begin: bool = True,
    trace: Trace | None = None,
    overwrite: bool = False,
) -> Trainer:
    """A run in its folder: along `trace`, or the trace file of the configuration, or a timing that is simulated."""
    timing = trace if trace is not None else _trace_of(config, Path(folder), resume)
    if timing is None:
        return Trainer(config, folder, simulated, resume, watch, like, begin, overwrite, exact_shares)
    config = _to_its_end(_with_tasks(config, timing), timing)
    return Trainer(config, folder, timing, resume, watch, like, begin, overwrite, exact_shares)


def train(
    config: TrainConfig, folder: str | Path, resume: bool = False, trace: Trace | None = None, **options: Any
) -> Outcome:
    """Train as configured, in a folder; with `resume`, from where an earlier call stopped."""
    torch.set_num_threads(1)  # the same sums in the same order on any number of cores
    return open_run(config, folder, resume, trace=trace).go(**options)


def calibrated(built: Built, effort: Effort | None = None, progress: Measuring | None = None) -> Calibration:
    """The constants of a run that is built but not trained, measured along a training."""
    if built.config.trace is None:
        return calibrate(built, simulated(built), effort, progress)
    trace = Trace.load(built.config.trace)
    check_given(built, trace)
    return calibrate(built, trace, effort, progress)


def _trace_of(config: TrainConfig, folder: Path, resume: bool) -> Trace | None:
    """The trace that is handed over; a run that is taken up again has kept it, wherever the first one is now."""
    if config.trace is None:
        return None
    if resume and not Path(config.trace).exists() and (folder / KEPT).exists():
        no_links(folder, KEPT)
        return Trace.load(folder / KEPT)
    return Trace.load(config.trace)


def _with_tasks(config: TrainConfig, trace: Trace) -> TrainConfig:
    """With as many tasks in flight as the trace says, where nothing else does."""
    tasks = trace.metadata.get("concurrency")
    if config.concurrency is not None or config.plan is not None or not isinstance(tasks, int) or tasks < 1:
        return config
    return config.resolved(concurrency=tasks)


def _to_its_end(config: TrainConfig, trace: Trace) -> TrainConfig:
    """With a schedule that ends where the trace does, where the run is all of it and the schedule the run's."""
    if config.steps is not None or config.time is not None:
        return config
    text = config.schedule or fleet_and_plan(config)[1].schedule or ""
    return config.resolved(schedule=ended(text, int(trace.applied.sum()))) if by_budget(text) else config
