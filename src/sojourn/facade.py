"""The front door to training: fleets, plans, models, data and algorithms are objects; results are, too.

Everything here is also on the command line, with files: an object is given a text under which every room finds it
(see `own_code`), a file is its serialisation.
"""

import inspect
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from sojourn.calibration import Calibration
from sojourn.durations import seconds
from sojourn.errors import InvalidInput
from sojourn.experiments.results import Comparison, Run, Sweep
from sojourn.fleet import Fleet
from sojourn.learning.algorithms.base import Algorithm
from sojourn.learning.algorithms.table import ALGORITHMS, checked
from sojourn.learning.data.given import dataset_of
from sojourn.learning.replay.server_step import ServerStep
from sojourn.learning.run.config import TrainConfig
from sojourn.own_code import handed_over
from sojourn.plan import Plan, plan_for
from sojourn.shown import quoted, short
from sojourn.trace import Trace

if TYPE_CHECKING:
    from sojourn.experiments.tune_plan import TunedPlan

Progress = Callable[[int, int, dict[str, Any]], None]
MOST_LABEL = 200
_CALLED: ContextVar[dict[str, Any] | None] = ContextVar("called", default=None)  # in this call, by what


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
    **keys: Any,
) -> Run:
    """Train a model over a fleet on the virtual clock.

    `plan` is a Plan, what `make_plan` returned, or a plan file; uniform with one task per client where not given.
    `keys` are those of a run (docs/files.md), with objects where the command line has texts:

    - `model`: an nn.Module class, an instance, a function of the Dataset, or a text such as `cnn`
    - `data`: a Dataset, a pair of arrays (x, y), a map-style PyTorch dataset, or a text such as `digits`
    - `algorithm`: an object such as `sojourn.algorithms.FedBuff(size=10)`, or its text
    - `partition`, `loss`, `metrics`: functions, or texts

    `trace` is learnt along instead of a timing simulated now. The run lies in `folder`; without one, in a temporary
    folder that goes with the object. With `resume` it goes on where it stopped; `overwrite` replaces a run that is
    there. Ctrl-C stops it, with a checkpoint: the Run that is returned is then not complete. With `tune` the step size
    is chosen first, as `sojourn.tune` does, by trials that lie in the run's folder.

    >>> fleet = Fleet.of(fast=(6, 4.0), slow=(4, 1.0))
    >>> train(fleet, steps=20, partition="iid", progress=False).complete
    True
    """
    from sojourn.experiments.training import open_run

    given = run_keys(fleet, plan, keys)
    file = str(trace) if isinstance(trace, str | Path) else None
    if isinstance(trace, str | Path):
        trace = Trace.load(trace)
    elif trace is not None and not isinstance(trace, Trace):
        raise InvalidInput(f"trace must be a Trace or the name of its file, got {quoted(trace)}; see sojourn.simulate")
    config = TrainConfig.of(given, "train")
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
            run = open_run(config, place, resume, watch, trace=trace, overwrite=overwrite)
        with _bar("training_bar", progress) as report:
            run.go(
                seconds(checkpoint_seconds, "checkpoint_seconds"), progress=progress if callable(progress) else report
            )
    return Run(place, temporary)


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
    """The step size of a plan, and where asked its correction and buffer, by short paired runs on held-out examples.

    Seven step sizes around `guess`, a factor of 2 apart, are trained for a ninth of the budget, the best third of them
    for a third of it, the best of these for all of it; the grid grows where the best lies at its edge. `keys` are those
    of a run, as for `train`; `time` or `steps` is the budget. Without a guess that of the plan is taken, or else a wide
    grid around 0.1 comes first. Called again with the same folder, only what is missing is trained. What is returned
    can be handed to `train` as the plan.
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
    folder: str | Path | None = None,
    jobs: int | None = None,
    on: str = "here",
    address: str | None = None,
    **keys: Any,
) -> Comparison:
    """Compare algorithms and plans fairly: the same data, first model, batches and service times, each at its best.

    Each of `algorithms` is an Algorithm, its text, a Plan (then trained by Generalized AsyncSGD), a pair of both, or a
    dict of keys in which it differs; a mapping names them. `keys` are those of a run, the same for all, as for `train`.
    With `step_sizes` every algorithm is tuned over this grid on held-out examples and seeds of their own; `tuning` are
    more keys of the table [tuning]. Called again with the same folder, only what is missing is trained.
    """
    from sojourn.experiments.compare import compare as work
    from sojourn.experiments.comparison import ComparisonSpec

    content: dict[str, Any] = {
        "run": run_keys(fleet, None, keys),
        "seeds": seeds if isinstance(seeds, int) else list(seeds),
    }
    content["algorithm"] = _entries(fleet, algorithms)
    content["tuning"] = {**(tuning or {}), **({"step_sizes": list(step_sizes)} if len(step_sizes) else {})}
    content |= {key: value for key, value in {"target": target, "baseline": baseline}.items() if value is not None}
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
    """Train every combination of the grid's values with every seed; `grid` and `keys` are those of a run."""
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
    """Measure the constants A, L, sigma^2 and G^2 of a model on its data and clients; `keys` as for `train`.

    `calibrate(...).constants` is what `goal` and the planner take.
    """
    from sojourn.experiments.training import calibrated
    from sojourn.learning.calibrate.calibrate import Effort
    from sojourn.learning.run.build import build

    _one_thread()
    config = TrainConfig.of({"execution": "one-by-one", **run_keys(fleet, plan, keys)}, "calibrate")
    return calibrated(build(config), Effort(gradients, points, directions, examples, confidence))


def run_keys(fleet: Any, plan: Any, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a run, with texts for objects; a call begins with them."""
    _CALLED.set({})
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
    """What stands for a value in a configuration: itself, or the text of an object."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Path):
        return str(value)
    if key == "data":
        data = dataset_of(value)
        return handed_over(data, f"{short(data.name, 60)}-{data.hash}")
    if key == "algorithm":
        return algorithm_text(value)
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
    """Hand an object over; others of the same label in the same call, as two lambdas, are numbered."""
    called = _CALLED.get()
    name, number = label, 1
    while called is not None and called.setdefault(name, thing) is not thing:
        number += 1
        name = f"{label}-{number}"
    return handed_over(thing, name)


def _label(thing: Any) -> str:
    """What an object is called: where it was defined, and what it is there."""
    named = thing if inspect.isclass(thing) or inspect.isroutine(thing) else type(thing)
    name = f"{named.__module__}.{named.__qualname__}".replace("<", "").replace(">", "")
    return name if named is thing else f"{name}-object"


def algorithm_text(given: Any) -> str:
    """The text of an algorithm, by which its object can be made again; one's own is handed over as it is.

    >>> from sojourn.learning.algorithms.fedbuff import FedBuff
    >>> algorithm_text(FedBuff(size=3)), algorithm_text("asyncsgd")
    ('fedbuff(size=3)', 'asyncsgd')
    """
    if isinstance(given, str):
        return given
    made: Algorithm = checked(given, short(repr(given), MOST_LABEL))
    if getattr(made, "server", ServerStep()) != ServerStep():
        raise InvalidInput(
            f"the step of {made.name} is the run's: leave its server out, and give step_size, server and schedule"
        )
    options = ", ".join(f"{key}={_word(value)}" for key, value in _changed(made).items())
    if ALGORITHMS.get(made.name) is type(made):
        return f"{made.name}({options})" if options else made.name
    return _handed(made, f"{_label(type(made))}({short(options, MOST_LABEL)})")


def _changed(made: Any) -> dict[str, Any]:
    """Fields that are not what they are by default."""
    found = {}
    for item in fields(made) if is_dataclass(made) else ():
        default = item.default if item.default_factory is MISSING else item.default_factory()
        if item.name != "server" and getattr(made, item.name) != default:
            found[item.name] = getattr(made, item.name)
    return found


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _entries(fleet: Any, given: Sequence[Any] | Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tables [[algorithm]] of a comparison."""
    if isinstance(given, str) or not isinstance(given, Sequence | Mapping):
        raise InvalidInput(f"algorithms must be a list of algorithms and plans, got {quoted(given)}; write [..., ...]")
    named = given.items() if isinstance(given, Mapping) else ((None, one) for one in given)
    entries: list[dict[str, Any]] = []
    for name, one in named:
        keys = _entry(fleet, one)
        number = sum("plan" in other for other in entries) + 1
        usual = keys.get("algorithm") or (f"plan {number}" if "plan" in keys else None)
        entries.append({"name": name or keys.pop("name", None) or usual, **keys})
    return entries


def _entry(fleet: Any, one: Any) -> dict[str, Any]:
    if isinstance(one, Mapping):
        return {key: value if key == "name" else _text(key, value) for key, value in one.items()}
    if isinstance(one, tuple) and len(one) == 2:
        return {**_entry(fleet, one[0]), "plan": _plan(fleet, one[1])}
    if isinstance(getattr(one, "plan", one), Plan):
        return {"plan": _plan(fleet, one)}
    return {"algorithm": algorithm_text(one)}


@contextmanager
def _place(folder: str | Path | None) -> Iterator[tuple[Path, bool]]:
    """Where to work, and whether it goes with the result; a place that nobody named goes with an error, too."""
    place = Path(mkdtemp(prefix="sojourn-") if folder is None else folder)
    try:
        yield place, folder is None
    except BaseException:
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)
        raise


def _bar(name: str, progress: Progress | bool) -> AbstractContextManager[Any]:
    """A bar on a terminal, unless somebody else is told."""
    if callable(progress) or not progress:
        return nullcontext()
    from sojourn.report import bars

    made: AbstractContextManager[Any] = getattr(bars, name)()
    return made


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)  # the same sums in the same order on any number of cores
