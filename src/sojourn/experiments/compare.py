"""A comparison in its folder: tune, train, and say how the algorithms stand.

cells/          every trial and every run, ordinary folders of runs
tuning.csv      every trial          runs.csv     every run compared
table.csv       the table            curves.csv   means and intervals along each axis
summary.json    all of it that is not a curve, with the grid and what to know
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sojourn.csv_file import write_csv
from sojourn.experiments.cells import Cell, Cells, EndedCell, Part, find, in_part, without_twins
from sojourn.experiments.comparison import ComparisonSpec
from sojourn.experiments.on_ray import cluster
from sojourn.experiments.run_cells import Swept, run_cells
from sojourn.experiments.statistics import AXES, Runs, curves, standing, to_target
from sojourn.experiments.train_cells import check_cells
from sojourn.experiments.tune import Tuned, tune
from sojourn.files import write_json
from sojourn.folders import check_folder
from sojourn.version import __version__

SAME = {"fleet_hash": "fleet", "dataset_hash": "data", "partition_hash": "partition", "parameters": "model"}
ALIKE = ("device", "sojourn", "torch")
Phase = Callable[[str], None]
"""Told what is done now."""


@dataclass
class Compared:
    """How a comparison went."""

    folder: Path
    """Where it lies."""
    tuned: Tuned
    """The step sizes."""
    runs: Runs = field(default_factory=dict)
    """What has ended."""
    table: list[dict[str, Any]] = field(default_factory=list)
    """A row for every algorithm on every axis."""
    curves: list[dict[str, Any]] = field(default_factory=list)
    """Means along each axis."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """A row for every run."""
    collected: bool = False
    """Whether the step sizes were settled, so that runs could be looked at."""
    notes: list[str] = field(default_factory=list)
    """What a reader should know."""
    failures: dict[str, str] = field(default_factory=dict)
    """Errors of cells, by their names."""
    open: int = 0
    """Cells that have not ended and did not fail."""
    interrupted: bool = False
    """Whether Ctrl-C ended it early."""


def compare(comparison: ComparisonSpec, folder: str | Path, **options: Any) -> Compared:
    """Tune and train what has not ended, and write how the algorithms stand; options are those of `work_off`."""
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
    """Tune and train what has not ended, and say how the algorithms stand; options are those of `run_cells`.

    With a `part` only that part of the cells is trained here; once the folders of all parts lie in one, the same call
    without it does the rest.
    """
    check_folder(folder)
    check_cells(
        [comparison.final(algorithm, None, comparison.seeds[0]) for algorithm in comparison.algorithms],
        options.get("on", "here"),
    )
    on_ray = options.get("on") == "ray"  # one cluster for trials and runs
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
    """How many trials and runs there are, and how many have ended; nothing is trained."""
    tuned = tune(comparison, folder, lambda cells: Swept(len(cells)))
    ended = sum(row["state"] in ("complete", "diverged") for row in tuned.trials)
    runs = len(comparison.algorithms) * len(comparison.seeds)
    done = 0
    if not tuned.open:
        cells = without_twins(cell for _, _, cell in finals(comparison, tuned))
        runs, done = len(cells), len(Cells(Path(folder)).finished(cells))
    return {"trials": len(tuned.trials), "trials_ended": ended, "runs": runs, "runs_ended": done}


def finals(comparison: ComparisonSpec, tuned: Tuned) -> list[tuple[str, int, Cell]]:
    """The runs that are compared: algorithm, seed, cell."""
    return [
        (algorithm.name, seed, comparison.final(algorithm, tuned.chosen.get(algorithm.name), seed))
        for algorithm in comparison.algorithms
        if algorithm.name not in tuned.left_out
        for seed in comparison.seeds
    ]


def _collect(comparison: ComparisonSpec, compared: Compared, cells: list[tuple[str, int, Cell]]) -> None:
    """Read what has ended."""
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


def save(comparison: ComparisonSpec, compared: Compared) -> None:
    """Write the files; nothing where the runs have not been looked at, because step sizes are still open."""
    if not compared.collected:
        return
    if compared.runs:
        write_csv(compared.folder / "runs.csv", compared.rows)
        write_csv(compared.folder / "table.csv", compared.table)
        write_csv(compared.folder / "curves.csv", compared.curves)
    write_json(compared.folder / "summary.json", _plain(summary(comparison, compared)), "summary")


def _marks(comparison: ComparisonSpec, tuned: Tuned, name: str, runs: Mapping[int, EndedCell]) -> dict[str, Any]:
    """An algorithm's step size and how it came by it."""
    trials = len(tuned.grid) * len(comparison.tuning.seeds) if name in tuned.chosen else 0
    step_size = next(iter(runs.values())).facts["config"]["step_size"]
    return {"step_size": step_size, "edge": tuned.edge.get(name, ""), "trials": trials}


def _run_rows(comparison: ComparisonSpec, runs: Runs, marks: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for name, mine in runs.items():
        for seed, run in mine.items():
            row: dict[str, Any] = {"algorithm": name, "seed": seed, **marks[name], "cell": run.cell.hash}
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
        f"{name}: its best step size {tuned.chosen[name]:g} is still the {side} edge of the grid; "
        "a better one may lie beyond"
        for name, side in tuned.edge.items()
        if name in tuned.chosen
    ]
    notes += [f"{name} is left out: {why}" for name, why in tuned.left_out.items()]
    if comparison.baseline in tuned.left_out:
        notes.append(f"{comparison.baseline} is the baseline: there are no differences")
    for name, mine in runs.items():
        gone = sum(run.diverged for run in mine.values())
        if gone:
            notes.append(f"{name} diverged in {gone} of {len(mine)} runs: it has no mean")
        if len(mine) < len(comparison.seeds):
            notes.append(f"{name} has {len(mine)} of {len(comparison.seeds)} runs so far")
    if len({row["dataset_hash"] for row in tuned.trials} - {""}) > 1:
        notes.append("the trials do not all have the same data: it was changed on the way; remove the old cells")
    if len(comparison.seeds) == 1:
        notes.append("one seed: there are no intervals")
    if (
        not comparison.tuning.step_sizes
        and "step_size" not in comparison.run
        and any(one.tuned for one in comparison.algorithms)
    ):
        notes.append("the step sizes were not tuned")
    return notes + unused(runs) + unpaired(runs) + mixed(runs)


def summary(comparison: ComparisonSpec, compared: Compared) -> dict[str, Any]:
    """The comparison and what came of it, as plain values."""
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
    """With null where there is no number, which JSON has no word for."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def unpaired(runs: Runs) -> list[str]:
    """What algorithms of one seed do not have in common, as sentences; none where all are pairs.

    Service times and batches follow from the seed, the client and the number of the task, and are the same wherever
    these are.
    """
    notes = []
    for seed in sorted({seed for mine in runs.values() for seed in mine}):
        mine = {name: every[seed] for name, every in runs.items() if seed in every}
        for key, word in SAME.items():
            if len({run.facts[key] for run in mine.values()}) > 1:
                notes.append(f"seed {seed}: the algorithms do not have the same {word}; these runs are no pairs")
        firsts = [run.rows[0]["test_loss"] for run in mine.values()]
        if max(firsts) - min(firsts) > 1e-6 * max(1.0, abs(max(firsts))):  # devices round differently
            notes.append(f"seed {seed}: the algorithms do not begin with the same model; these runs are no pairs")
    for key in ("dataset_hash", "parameters"):  # no matter of the seed
        if len({run.facts[key] for every in runs.values() for run in every.values()}) > 1:
            notes.append(
                f"the runs do not all have the same {SAME[key]}: it was changed on the way; remove the old cells"
            )
    return notes


def unused(runs: Runs) -> list[str]:
    """Settings that an algorithm does not look at, as sentences."""
    notes = []
    for name, mine in runs.items():
        keys = sorted({str(key) for run in mine.values() for key in run.facts.get("unused", [])})
        notes += [f"{key} has no effect on {name}" for key in keys]
    return notes


def mixed(runs: Runs) -> list[str]:
    """Devices and versions that the runs do not share, as sentences."""
    every = [run.identity() for mine in runs.values() for run in mine.values()]
    notes = []
    for key in ALIKE:
        values = sorted({str(one[key]) for one in every})
        if len(values) > 1:
            notes.append(f"the runs come from more than one {key}: {', '.join(values)}; runs.csv tells which")
    return notes
