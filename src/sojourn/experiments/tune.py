"""Choosing step sizes: every algorithm at every one of a grid, which grows for all where a best lies at its edge."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from pathlib import Path
from statistics import fmean
from typing import Any

from sojourn.experiments.cells import Cell, Found, find
from sojourn.experiments.comparison import Comparison, Entry
from sojourn.experiments.run_cells import Swept
from sojourn.learning.run.config import LARGEST_STEP_SIZE

WIDTH = 10**0.5  # ratio of neighbouring step sizes, where a grid of one has none of its own
Train = Callable[[Sequence[Cell]], Swept]
Score = Callable[[str, float], float]
"""Of an algorithm at a step size; less is better, inf = it diverged."""


@dataclass
class Tuned:
    """What tuning found."""

    grid: tuple[float, ...]
    """Step sizes that every algorithm was tried at in the end."""
    chosen: dict[str, float] = field(default_factory=dict)
    """Best step size of each algorithm."""
    edge: dict[str, str] = field(default_factory=dict)
    """`lower` or `upper`, for algorithms whose best step size is the grid's least or largest all the same."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Algorithms that cannot be compared, and why."""
    trials: list[dict[str, Any]] = field(default_factory=list)
    """Every trial."""
    open: int = 0
    """Trials that have not ended."""
    interrupted: bool = False
    """Whether Ctrl-C ended it early."""
    failures: dict[str, str] = field(default_factory=dict)
    """Errors of trials, by their names."""


def tune(comparison: Comparison, folder: str | Path, train: Train) -> Tuned:
    """Choose a step size for every algorithm that has none; `train` sees to it that cells end."""
    algorithms = [algorithm for algorithm in comparison.algorithms if algorithm.tuned]
    grid, began = comparison.tuning.step_sizes, comparison.tuning.step_sizes
    tuned = Tuned(grid)
    if not grid or not algorithms:
        return tuned
    for extension in range(comparison.tuning.extensions + 1):
        cells = trials(comparison, [one for one in algorithms if one.name not in tuned.left_out], grid)
        swept = train([cell for _, _, _, cell in cells])
        tuned.failures |= swept.failures
        found = find([cell for _, _, _, cell in cells], folder)
        tuned.grid, tuned.interrupted = grid, swept.interrupted
        _leave_out(tuned, cells, found)
        tuned.open = sum(cell.hash not in found for algorithm, _, _, cell in cells if algorithm not in tuned.left_out)
        if tuned.open or tuned.interrupted:
            break
        going = [algorithm.name for algorithm in algorithms if algorithm.name not in tuned.left_out]
        tuned.chosen, tuned.edge = best_of(going, grid, _score(comparison, cells, found))
        if not tuned.edge or extension == comparison.tuning.extensions:
            break
        grid = extended(grid, set(tuned.edge.values()) if len(grid) > 1 else {"lower", "upper"})
    tuned.trials = _rows(tuned, trials(comparison, algorithms, tuned.grid), folder, began)
    if tuned.chosen and not tuned.open:
        _drop_hopeless(tuned, comparison, cells, found)
    return tuned


def trials(
    comparison: Comparison, algorithms: Sequence[Entry], grid: Sequence[float]
) -> list[tuple[str, float, int, Cell]]:
    """Every algorithm at every step size with every tuning seed: name, step size, seed, cell."""
    return [
        (algorithm.name, step_size, seed, comparison.trial(algorithm, step_size, seed))
        for algorithm in algorithms
        for step_size in grid
        for seed in comparison.tuning.seeds
    ]


def best_of(names: Sequence[str], grid: Sequence[float], score: Score) -> tuple[dict[str, float], dict[str, str]]:
    """The best step size of each algorithm, of equals the least, and the edge at which it lies, if it does.

    >>> best_of(["a", "b"], (0.1, 0.3, 1.0), lambda name, size: -size if name == "a" else abs(size - 0.3))
    ({'a': 1.0, 'b': 0.3}, {'a': 'upper'})
    """
    chosen = {name: min(grid, key=lambda step_size, name=name: score(name, step_size)) for name in names}  # type: ignore[misc]
    edge = {
        name: "lower" if step_size == grid[0] else "upper"
        for name, step_size in chosen.items()
        if step_size in (grid[0], grid[-1])
    }
    return chosen, edge


def extended(grid: tuple[float, ...], edges: set[str]) -> tuple[float, ...]:
    """The grid with one more step size at each of the edges, as far away as its neighbours are from each other.

    >>> extended((0.1, 0.2, 0.8), {"lower", "upper"})
    (0.05, 0.1, 0.2, 0.8, 3.2)
    """
    low = WIDTH if len(grid) == 1 else grid[1] / grid[0]
    high = WIDTH if len(grid) == 1 else grid[-1] / grid[-2]
    below = [_rounded(grid[0] / low)] if "lower" in edges else []
    above = [_rounded(grid[-1] * high)] if "upper" in edges and grid[-1] * high < LARGEST_STEP_SIZE else []
    return (*below, *grid, *above)


def _rounded(step_size: float) -> float:
    """Six digits: what a person reads is what was used."""
    return float(f"{step_size:.6g}")


def _score(comparison: Comparison, cells: list[tuple[str, float, int, Cell]], found: dict[str, Found]) -> Score:
    """Mean over the tuning seeds of what is judged; one run that diverged is enough for the worst."""
    key, sign = ("test_loss", 1.0) if comparison.tuning.by == "loss" else ("accuracy", -1.0)
    ends: dict[tuple[str, float], list[float]] = {}
    for name, step_size, _, cell in cells:
        one = found.get(cell.hash)
        value = inf if one is None or one.diverged else sign * one.last[key]
        ends.setdefault((name, step_size), []).append(value if isfinite(value) else inf)
    means = {pair: fmean(values) for pair, values in ends.items()}
    return lambda name, step_size: means[name, step_size]


def _leave_out(tuned: Tuned, cells: list[tuple[str, float, int, Cell]], found: dict[str, Found]) -> None:
    """An algorithm with a trial that failed has not had as many as the others."""
    for name, step_size, _, cell in cells:
        if cell.hash not in found and cell.name in tuned.failures:
            tuned.left_out.setdefault(name, f"its trial at step size {step_size:g} failed: {tuned.failures[cell.name]}")


def _drop_hopeless(
    tuned: Tuned, comparison: Comparison, cells: list[tuple[str, float, int, Cell]], found: dict[str, Found]
) -> None:
    """An algorithm that diverged at every step size has none."""
    score = _score(comparison, cells, found)
    for name, step_size in list(tuned.chosen.items()):
        if not isfinite(score(name, step_size)):
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
