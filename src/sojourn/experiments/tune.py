"""Choose step sizes: try each algorithm at every value of a grid, which grows for all when a best lies at its edge."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from pathlib import Path
from statistics import fmean
from typing import Any

from sojourn.experiments.cells import Cell, EndedCell, find
from sojourn.experiments.comparison import ComparisonSpec, Entry
from sojourn.experiments.grid_search import Grids, Scores, search
from sojourn.experiments.run_cells import Swept

Train = Callable[[Sequence[Cell]], Swept]


@dataclass
class Tuned:
    """The result of tuning."""

    grid: tuple[float, ...]
    """The final grid: the step sizes that every algorithm was tried at."""
    chosen: dict[str, float] = field(default_factory=dict)
    """Best step size of each algorithm."""
    edge: dict[str, str] = field(default_factory=dict)
    """`lower` or `upper`, for algorithms whose best step size is still the smallest or the largest of the grid."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Algorithms that cannot be compared, and why."""
    trials: list[dict[str, Any]] = field(default_factory=list)
    """Every trial."""
    open: int = 0
    """Trials that have not ended."""
    interrupted: bool = False
    """Whether Ctrl-C ended it early."""
    failures: dict[str, str] = field(default_factory=dict)
    """The error of each trial that failed, by the trial's name."""


def tune(comparison: ComparisonSpec, folder: str | Path, train: Train) -> Tuned:
    """Choose a step size for every algorithm that has none; `train` is the function that trains cells."""
    algorithms = [algorithm for algorithm in comparison.algorithms if algorithm.tuned]
    began = comparison.tuning.step_sizes
    tuned, scores = Tuned(began), dict[str, dict[float, float]]()
    if not began or not algorithms:
        return tuned

    def look(grids: Grids) -> Scores | None:
        nonlocal scores
        tuned.grid = grids[algorithms[0].name]
        cells = trials(comparison, [one for one in algorithms if one.name not in tuned.left_out], tuned.grid)
        swept = train([cell for _, _, _, cell in cells])
        tuned.failures |= swept.failures
        tuned.interrupted = swept.interrupted
        found = find([cell for _, _, _, cell in cells], folder)
        _leave_out(tuned, cells, found)
        going = [one for one in cells if one[0] not in tuned.left_out]
        tuned.open = sum(cell.hash not in found for _, _, _, cell in going)
        if tuned.open or tuned.interrupted:
            return None
        scores = _scores(comparison, going, found)
        return scores

    searched = search(dict.fromkeys((one.name for one in algorithms), began), comparison.tuning.extensions, look)
    tuned.chosen, tuned.edge = searched.chosen, searched.edge
    tuned.trials = _rows(tuned, trials(comparison, algorithms, tuned.grid), folder, began)
    if tuned.chosen and not tuned.open:
        _drop_hopeless(tuned, scores)
    return tuned


def trials(
    comparison: ComparisonSpec, algorithms: Sequence[Entry], grid: Sequence[float]
) -> list[tuple[str, float, int, Cell]]:
    """Every algorithm at every step size with every tuning seed: name, step size, seed, cell."""
    return [
        (algorithm.name, step_size, seed, comparison.trial(algorithm, step_size, seed))
        for algorithm in algorithms
        for step_size in grid
        for seed in comparison.tuning.seeds
    ]


def _scores(
    comparison: ComparisonSpec, cells: list[tuple[str, float, int, Cell]], found: dict[str, EndedCell]
) -> dict[str, dict[float, float]]:
    """Mean scores over the tuning seeds; inf if one of the runs diverged."""
    key, sign = ("test_loss", 1.0) if comparison.tuning.by == "loss" else ("accuracy", -1.0)
    ends: dict[str, dict[float, list[float]]] = {}
    for name, step_size, _, cell in cells:
        one = found[cell.hash]
        value = inf if one.diverged else sign * one.last[key]
        ends.setdefault(name, {}).setdefault(step_size, []).append(value if isfinite(value) else inf)
    return {name: {size: fmean(values) for size, values in tried.items()} for name, tried in ends.items()}


def _leave_out(tuned: Tuned, cells: list[tuple[str, float, int, Cell]], found: dict[str, EndedCell]) -> None:
    """Leave out algorithms with a failed trial: they did not have as many trials as the others."""
    for name, step_size, _, cell in cells:
        if cell.hash not in found and cell.name in tuned.failures:
            tuned.left_out.setdefault(name, f"its trial at step size {step_size:g} failed: {tuned.failures[cell.name]}")


def _drop_hopeless(tuned: Tuned, scores: Scores) -> None:
    """Leave out algorithms that diverged at every step size: they have none to be trained with."""
    for name, step_size in list(tuned.chosen.items()):
        if not isfinite(scores[name][step_size]):
            tuned.left_out[name] = f"it diverged at every step size from {tuned.grid[0]:g} to {tuned.grid[-1]:g}"
            del tuned.chosen[name]


def _rows(
    tuned: Tuned, cells: list[tuple[str, float, int, Cell]], folder: str | Path, began: tuple[float, ...]
) -> list[dict[str, Any]]:
    found = find([cell for _, _, _, cell in cells], folder)
    rows = []
    for name, step_size, seed, cell in cells:
        one = found.get(cell.hash)
        missing = "failed" if cell.name in tuned.failures else "open"
        state = missing if one is None else "diverged" if one.diverged else "complete"
        ends = {} if one is None else {"loss": one.last["test_loss"], "accuracy": one.last["accuracy"]}
        data = "" if one is None else one.facts["dataset_hash"]
        marks = {
            "chosen": tuned.chosen.get(name) == step_size,
            "edge": tuned.edge.get(name, ""),
            "added": step_size not in began,
        }
        row = {"algorithm": name, "step_size": step_size, "seed": seed, "state": state, **ends, **marks}
        rows.append({**row, "cell": cell.hash, "dataset_hash": data})
    return rows
