"""The front door to training: you pass fleets, plans, models, data and algorithms as objects, and get results as
objects.

The command line offers the same functions, with files in place of objects. Inside, every object gets a text under which
the other modules find it (see `own_code`).
"""

import inspect
import shutil
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from sojourn.calibration import Calibration
from sojourn.callbacks.table import callbacks as made_of
from sojourn.durations import seconds
from sojourn.errors import InvalidInput
from sojourn.experiments.results import Comparison, Run, Sweep
from sojourn.fleet import Fleet
from sojourn.interrupts import noted
from sojourn.learning.algorithms.base import Algorithm
from sojourn.learning.algorithms.table import ALGORITHMS, checked
from sojourn.learning.data.given import dataset_of
from sojourn.learning.replay.server_step import ServerStep
from sojourn.learning.run.config import TrainConfig
from sojourn.learning.wrappers.table import WRAPPERS
from sojourn.learning.wrappers.table import checked as checked_wrapper
from sojourn.learning.wrappers.wrapped import Wrapped, bare, wrappers_of
from sojourn.own_code import handed_over
from sojourn.plan import Plan, plan_for
from sojourn.shown import quoted, short
from sojourn.trace import Trace

if TYPE_CHECKING:
    from sojourn.experiments.tune_plan import TunedPlan

Progress = Callable[[int, int, dict[str, Any]], None]
MOST_LABEL = 200
_CALLED: ContextVar[dict[str, Any] | None] = ContextVar("called", default=None)  # objects of this call, by their text


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

    Ctrl-C stops the run and writes a checkpoint; the Run that is returned then has `complete` False.

    >>> fleet = Fleet.of(fast=(6, 4.0), slow=(4, 1.0))
    >>> train(fleet, steps=20, partition="iid", progress=False).complete
    True
    """
    from sojourn.experiments.training import open_run

    given, told = run_keys(fleet, plan, keys), made_of(callbacks)
    file = str(trace) if isinstance(trace, str | Path) else None
    if isinstance(trace, str | Path):
        trace = Trace.load(trace)
    elif trace is not None and not isinstance(trace, Trace):
        raise InvalidInput(f"trace must be a Trace or the name of its file, got {quoted(trace)}; see sojourn.simulate")
    config = TrainConfig.of(given, "train")
    _warn_of_tuning(config, tune)
    with _place(folder) as (place, temporary):
        _one_thread()
        if tune:
            from sojourn.experiments.tune_plan import tuned_step

            if trace is not None and file is None:
                raise InvalidInput("tune needs a trace in a file, got a Trace; save it, and give trace=path")
            tuned = tuned_step(config.resolved(trace=file or config.trace), place)
            if tuned.interrupted:
                raise KeyboardInterrupt
            config = config.resolved(step_size=tuned.step_size)
        with _bar("loading_bar", progress) as watch:
            run = open_run(config, place, resume, watch, trace=trace, overwrite=overwrite, callbacks=told)
        with _bar("training_bar", progress) as report, _not_kept(temporary):
            run.go(
                seconds(checkpoint_seconds, "checkpoint_seconds"), progress=progress if callable(progress) else report
            )
    return Run(place, temporary)


def serve(
    fleet: Fleet | str | Path | int,
    plan: Any = None,
    *,
    folder: str | Path,
    address: str = "127.0.0.1:7733",
    keys: str | Path | None = None,
    insecure: bool = False,
    begin_with: int | None = None,
    patience: float | str = 30.0,
    metrics_port: int | None = None,
    durable: bool = True,
    engine: str = "grpc",
    cluster: str | None = None,
    processes: int = 2,
    paced: bool = False,
    replan: float | str = "auto",
    calibration: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    stop: threading.Event | None = None,
    callbacks: Sequence[Any] = (),
    dashboard: int | None = None,
    **run: Any,
) -> Run:
    """Serve a live run to clients that dial in, or that are started on Ray, and return the finished Run.

    `fleet`, `plan` and `run`, the keys of a run, are those of `train`; a fleet of unknown speeds is given as its number
    of clients. `model` and `data` may be objects, and `data` is
    what the server evaluates on. Clients are `sojourn.live.client` or `sojourn live client`. The other arguments:

    - `folder`: where the run is stored; with `resume` it goes on where it stopped, after a crash too; with `overwrite`
      a run that is there is replaced
    - `address`: HOST:PORT to listen at
    - `keys`: the folder of the server's keys (`sojourn live keys`); needed beyond this machine, unless `insecure`
    - `begin_with`: clients that must be there before the first task is sent (default: one for each task in flight)
    - `patience`: seconds that the server waits for an update at the least, or a text such as `"1min"`
    - `metrics_port`: port on 127.0.0.1 for metrics in the format of Prometheus
    - `durable`: False = write no commits between: faster, but a kill loses what was done since the start
    - `engine`: `"grpc"`, clients dial in; or `"ray"`, the server starts them as actors, and each holds its part of
      `data` by `partition`
    - `cluster`, `processes`, `paced`: with Ray, the address of a cluster (default: an instance of its own on this
      machine), the actors that clients are spread over, and whether service lasts as long as the fleet says
    - `replan`: time after which the plan is worked out again for the speeds measured so far, such as `"10min"`, or
      sooner if speeds change; `"never"`; by default ten minutes if no policy is given, and never otherwise
    - `calibration`: a calibration file, with which these plans choose among policies
    - `stop`: an event that ends the run early; it can then be resumed. Ctrl-C does the same
    - `callbacks`: what is told of the run while it goes on, as for `train`
    - `dashboard`: port on 127.0.0.1 of a page that shows the run and can pause, plan again and stop it; its token is in
      `dashboard.token` in the folder
    """
    from sojourn.dashboards import beside, check_port
    from sojourn.live.serve import open_server
    from sojourn.live.serve import serve as to_its_end
    from sojourn.live.settings import ServerFile

    fleet = f"unknown({fleet})" if isinstance(fleet, int) and not isinstance(fleet, bool) else fleet
    config = TrainConfig.of(run_keys(fleet, plan, run), "serve")
    file = ServerFile(
        address,
        None if keys is None else str(keys),
        insecure,
        str(folder),
        begin_with,
        seconds(patience, "patience"),
        metrics_port=metrics_port,
        durable=durable,
        engine=engine,
        cluster=cluster,
        processes=processes,
        paced=paced,
        replan=replan,
        calibration=None if calibration is None else str(calibration),
    )
    check_port(dashboard)
    opened = open_server(config, file, resume, report=_warn_of_callback, overwrite=overwrite, callbacks=callbacks)
    with opened, noted(twice=True) if stop is None else nullcontext(stop) as halt, beside(opened, halt, dashboard):
        to_its_end(opened, file, halt)
    return Run(Path(folder), False)


def tune(
    fleet: Fleet | str | Path,
    plan: Any = None,
    *,
    guess: float | None = None,
    corrections: Sequence[float] = (),
    buffers: Sequence[int] = (),
    seeds: int | Sequence[int] = 2,
    holdout: float = 0.2,
    folder: str | Path | None = None,
    jobs: int | None = None,
    **keys: Any,
) -> "TunedPlan":
    """Choose the step size of a plan by short paired runs on held-out examples; on request its correction and buffer
    too.

    Seven step sizes around `guess`, a factor of 2 apart, are trained for a ninth of the budget; the best third of them
    for a third of the budget, and the best of these for all of it. The grid grows where the best step size lies at its
    edge.

    - `guess`: where to look; by default the plan's step size, or else a wide grid around 0.1 comes first
    - `corrections`, `buffers`: values of the plan's correction and buffer to try as well
    - `seeds`: how many seeds, or which
    - `holdout`: share of the training examples that the trials are judged on, from 0 to 1
    - `folder`: where the trials are stored; called again with the same folder, the function trains only what is missing
    - `jobs`: processes that train at the same time; by default one per core
    - `keys`: the keys of a run, as for `train`; `time` (seconds) or `steps` is the budget

    Returns a TunedPlan, which can be passed to `train` as the plan. It remembers the algorithm: `train` uses that one
    unless another is named.
    """
    from sojourn.experiments.cells import seeds_of
    from sojourn.experiments.comparison import FIRST_TUNING_SEED
    from sojourn.experiments.plan_tuning import PlanTuning
    from sojourn.experiments.tune_plan import tune_plan

    _one_thread()
    config = TrainConfig.of(run_keys(fleet, plan, keys), "tune")
    whole = seeds_of(seeds if isinstance(seeds, int) else list(seeds), "seeds", FIRST_TUNING_SEED)
    tuning = PlanTuning(config, guess, tuple(corrections), tuple(buffers), whole, holdout)
    with _place(folder) as (place, temporary):
        found = tune_plan(tuning, place, jobs=jobs)
        if temporary:
            shutil.rmtree(place, ignore_errors=True)
    return found


def compare(
    fleet: Fleet | str | Path,
    algorithms: Sequence[Any] | Mapping[str, Any],
    *,
    seeds: int | Sequence[int] = 10,
    step_sizes: Sequence[float] = (),
    tuning: Mapping[str, Any] | None = None,
    target: str | None = None,
    baseline: str | None = None,
    dispatch: str | None = None,
    folder: str | Path | None = None,
    jobs: int | None = None,
    on: str = "here",
    address: str | None = None,
    **keys: Any,
) -> Comparison:
    """Compare algorithms and plans fairly: the same data, first model, batches and service times for all.

    - `algorithms`: a list of what to compare. Each entry is an Algorithm, its text, a Plan (which Generalized AsyncSGD
      then trains), a pair of an algorithm and a plan, or a dict of the keys in which it differs. A mapping gives them
      names.
    - `seeds`: how many seeds to train each with, or which
    - `step_sizes`: a grid over which every algorithm is tuned, on held-out examples and with seeds of their own;
      without it nothing is tuned
    - `tuning`: other keys of the table [tuning] in a comparison file, as a dict
    - `target`: a value to reach, such as `"accuracy=0.9"`; the result says what reaching it cost
    - `baseline`: the entry that the others are compared with; by default the first
    - `dispatch`: one dispatcher for all: `"same"`, the baseline's, or one by name, such as `"idle"`; by default each
      algorithm has its own
    - `folder`: where the runs are stored; called again with the same folder, the function trains only what is missing
    - `jobs`: processes that train at the same time; by default one per core
    - `on`, `address`: `"here"`, or `"ray"` and the address of a Ray cluster
    - `keys`: the keys of a run, the same for all, as for `train`

    Returns a Comparison.
    """
    from sojourn.experiments.compare import compare as work
    from sojourn.experiments.comparison import ComparisonSpec

    content: dict[str, Any] = {
        "run": run_keys(fleet, None, keys),
        "seeds": seeds if isinstance(seeds, int) else list(seeds),
    }
    content["algorithm"] = _entries(fleet, algorithms)
    content["tuning"] = {**(tuning or {}), **({"step_sizes": list(step_sizes)} if len(step_sizes) else {})}
    words = {"target": target, "baseline": baseline, "dispatch": dispatch}
    content |= {key: value for key, value in words.items() if value is not None}
    described = ComparisonSpec.of(content, "compare")
    with _place(folder) as (place, temporary):
        compared = work(described, place, jobs=jobs, on=on, address=address)
    return Comparison.of(compared, temporary)


def sweep(
    fleet: Fleet | str | Path,
    grid: Mapping[str, Sequence[Any]],
    *,
    seeds: int | Sequence[int] = 1,
    folder: str | Path | None = None,
    jobs: int | None = None,
    on: str = "here",
    address: str | None = None,
    **keys: Any,
) -> Sweep:
    """Train every combination of the values in `grid` with every seed, and return a Sweep of the runs.

    `grid` maps keys of a run to lists of values: `{"step_size": [0.1, 0.3], "batch_size": [16, 32]}`. `keys` are the
    keys that all runs share, as for `train`; `seeds`, `folder`, `jobs`, `on` and `address` are as for `compare`.
    """
    from sojourn.experiments.cells import seeds_of
    from sojourn.experiments.sweep import Grid, runs_of
    from sojourn.experiments.sweep import sweep as work

    given = run_keys(fleet, None, keys)
    values = {key: tuple(_text(key, one) for one in many) for key, many in grid.items()}
    whole = seeds if isinstance(seeds, int) else list(seeds)
    described = Grid(given, values, seeds_of(whole, "seeds"))
    with _place(folder) as (place, temporary):
        swept = work(described, place, jobs=jobs, on=on, address=address)
    return Sweep(place, runs_of(described, place, swept.failures), swept.failures, temporary)


def calibrate(
    fleet: Fleet | str | Path,
    plan: Any = None,
    *,
    gradients: int = 400,
    points: int = 3,
    directions: int = 10,
    examples: int = 2048,
    confidence: float = 0.95,
    **keys: Any,
) -> Calibration:
    """Measure the constants A, L, sigma^2 and G^2 of a model on its data and clients.

    The measurement trains a little and measures at some points on the way:

    - `gradients`: stochastic gradients for noise and heterogeneity, over all points
    - `points`: how many points of the training to measure at
    - `directions`: leading directions of the curvature
    - `examples`: how many examples losses and curvatures are computed on; all, where there are fewer
    - `confidence`: level of the intervals, from 0 to 1
    - `keys`: the keys of a run, as for `train`

    Returns a Calibration. Pass `calibrate(...).constants` to `goal`, or `calibrate(...).landscape(fleet)` to
    `make_plan`.
    """
    from sojourn.experiments.training import calibrated
    from sojourn.learning.calibrate.calibrate import Effort
    from sojourn.learning.run.build import build

    _one_thread()
    config = TrainConfig.of({"execution": "one-by-one", **run_keys(fleet, plan, keys)}, "calibrate")
    return calibrated(build(config), Effort(gradients, points, directions, examples, confidence))


def run_keys(fleet: Any, plan: Any, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a run, with a text in place of each object. Every call of the front door begins here."""
    _CALLED.set({})
    keys = unwrapped(keys)
    given = {"fleet": _fleet(fleet), **{key: _text(key, keys[key]) for key in sorted(keys)}}
    if plan is not None:
        given["plan"] = _plan(fleet, plan)
    return given


def _fleet(given: Any) -> str:
    if isinstance(given, str | Path):
        return str(given)
    if not isinstance(given, Fleet):
        way = "write Fleet.of(fast=(90, 8.0), slow=(10, 1.0)), or name a fleet file"
        raise InvalidInput(f"fleet must be a Fleet or the name of its file, got {quoted(given)}; {way}")
    return handed_over(given, f"fleet-{given.hash}")


def _plan(fleet: Any, given: Any) -> str:
    if isinstance(given, str | Path):
        return str(given)
    if isinstance(fleet, Fleet):
        made = plan_for(fleet, given)
    else:
        made = getattr(given, "plan", given)
        if not isinstance(made, Plan):
            raise InvalidInput(f"plan must be a Plan, got {quoted(given)}; write for example Plan.uniform(fleet, 20)")
    return handed_over(made, f"plan-{made.hash}")


def _text(key: str, value: Any) -> Any:
    """Return what stands for a value in a configuration: the value itself, or the text of an object."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Path):
        return str(value)
    if key == "data":
        data = dataset_of(value)
        return handed_over(data, f"{short(data.name, 60)}-{data.hash}")
    if key == "algorithm":
        return algorithm_text(value)
    if key == "wrap":
        many = value if isinstance(value, Sequence) else [value]
        return "; ".join(wrapper_text(one) for one in many)
    if key == "plan":
        return _plan(None, value)
    if key == "fleet":
        return _fleet(value)
    if key == "metrics" and isinstance(value, Sequence):
        return ", ".join(_text(key, one) for one in value)
    if key in ("model", "partition", "loss", "metrics"):
        return _handed(value, _label(value))
    if isinstance(value, int | float):
        return value
    raise InvalidInput(
        f"{key} must be a number or a text, got {quoted(value)}; see docs/files.md for the keys of a run"
    )


def _handed(thing: Any, label: str) -> str:
    """Hand an object over and return its text; objects that share a label in one call (two lambdas,
    say) are numbered.
    """
    called = _CALLED.get()
    name, number = label, 1
    while called is not None and called.setdefault(name, thing) is not thing:
        number += 1
        name = f"{label}-{number}"
    return handed_over(thing, name)


def _label(thing: Any) -> str:
    """Return the label of an object: the module that defines it, and its name there."""
    named = thing if inspect.isclass(thing) or inspect.isroutine(thing) else type(thing)
    name = f"{named.__module__}.{named.__qualname__}".replace("<", "").replace(">", "")
    return name if named is thing else f"{name}-object"


def algorithm_text(given: Any) -> str:
    """Return the text of an algorithm, from which the same object can be made again; your own is handed over as it is.

    >>> from sojourn.learning.algorithms.fedbuff import FedBuff
    >>> algorithm_text(FedBuff(size=3)), algorithm_text("asyncsgd")
    ('fedbuff(size=3)', 'asyncsgd')
    """
    if isinstance(given, str):
        return given
    made: Algorithm = checked(given, short(repr(given), MOST_LABEL))
    if getattr(made, "server", ServerStep()) != ServerStep():
        raise InvalidInput(
            f"the server step of {made.name} belongs to the run: leave server out of it, and give step_size, server "
            "and schedule"
        )
    options = ", ".join(f"{key}={_word(value)}" for key, value in _changed(made).items())
    if ALGORITHMS.get(made.name) is type(made):
        return f"{made.name}({options})" if options else made.name
    return _handed(made, f"{_label(type(made))}({short(options, MOST_LABEL)})")


def wrapper_text(given: Any) -> str:
    """Return the text of a wrapper, from which the same object can be made again; your own is handed over as it is.

    >>> from sojourn.learning.wrappers.topk import TopK
    >>> wrapper_text(TopK(share=0.1)), wrapper_text("sign")
    ('topk(share=0.1)', 'sign')
    """
    if isinstance(given, str):
        return given
    made = checked_wrapper(given, short(repr(given), MOST_LABEL))
    options = ", ".join(f"{key}={_word(value)}" for key, value in _changed(made).items())
    if WRAPPERS.get(made.name) is type(made):
        return f"{made.name}({options})" if options else made.name
    return _handed(made, f"{_label(type(made))}({short(options, MOST_LABEL)})")


def unwrapped(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a run, with an algorithm that has wrappers around it as two: algorithm and wrap."""
    given = keys.get("algorithm")
    if not isinstance(given, Wrapped):
        return dict(keys)
    if keys.get("wrap") is not None:
        raise InvalidInput("wrap and an algorithm that is wrapped already exclude each other, got both; give one")
    return {**keys, "algorithm": bare(given), "wrap": wrappers_of(given)}


def _title(keys: Mapping[str, Any]) -> str | None:
    """Return what an entry of a comparison is called if it has no name."""
    words = [keys[key] for key in ("algorithm", "wrap") if keys.get(key)]
    return " + ".join(words) if "algorithm" in keys else None


def _changed(made: Any) -> dict[str, Any]:
    """Return the fields whose values differ from their defaults."""
    found = {}
    for item in fields(made) if is_dataclass(made) else ():
        default = item.default if item.default_factory is MISSING else item.default_factory()
        if item.name != "server" and getattr(made, item.name) != default:
            found[item.name] = getattr(made, item.name)
    return found


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _entries(fleet: Any, given: Sequence[Any] | Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tables [[algorithm]] of a comparison."""
    if isinstance(given, str) or not isinstance(given, Sequence | Mapping):
        raise InvalidInput(f"algorithms must be a list of algorithms and plans, got {quoted(given)}; write [..., ...]")
    named = given.items() if isinstance(given, Mapping) else ((None, one) for one in given)
    entries: list[dict[str, Any]] = []
    for name, one in named:
        keys = _entry(fleet, one)
        number = sum("plan" in other for other in entries) + 1
        usual = _title(keys) or (f"plan {number}" if "plan" in keys else None)
        entries.append({"name": name or keys.pop("name", None) or usual, **keys})
    return entries


def _entry(fleet: Any, one: Any) -> dict[str, Any]:
    if isinstance(one, Mapping):
        return {key: value if key == "name" else _text(key, value) for key, value in unwrapped(one).items()}
    if isinstance(one, tuple) and len(one) == 2:
        return {**_entry(fleet, one[0]), "plan": _plan(fleet, one[1])}
    if isinstance(getattr(one, "plan", one), Plan):
        return {"plan": _plan(fleet, one)}
    return {key: _text(key, value) for key, value in unwrapped({"algorithm": one}).items()}


def _warn_of_callback(what: str, facts: Mapping[str, Any]) -> None:
    """Warn of a callback of a live run that has failed; the log has everything else."""
    if what == "callback":
        warnings.warn(str(facts["reason"]), stacklevel=2)


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
def _place(folder: str | Path | None) -> Iterator[tuple[Path, bool]]:
    """Give a folder to work in, and whether it is temporary; a temporary folder is also removed after an error."""
    place = Path(mkdtemp(prefix="sojourn-") if folder is None else folder)
    try:
        yield place, folder is None
    except BaseException:
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)
        raise


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


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)  # the same sums in the same order on any number of cores
