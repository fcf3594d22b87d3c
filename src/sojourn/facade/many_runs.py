"""`sojourn.tune`, `sojourn.compare` and `sojourn.sweep`: many runs in one folder."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sojourn.experiments.results import Comparison, Sweep
from sojourn.facade.entries import entries_of
from sojourn.facade.surroundings import one_thread, place_for
from sojourn.facade.texts import run_keys, text_of
from sojourn.fleet import Fleet
from sojourn.learning.run.config import TrainConfig

if TYPE_CHECKING:
    from sojourn.experiments.tuned_plan import TunedPlan


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
    overwrite: bool = False,
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
    - `overwrite`: replace the table of another tuning in `folder`
    - `jobs`: processes that train at the same time; by default one per core
    - `keys`: the keys of a run, as for `train`; `time` (seconds) or `steps` is the budget

    Returns a TunedPlan, which can be passed to `train` as the plan. It remembers the algorithm: `train` uses that one
    unless another is named.
    """
    from sojourn.experiments.cells import seeds_of
    from sojourn.experiments.comparison import FIRST_TUNING_SEED
    from sojourn.experiments.earlier import check_tuning
    from sojourn.experiments.plan_tuning import PlanTuning
    from sojourn.experiments.tune_plan import tune_plan

    config = TrainConfig.of(run_keys(fleet, plan, keys), "tune")
    whole = seeds_of(seeds if isinstance(seeds, int) else list(seeds), "seeds", FIRST_TUNING_SEED)
    tuning = PlanTuning(config, guess, tuple(corrections), tuple(buffers), whole, holdout)
    with one_thread(), place_for(folder) as (place, temporary):
        if not overwrite:
            check_tuning(tuning, place)
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
    overwrite: bool = False,
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
    - `overwrite`: replace the tables of another comparison in `folder`
    - `jobs`: processes that train at the same time; by default one per core
    - `on`, `address`: `"here"`, or `"ray"` and the address of a Ray cluster
    - `keys`: the keys of a run, the same for all, as for `train`

    Returns a Comparison.
    """
    from sojourn.experiments.compare import compare as work
    from sojourn.experiments.comparison import ComparisonSpec
    from sojourn.experiments.earlier import check_comparison

    content: dict[str, Any] = {
        "run": run_keys(fleet, None, keys),
        "seeds": seeds if isinstance(seeds, int) else list(seeds),
    }
    content["algorithm"] = entries_of(fleet, algorithms)
    content["tuning"] = {**(tuning or {}), **({"step_sizes": list(step_sizes)} if len(step_sizes) else {})}
    words = {"target": target, "baseline": baseline, "dispatch": dispatch}
    content |= {key: value for key, value in words.items() if value is not None}
    described = ComparisonSpec.of(content, "compare")
    with place_for(folder) as (place, temporary):
        if not overwrite:
            check_comparison(described, place)
        compared = work(described, place, jobs=jobs, on=on, address=address)
    return Comparison.of(compared, temporary)


def sweep(
    fleet: Fleet | str | Path,
    grid: Mapping[str, Sequence[Any]],
    *,
    seeds: int | Sequence[int] = 1,
    folder: str | Path | None = None,
    overwrite: bool = False,
    jobs: int | None = None,
    on: str = "here",
    address: str | None = None,
    **keys: Any,
) -> Sweep:
    """Train every combination of the values in `grid` with every seed, and return a Sweep of the runs.

    `grid` maps keys of a run to lists of values: `{"step_size": [0.1, 0.3], "batch_size": [16, 32]}`. `keys` are the
    keys that all runs share, as for `train`; `seeds`, `folder`, `overwrite`, `jobs`, `on` and `address` are as
    for `compare`.
    """
    from sojourn.experiments.cells import seeds_of
    from sojourn.experiments.earlier import check_sweep
    from sojourn.experiments.sweep import Grid, runs_of
    from sojourn.experiments.sweep import sweep as work

    given = run_keys(fleet, None, keys)
    values = {key: tuple(text_of(key, one) for one in many) for key, many in grid.items()}
    whole = seeds if isinstance(seeds, int) else list(seeds)
    described = Grid(given, values, seeds_of(whole, "seeds"))
    with place_for(folder) as (place, temporary):
        if not overwrite:
            check_sweep(described, place)
        swept = work(described, place, jobs=jobs, on=on, address=address)
    return Sweep(place, runs_of(described, place, swept.failures), swept.failures, temporary)
