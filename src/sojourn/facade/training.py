"""`sojourn.train`: one run, from its objects to its results."""

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sojourn.callbacks.table import callbacks as made_of
from sojourn.durations import seconds
from sojourn.errors import InvalidInput
from sojourn.experiments.results import Run
from sojourn.facade.surroundings import one_thread, place_for
from sojourn.facade.texts import run_keys
from sojourn.fleet import Fleet
from sojourn.interrupts import noted
from sojourn.learning.run.config import TrainConfig
from sojourn.shown import quoted
from sojourn.trace import Trace

Progress = Callable[[int, int, dict[str, Any]], None]


def train(
    fleet: Fleet | str | Path,
    plan: Any = None,
    *,
    folder: str | Path | None = None,
    trace: Trace | str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress | bool = True,
    checkpoint_seconds: float | str = 60.0,
    tune: bool = False,
    callbacks: Sequence[Any] = (),
    dashboard: int | None = None,
    **keys: Any,
) -> Run:
    """Train a model over a fleet on a simulated clock, and return the finished Run.

    `fleet` is a Fleet or a fleet file. `plan` is a Plan, the result of `make_plan`, or a plan file; by default sampling
    is uniform, with as many tasks in flight as there are clients. `keys` are the keys of a run (docs/files.md lists
    them all), such as `time` in seconds or `steps` for the length of the run. Some take objects as well as texts:

    - `model`: an nn.Module class, an instance, a function of the Dataset, or a text such as `cnn`
    - `data`: a Dataset, a pair of arrays (x, y), a map-style PyTorch dataset, or a text such as `digits`
    - `algorithm`: an object such as `sojourn.algorithms.FedBuff(size=10)`, or its text
    - `wrap`: a list of wrappers such as `[sojourn.wrappers.TopK(share=0.01)]`, or their text; the first is innermost
    - `partition`, `loss`, `metrics`: functions, or texts

    The other arguments say how to run it:

    - `folder`: where to store the run; by default a temporary folder, which is deleted together with the Run object
    - `trace`: a Trace or its file to train along; by default the timing is simulated now
    - `resume`: go on where the run in `folder` stopped
    - `overwrite`: replace the run in `folder`
    - `progress`: True shows a bar, False shows nothing; a function is called with (done, total, metrics)
    - `checkpoint_seconds`: time between two checkpoints, in seconds or as `"5min"`
    - `tune`: choose the step size first, as `sojourn.tune` does, by trials that are stored in the run's folder
    - `callbacks`: what is told of the run while it trains, as objects of `sojourn.callbacks` or as texts:
      `[sojourn.callbacks.EarlyStop("accuracy", 0.9), "checkpoints(every=1000)", "mlflow"]`
    - `dashboard`: port on 127.0.0.1 of a page that shows the training and can pause and stop it; meanwhile its token is
      in `dashboard.token` in the folder, which must be given

    Ctrl-C, or *Stop* on the page, stops the run and writes a checkpoint; the Run that is returned then has `complete`
    False.

    >>> fleet = Fleet.of(fast=(6, 4.0), slow=(4, 1.0))
    >>> train(fleet, steps=20, partition="iid", progress=False).complete
    True
    """
    from sojourn.dashboards import check_port
    from sojourn.experiments.training import open_run

    if dashboard is not None and folder is None:
        raise InvalidInput('dashboard needs a folder, which then has the token of the page; give folder="run"')
    given, told = run_keys(fleet, plan, keys), made_of(callbacks)
    file = str(trace) if isinstance(trace, str | Path) else None
    if isinstance(trace, str | Path):
        trace = Trace.load(trace)
    elif trace is not None and not isinstance(trace, Trace):
        raise InvalidInput(f"trace must be a Trace or the name of its file, got {quoted(trace)}; see sojourn.simulate")
    config = TrainConfig.of(given, "train")
    _warn_of_tuning(config, tune)
    check_port(dashboard)
    with one_thread(), place_for(folder) as (place, temporary):
        if tune:
            from sojourn.experiments.tune_plan import tuned_step

            if trace is not None and file is None:
                raise InvalidInput("tune needs a trace in a file, got a Trace; save it, and give trace=path")
            tuned = tuned_step(config.resolved(trace=file or config.trace), place, resume=resume, overwrite=overwrite)
            if tuned.interrupted:
                raise KeyboardInterrupt
            config = config.resolved(step_size=tuned.step_size)
        with _bar("loading_bar", progress) as watch:
            run = open_run(config, place, resume, watch, trace=trace, overwrite=overwrite, callbacks=told)
        with run, _bar("training_bar", progress) as bar, _not_kept(temporary), _page(place, dashboard) as (stop, wait):
            report = _then(progress if callable(progress) else bar, wait)
            run.go(seconds(checkpoint_seconds, "checkpoint_seconds"), progress=report, stop=stop)
    return Run(place, temporary)


@contextmanager
def _page(folder: Path, port: int | None) -> Iterator[tuple[threading.Event | None, Callable[[], None] | None]]:
    """Show the training as a page; give what stops it, and what returns when it may go on."""
    if port is None:
        yield None, None
        return
    from sojourn.dashboards import beside_training

    with noted(twice=True) as stop, beside_training(folder, stop, port, token_here=True) as (_, controls):
        yield stop, controls.wait


def _then(progress: Progress | None, wait: Callable[[], None] | None) -> Progress | None:
    """Return what reports progress, and then waits while the page has paused the training."""
    if wait is None:
        return progress
    pause = wait

    def report(done: int, total: int, facts: dict[str, Any]) -> None:
        if progress is not None:
            progress(done, total, facts)
        pause()

    return report


def _warn_of_tuning(config: TrainConfig, tune: bool) -> None:
    """Warn of a plan whose step size was tuned for another algorithm."""
    from sojourn.learning.run.build import fleet_and_plan
    from sojourn.learning.run.tuned_for import tuned_for_another

    if config.plan is None or tune:
        return
    note = tuned_for_another(fleet_and_plan(config)[1], config.algorithm, config.step_size)
    if note is not None:
        warnings.warn(note, stacklevel=3)


@contextmanager
def _not_kept(temporary: bool) -> Iterator[None]:
    """Say of a run that diverges in a temporary folder how to keep it, since the folder is removed."""
    from sojourn.learning.replay.replay import Diverged

    try:
        yield
    except Diverged as error:
        if not temporary:
            raise
        raise Diverged(error.what, 'to keep such a run, give it a folder: folder="run"') from None


def _bar(name: str, progress: Progress | bool) -> AbstractContextManager[Any]:
    """Return a progress bar for a terminal, unless the caller gave a function or wants none."""
    if callable(progress) or not progress:
        return nullcontext()
    from sojourn.report import bars

    made: AbstractContextManager[Any] = getattr(bars, name)()
    return made
