"""How the algorithms stand: means and paired differences with intervals, on every axis, and what a target costs."""

from collections.abc import Iterator, Mapping
from math import inf, nan
from statistics import median
from typing import Any

import numpy as np

from sojourn.experiments.axes import AXES, COLUMNS, at_points, common_end
from sojourn.experiments.found import Found
from sojourn.experiments.interval import interval
from sojourn.experiments.target import Target

POINTS = 101  # of a curve

Runs = Mapping[str, Mapping[int, Found]]
"""By algorithm, then by seed."""


def judged_by(runs: Runs) -> str:
    """The column that matters: accuracy, or the loss where there are no classes."""
    firsts = [run.rows[0]["accuracy"] for mine in runs.values() for run in mine.values()]
    return "accuracy" if all(value == value for value in firsts) else "test_loss"


def standing(runs: Runs, baseline: str | None, target: Target | None = None) -> list[dict[str, Any]]:
    """A row for every algorithm on every axis, each at the largest value that all runs reach."""
    key, every = judged_by(runs), [run for mine in runs.values() for run in mine.values()]
    base = runs.get(str(baseline), {})
    rows = []
    for name, mine in runs.items():
        for axis in AXES:
            at = common_end(every, axis)
            row = {"algorithm": name, "runs": len(mine), "diverged": sum(run.diverged for run in mine.values())}
            row |= {"axis": axis, "at": at, "judged_by": key}
            row |= _values(mine, axis, at, key)
            row |= _difference(mine, base, axis, at, key) if name != baseline else {}
            if target is not None:
                row |= cost_of(mine, base if name != baseline else {}, axis, target)
            rows.append(row)
    return rows


def _at(runs: Mapping[int, Found], axis: str, at: float, key: str) -> dict[int, float]:
    """Of each run; NaN where it diverged, wherever that was."""
    return {
        seed: nan if run.diverged else float(at_points(run, axis, key, np.array([at]))[0]) for seed, run in runs.items()
    }


def _values(runs: Mapping[int, Found], axis: str, at: float, key: str) -> dict[str, float]:
    values: dict[str, float] = interval(_at(runs, axis, at, key).values()).named("mean")
    for column in COLUMNS:
        values |= interval(_at(runs, axis, at, column).values()).named(column)
    return values


def _difference(
    runs: Mapping[int, Found], base: Mapping[int, Found], axis: str, at: float, key: str
) -> dict[str, float]:
    mine, theirs = _at(runs, axis, at, key), _at(base, axis, at, key)
    return interval(mine[seed] - theirs[seed] for seed in mine if seed in theirs).named("difference")


def to_target(run: Found, axis: str, target: Target) -> float:
    """What the target cost a run; inf = it was not reached, or the run diverged."""
    if run.diverged:
        return inf
    first = target.first(run.column(target.key))
    return inf if first is None else float(run.rows[first][axis])


def cost_of(runs: Mapping[int, Found], base: Mapping[int, Found], axis: str, target: Target) -> dict[str, Any]:
    """What the target cost: a mean only where every run reached it, a median where most did."""
    mine = {seed: to_target(run, axis, target) for seed, run in runs.items()}
    theirs = {seed: to_target(run, axis, target) for seed, run in base.items()}
    reached = sum(cost < inf for cost in mine.values())
    middle = median(mine.values()) if mine else inf
    both = [(mine[seed], theirs[seed]) for seed in mine if seed in theirs]
    return {
        "target": str(target),
        "reached": reached,
        "not_reached": len(mine) - reached,
        **interval(cost if cost < inf else nan for cost in mine.values()).named("to_target"),
        "to_target_median": middle if middle < inf else nan,
        **interval(one - two if max(one, two) < inf else nan for one, two in both).named("to_target_difference"),
    }


def curves(runs: Runs) -> Iterator[dict[str, Any]]:
    """Mean curves of every algorithm on every axis, as far as all its runs go."""
    for name, mine in runs.items():
        for axis in AXES:
            end = common_end(mine.values(), axis)
            if np.isnan(end):
                continue
            at = np.linspace(0.0, end, POINTS)
            found = {key: np.array([at_points(run, axis, key, at) for run in mine.values()]) for key in COLUMNS}
            for index, point in enumerate(at):
                row: dict[str, Any] = {"algorithm": name, "axis": axis, "at": float(point), "runs": len(mine)}
                for key, values in found.items():
                    row |= interval(values[:, index]).named(key)
                yield row
