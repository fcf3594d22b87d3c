"""Training joined with its timing: along a trace that is simulated here, or along one that is given."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from sojourn.calibration import Calibration
from sojourn.callbacks.callback import Callback
from sojourn.errors import InvalidInput
from sojourn.files import no_links
from sojourn.learning.calibrate.calibrate import Effort, calibrate
from sojourn.learning.calibrate.calibrate import Progress as Measuring
from sojourn.learning.data.images.source import Watch
from sojourn.learning.replay.online import Online
from sojourn.learning.run.along import check_given
from sojourn.learning.run.build import Built, fleet_and_plan
from sojourn.learning.run.config import TrainConfig, unknown_speeds
from sojourn.learning.run.trainer import Outcome, Trainer
from sojourn.random import START, keys
from sojourn.schedule import by_budget, ended
from sojourn.timing.shares import KNOWN, exact_shares
from sojourn.timing.simulate.drive import OnlineEngine
from sojourn.timing.simulate.record import facts_of, simulate
from sojourn.timing.simulate.start import place
from sojourn.trace import Trace

KEPT = "trace.parquet"
A_TASK = 600  # bytes of memory per task of the trace, as columns and as a timeline


def timing(built: Built) -> Trace | Online:
    """Return the timing of a run: simulated before, or as the run goes on where the algorithm sets local steps."""
    return online(built) if built.algorithm.sets_steps else simulated(built)


def online(built: Built) -> Online:
    """Return timing that is computed as the run goes on; the same durations as `simulated` has, task by task."""
    config, setting, scenario = built.config, built.setting, built.scenario
    if not scenario.dispatcher.queued:
        raise InvalidInput(
            f"{built.algorithm.name} sets local steps as it trains, which needs a dispatcher with queues, "
            f"got {scenario.dispatcher.name}; leave it out"
        )
    mine = keys(config.seed)
    queues = place(str(config.start), setting.fleet, setting.plan, np.random.default_rng(int(mine[START])))
    state, most = built.algorithm.init(built.federation.first, setting), scenario.local_steps
    first = np.array([built.algorithm.local_steps(state, client) or most for client in range(setting.clients)])
    clock = OnlineEngine(setting.fleet, setting.plan, scenario, queues, mine, first)
    if config.time is None:
        assert config.steps is not None
        return Online(clock, queues, _facts(built), config.steps)
    shorter = replace(scenario, local_steps=max(1, int(first.mean())))
    times = simulate(setting.fleet, setting.plan, time=config.time, seed=config.seed, start="even", scenario=shorter)
    expected = int((times.applied_at <= config.time).sum())
    return Online(clock, queues, _facts(built), max(1, expected), config.time)


def _facts(built: Built) -> dict[str, Any]:
    """Return the facts that the trace of a run has whose timing is computed as it goes on."""
    fleet, plan, scenario = built.setting.fleet, built.setting.plan, built.scenario
    known = exact_shares(fleet, plan, scenario) is not None
    run = SimpleNamespace(name="events", prob=KNOWN[known], steps=0)
    return facts_of(run, fleet, plan, str(built.config.start), built.config.seed, scenario, complete=True)


def simulated(built: Built) -> Trace:
    """Simulate the timing of a run; service times are keyed by client and task, so that all algorithms share them."""
    config, setting = built.config, built.setting
    if unknown_speeds(config.fleet) is not None:
        raise InvalidInput(
            f"a simulation needs the speeds of its fleet, those of {config.fleet} are unknown; give a fleet file, or "
            "train along a trace"
        )
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
    callbacks: Sequence[Callback] = (),
) -> Trainer:
    """Open a run in its folder: along `trace`, or along the configuration's trace file, or along a simulated trace."""
    given = trace if trace is not None else _trace_of(config, Path(folder), resume)
    if given is None:
        return Trainer(config, folder, timing, resume, watch, like, begin, overwrite, exact_shares, callbacks)
    config = _to_its_end(_with_tasks(config, given), given)
    return Trainer(config, folder, given, resume, watch, like, begin, overwrite, exact_shares, callbacks)


def train(
    config: TrainConfig, folder: str | Path, resume: bool = False, trace: Trace | None = None, **options: Any
) -> Outcome:
    """Train as configured, in a folder; with `resume`, from where an earlier call stopped."""
    torch.set_num_threads(1)  # so that sums have the same order on any number of cores
    return open_run(config, folder, resume, trace=trace).go(**options)


def calibrated(built: Built, effort: Effort | None = None, progress: Measuring | None = None) -> Calibration:
    """Measure the constants of a run while it is trained; the run is built and not trained yet."""
    if built.config.trace is None:
        return calibrate(built, simulated(built), effort, progress)
    trace = Trace.load(built.config.trace)
    check_given(built, trace)
    return calibrate(built, trace, effort, progress)


def _trace_of(config: TrainConfig, folder: Path, resume: bool) -> Trace | None:
    """The trace that the configuration names; a resumed run uses the copy in its folder if the file is gone."""
    if config.trace is None:
        return None
    if resume and not Path(config.trace).exists() and (folder / KEPT).exists():
        no_links(folder, KEPT)
        return Trace.load(folder / KEPT)
    return Trace.load(config.trace)


def _with_tasks(config: TrainConfig, trace: Trace) -> TrainConfig:
    """The configuration, with the trace's number of tasks in flight if it has none of its own."""
    tasks = trace.metadata.get("concurrency")
    if config.concurrency is not None or config.plan is not None or not isinstance(tasks, int) or tasks < 1:
        return config
    return config.resolved(concurrency=tasks)


def _to_its_end(config: TrainConfig, trace: Trace) -> TrainConfig:
    """The configuration, with a schedule that ends with the trace if the run covers all of it and none is fixed."""
    if config.steps is not None or config.time is not None:
        return config
    text = config.schedule or fleet_and_plan(config)[1].schedule or ""
    return config.resolved(schedule=ended(text, int(trace.applied.sum()))) if by_budget(text) else config
