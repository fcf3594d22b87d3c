"""A comparison in its folder: tune, train, and report how the algorithms compare.

cells/          every trial and every run, as ordinary run folders
tuning.csv      every trial          runs.csv     every run compared
table.csv       the table            curves.csv   means and intervals along each axis
summary.json    everything but the curves, with the grid and the notes
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from sojourn.csv_file import write_csv
from sojourn.experiments.cells import Cell, Cells, EndedCell, Part, find, in_part, without_twins
from sojourn.experiments.comparison import ComparisonSpec
from sojourn.experiments.on_ray import cluster
from sojourn.experiments.run_cells import Swept, run_cells
from sojourn.experiments.same_dispatcher import differing, dispatcher_of, uncapped
from sojourn.experiments.statistics import AXES, curves, standing, to_target
from sojourn.experiments.train_cells import check_cells
from sojourn.experiments.tune import Tuned, trials, tune
from sojourn.files import write_json
from sojourn.folders import check_folder
from sojourn.learning.run.build import fleet_and_plan
from sojourn.learning.run.tuned_for import tuned_algorithm, tuned_for_another
from sojourn.version import __version__

SAME = {"fleet_hash": "fleet", "dataset_hash": "data", "partition_hash": "partition", "parameters": "model"}
ALIKE = ("device", "sojourn", "torch")
Phase = Callable[[str], None]
"""A function that is told what is being done now."""

CellRuns = Mapping[str, Mapping[int, EndedCell]]
"""Runs by algorithm, then by seed."""


@dataclass
class Compared:
    """The outcome of a comparison."""

    folder: Path
    """Its folder."""
    tuned: Tuned
    """The step sizes, and how they were chosen."""
    runs: CellRuns = field(default_factory=dict)
    """The runs that have ended."""
    table: list[dict[str, Any]] = field(default_factory=list)
    """One row per algorithm and axis."""
    curves: list[dict[str, Any]] = field(default_factory=list)
    """Mean curves along each axis."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """One row per run."""
    collected: bool = False
    """Whether all step sizes have been chosen, so that the runs could be compared."""
    notes: list[str] = field(default_factory=list)
    """What a reader should know."""
    failures: dict[str, str] = field(default_factory=dict)
    """The error of each cell that failed, by the cell's name."""
    open: int = 0
    """Cells that have not ended and did not fail."""
    interrupted: bool = False
    """Whether Ctrl-C ended it early."""


def compare(comparison: ComparisonSpec, folder: str | Path, **options: Any) -> Compared:
    """Tune and train what has not ended, and write the results; options are those of `work_off`."""
    compared = work_off(comparison, folder, **options)
    save(comparison, compared)
    return compared


def work_off(
    comparison: ComparisonSpec,
    folder: str | Path,
    part: Part | None = None,
    phase: Phase | None = None,
    **options: Any,
) -> Compared:
    """Tune and train what has not ended, and return the results; options are those of `run_cells`.

    With a `part`, only that part of the cells is trained here. Once the folders of all parts have been copied into one,
    the same call without `part` does the rest.
    """
    check_folder(folder)
    check_cells(
        [comparison.final(algorithm, None, comparison.seeds[0]) for algorithm in comparison.algorithms],
        options.get("on", "here"),
    )
    on_ray = options.get("on") == "ray"  # the same cluster for trials and runs
    with cluster(options.get("address"), options.get("jobs")) if on_ray else nullcontext():
        return _compared(comparison, Path(folder), part, phase or (lambda text: None), options)


def _compared(
    comparison: ComparisonSpec, home: Path, part: Part | None, said: Phase, options: Mapping[str, Any]
) -> Compared:
    def train(cells: Sequence[Cell]) -> Swept:
        return run_cells(in_part(cells, part), home, **options)

    said("tuning")
    tuned = tune(comparison, home, train)
    compared = Compared(home, tuned, failures=dict(tuned.failures), open=tuned.open, interrupted=tuned.interrupted)
    if tuned.trials:
        write_csv(home / "tuning.csv", tuned.trials)
    if tuned.open or tuned.interrupted:
        return compared
    said("runs")
    cells = finals(comparison, tuned)
    swept = train([cell for _, _, cell in cells])
    compared.failures |= swept.failures
    compared.interrupted = swept.interrupted
    _collect(comparison, compared, cells)
    return compared


def counted(comparison: ComparisonSpec, folder: str | Path) -> dict[str, int]:
    """Count the trials and the runs, and how many of them have ended; nothing is trained."""
    tuned, cells = _left(comparison, folder)
    ended = sum(row["state"] in ("complete", "diverged") for row in tuned.trials)
    done = 0 if tuned.open else len(Cells(Path(folder)).finished(cells["runs"]))
    return {"trials": len(tuned.trials), "trials_ended": ended, "runs": len(cells["runs"]), "runs_ended": done}


def may_grow(comparison: ComparisonSpec, trials: int) -> int:
    """The trials that a growing grid can add: at most two step sizes each time, one at each edge."""
    most = len(comparison.tuning.step_sizes) + 2 * comparison.tuning.extensions
    algorithms = sum(one.tuned for one in comparison.algorithms)
    return max(0, most * algorithms * len(comparison.tuning.seeds) - trials) if trials else 0


def cells_of(comparison: ComparisonSpec, folder: str | Path) -> dict[str, list[Cell]]:
    """The trials on the present grid, and the runs; a step size not chosen yet is replaced by a value of the grid."""
    return _left(comparison, folder)[1]


def _left(comparison: ComparisonSpec, folder: str | Path) -> tuple[Tuned, dict[str, list[Cell]]]:
    tuned = tune(comparison, folder, lambda cells: Swept(len(cells)))
    algorithms = [one for one in comparison.algorithms if one.tuned] if tuned.trials else []
    tried = [cell for _, _, _, cell in trials(comparison, algorithms, tuned.grid)]
    some = {one.name: step_size for one in comparison.algorithms for step_size in tuned.grid[:1]}
    assumed = replace(tuned, chosen={**some, **tuned.chosen}) if tuned.open else tuned
    runs = without_twins(cell for _, _, cell in finals(comparison, assumed))
    return tuned, {**({"trials": tried} if tried else {}), "runs": runs}


def finals(comparison: ComparisonSpec, tuned: Tuned) -> list[tuple[str, int, Cell]]:
    """The runs that are compared: algorithm, seed, cell."""
    return [
        (algorithm.name, seed, comparison.final(algorithm, tuned.chosen.get(algorithm.name), seed))
        for algorithm in comparison.algorithms
        if algorithm.name not in tuned.left_out
        for seed in comparison.seeds
    ]


def _collect(comparison: ComparisonSpec, compared: Compared, cells: list[tuple[str, int, Cell]]) -> None:
    """Read the cells that have ended, and compute the results."""
    found = find([cell for _, _, cell in cells], compared.folder)
    runs: dict[str, dict[int, Any]] = {}
    for name, seed, cell in cells:
        if cell.hash in found:
            runs.setdefault(name, {})[seed] = found[cell.hash]
        elif cell.name not in compared.failures:
            compared.open += 1
    compared.runs = runs
    compared.collected = True
    if runs:
        marks = {name: _marks(comparison, compared.tuned, name, mine) for name, mine in runs.items()}
        rows = standing(runs, comparison.baseline, comparison.target)
        compared.table = [{"algorithm": row["algorithm"], **marks[row["algorithm"]], **row} for row in rows]
        compared.curves = list(curves(runs))
        compared.rows = _run_rows(comparison, runs, marks)
    compared.notes = _notes(comparison, compared)


def save(comparison: ComparisonSpec, compared: Compared, made_by: str | None = None) -> None:
    """Write the files, with the command that made them; nothing is written while step sizes are still to be chosen."""
    if not compared.collected:
        return
    if compared.runs:
        write_csv(compared.folder / "runs.csv", compared.rows)
        write_csv(compared.folder / "table.csv", compared.table)
        write_csv(compared.folder / "curves.csv", compared.curves)
    told = {} if made_by is None else {"made_by": made_by}
    write_json(compared.folder / "summary.json", {**_plain(summary(comparison, compared)), **told}, "summary")


def _marks(comparison: ComparisonSpec, tuned: Tuned, name: str, runs: Mapping[int, EndedCell]) -> dict[str, Any]:
    """What an algorithm was given: its step size and where that comes from, its dispatcher, its updates."""
    trials = len(tuned.grid) * len(comparison.tuning.seeds) if name in tuned.chosen else 0
    first = next(iter(runs.values()))
    return {
        "step_size": first.facts["config"]["step_size"],
        "edge": tuned.edge.get(name, ""),
        "trials": trials,
        "dispatcher": dispatcher_of(first.cell.config),
        "updates": fmean(run.rows[-1]["received"] for run in runs.values()),
    }


def _run_rows(comparison: ComparisonSpec, runs: CellRuns, marks: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for name, mine in runs.items():
        for seed, run in mine.items():
            had = {key: value for key, value in marks[name].items() if key != "updates"}  # `received` has it here
            row: dict[str, Any] = {"algorithm": name, "seed": seed, **had, "cell": run.cell.hash}
            row["state"] = "diverged" if run.diverged else "complete"
            row |= {key: value for key, value in run.last.items() if not key.startswith("staleness_")}
            if comparison.target is not None:
                costs = {f"{axis}_to_target": to_target(run, axis, comparison.target) for axis in AXES}
                row |= {key: cost if math.isfinite(cost) else None for key, cost in costs.items()}
            rows.append({**row, **run.identity()})
    return rows


def _notes(comparison: ComparisonSpec, compared: Compared) -> list[str]:
    tuned, runs = compared.tuned, compared.runs
    notes = [
        f"{name}: its best step size {tuned.chosen[name]:g} is still at the {side} edge of the grid; "
        "a better one may lie beyond"
        for name, side in tuned.edge.items()
        if name in tuned.chosen
    ]
    notes += [f"{name} is left out: {why}" for name, why in tuned.left_out.items()]
    if comparison.baseline in tuned.left_out:
        notes.append(f"the baseline {comparison.baseline} is left out, so no differences are shown")
    for name, mine in runs.items():
        gone = sum(run.diverged for run in mine.values())
        if gone:
            notes.append(f"{name} diverged in {gone} of {len(mine)} runs, so it has no mean")
        if len(mine) < len(comparison.seeds):
            notes.append(f"{name} has {len(mine)} of {len(comparison.seeds)} runs so far")
    if len({row["dataset_hash"] for row in tuned.trials} - {""}) > 1:
        notes.append("the trials do not all have the same data: it was changed in the meantime; remove the old cells")
    if len(comparison.seeds) == 1:
        notes.append("there is only one seed, so there are no intervals")
    if (
        not comparison.tuning.step_sizes
        and "step_size" not in comparison.run
        and any(one.tuned for one in comparison.algorithms)
    ):
        notes.append("the step sizes were not tuned")
    return (
        notes + known_before(comparison, tuned.left_out) + unused(runs) + unpaired(runs) + mixed(runs, compared.folder)
    )


def known_before(comparison: ComparisonSpec, left_out: Collection[str] = ()) -> list[str]:
    """Sentences about the algorithms compared that are known before they are trained."""
    configs = {
        one.name: comparison.final(one, None, comparison.seeds[0]).config
        for one in comparison.algorithms
        if one.name not in left_out
    }
    notes = uncapped(configs) + differing(configs, str(comparison.baseline))
    for one in comparison.algorithms:
        named = "algorithm" in one.keys or "algorithm" in comparison.run
        if one.name in configs and not named and tuned_algorithm(one.keys.get("plan")) is not None:
            notes.append(f"{one.name}: algorithm {configs[one.name].algorithm}, which its plan was tuned for")
    for name, config in configs.items() if not comparison.tuning.step_sizes else ():
        note = tuned_for_another(fleet_and_plan(config)[1], config.algorithm, config.step_size)
        notes += [] if note is None else [f"{name}: {note}"]
    return notes


def summary(comparison: ComparisonSpec, compared: Compared) -> dict[str, Any]:
    """The comparison and its results, as plain values."""
    tuned = compared.tuned
    return {
        "sojourn": __version__,
        "comparison": {**asdict(comparison), "target": str(comparison.target) if comparison.target else None},
        "tuning": {
            "grid": tuned.grid,
            "chosen": tuned.chosen,
            "edge": tuned.edge,
            "left_out": tuned.left_out,
            "trials_each": len(tuned.grid) * len(comparison.tuning.seeds) if tuned.chosen else 0,
        },
        "table": compared.table,
        "notes": compared.notes,
        "failures": compared.failures,
        "open": compared.open,
        "complete": not (compared.open or compared.failures or compared.interrupted),
    }


def _plain(value: Any) -> Any:
    """The value with null in place of numbers that are not finite, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def unpaired(runs: CellRuns) -> list[str]:
    """Sentences that say in what runs with the same seed differ; none where all runs are pairs.

    Service times and batches follow from the seed, the client and the number of the task. Runs that agree in these
    three agree in service times and batches too.
    """
    notes = []
    for seed in sorted({seed for mine in runs.values() for seed in mine}):
        mine = {name: every[seed] for name, every in runs.items() if seed in every}
        for key, word in SAME.items():
            if len({run.facts[key] for run in mine.values()}) > 1:
                notes.append(f"seed {seed}: the algorithms do not have the same {word}; these runs are not pairs")
        firsts = [run.rows[0]["test_loss"] for run in mine.values()]
        if max(firsts) - min(firsts) > 1e-6 * max(1.0, abs(max(firsts))):  # devices round differently
            notes.append(f"seed {seed}: the algorithms do not begin with the same model; these runs are not pairs")
    for key in ("dataset_hash", "parameters"):  # these are the same for all seeds
        if len({run.facts[key] for every in runs.values() for run in every.values()}) > 1:
            notes.append(
                f"the runs do not all have the same {SAME[key]}: it was changed in the meantime; remove the old cells"
            )
    return notes


def unused(runs: CellRuns) -> list[str]:
    """Sentences that name the settings which an algorithm does not use."""
    notes = []
    for name, mine in runs.items():
        keys = sorted({str(key) for run in mine.values() for key in run.facts.get("unused", [])})
        notes += [f"{key} has no effect on {name}" for key in keys]
    return notes


def mixed(runs: CellRuns, folder: Path = Path()) -> list[str]:
    """Sentences that say in which devices and versions the runs differ."""
    every = [run.identity() for mine in runs.values() for run in mine.values()]
    notes = []
    for key in ALIKE:
        values = sorted({str(one[key]) for one in every})
        if len(values) > 1:
            notes.append(f"the runs come from more than one {key}: {', '.join(values)}; see {folder / 'runs.csv'}")
    return notes
