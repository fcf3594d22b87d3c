"""Turn runs into cells.csv, which is committed: one row per cell, policy and kind, with the numbers of all seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from policies import UNIFORM, policies
from store import Store
from world import Cell

from sojourn.csv_file import read_csv, write_csv

COLUMNS = ("cell", "policy", "kind", "step", "updates", "loss", "accuracy", "worst", "to_target", "curve")


@dataclass(frozen=True)
class Outcome:
    """A policy in a cell at a step size, over the seeds."""

    cell: str
    policy: str
    kind: str
    """`final`: at the tuned step size; `guess`: at one that was not tuned."""
    step: float
    updates: float
    losses: tuple[float, ...]
    """Final loss on the test set; inf = diverged."""
    accuracies: tuple[float, ...]
    worsts: tuple[float, ...]
    """Accuracy of the worst client."""
    times: tuple[float, ...]
    """Share of the budget until AsyncSGD's final accuracy is reached; inf = not within the budget."""
    curve: tuple[float, ...]
    """Mean accuracy at even shares of the budget."""

    @property
    def loss(self) -> float:
        """Mean over the seeds."""
        return fmean(self.losses)

    @property
    def accuracy(self) -> float:
        """Mean over the seeds."""
        return fmean(self.accuracies)

    @property
    def worst(self) -> float:
        """Mean over the seeds."""
        return fmean(self.worsts)


Outcomes = dict[str, dict[str, Outcome]]
"""By cell and policy."""


def collect_all(store: Store, cells: Sequence[Cell], results: Path) -> None:
    """Write the runs of these cells, if all seeds have ended, into cells.csv; rows of other cells stay."""
    path = results / "cells.csv"
    kept = list(read_csv(path, "results", COLUMNS)) if path.exists() else []
    fresh = [row for cell in cells for row in _rows(store, cell)]
    have = {(row["cell"], row["policy"], row["kind"]) for row in fresh}
    rows = [row for row in kept if (row["cell"], row["policy"], row["kind"]) not in have] + fresh
    results.mkdir(parents=True, exist_ok=True)
    write_csv(path, sorted(rows, key=lambda row: (row["cell"], row["kind"])), read_back=True)
    print(f"{len(fresh)} rows of {len({row['cell'] for row in fresh})} cells, {path.stat().st_size // 1024} KB")


def _rows(store: Store, cell: Cell) -> list[dict[str, str]]:
    known, seeds = store.of(cell), cell.work.seeds
    found: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for (policy, kind, step, seed), row in known.items():
        if kind != "trial" and seed in seeds:
            found.setdefault((policy, kind, step), []).append(row)
    whole = {
        key: sorted(rows, key=lambda row: int(row["seed"])) for key, rows in found.items() if len(rows) == len(seeds)
    }
    target = _target(whole)
    made = []
    for name in policies(cell):
        for (policy, kind, step), rows in whole.items():
            if policy != name:
                continue
            curves = [[float(value) for value in row["curve"].split()] for row in rows]
            times = [reached(curve, target) for curve in curves]
            made.append(
                {
                    "cell": cell.name,
                    "policy": policy,
                    "kind": kind,
                    "step": step,
                    "updates": f"{fmean(int(row['updates']) for row in rows):.0f}",
                    **{key: _numbers([float(row[key]) for row in rows]) for key in ("loss", "accuracy", "worst")},
                    "to_target": " ".join("" if math.isinf(one) else f"{one:.3f}" for one in times)
                    if not math.isnan(target)
                    else "",
                    "curve": " ".join(f"{value:.3f}" for value in _mean(curves)),
                }
            )
    return made


def _target(whole: dict[tuple[str, str, str], list[dict[str, str]]]) -> float:
    """Return AsyncSGD's final accuracy, over its seeds."""
    for (policy, kind, _), rows in whole.items():
        if (policy, kind) == (UNIFORM, "final"):
            return fmean(float(row["accuracy"]) for row in rows)
    return math.nan


def reached(curve: Sequence[float], target: float) -> float:
    """Return the share of the budget at which a curve first reaches an accuracy, by linear interpolation; inf = never.

    >>> reached([0.2, 0.6, 0.8, 0.9], 0.7)
    0.625
    """
    before = 0.0
    for place, value in enumerate(curve):
        if value >= target:
            part = 1.0 if place == 0 or value == before else (target - before) / (value - before)
            return (place + part) / len(curve)
        before = value
    return math.inf


def _mean(curves: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean of the complete curves."""
    longest = max(len(curve) for curve in curves)
    whole = [curve for curve in curves if len(curve) == longest]
    return [fmean(values) for values in zip(*whole, strict=True)]


def _numbers(values: Sequence[float]) -> str:
    return " ".join(f"{value:.4g}" for value in values)


def load(results: Path, kind: str = "final") -> Outcomes:
    """Read the committed file."""
    found: Outcomes = {}
    for row in read_csv(results / "cells.csv", "results", COLUMNS):
        if row["kind"] != kind:
            continue
        numbers = {key: tuple(float(one) for one in row[key].split()) for key in ("loss", "accuracy", "worst", "curve")}
        times = (
            tuple(float(one) if one else math.inf for one in row["to_target"].split(" ")) if row["to_target"] else ()
        )
        one = Outcome(
            *(row["cell"], row["policy"], kind, float(row["step"]), float(row["updates"])),
            *(numbers["loss"], numbers["accuracy"], numbers["worst"], times, numbers["curve"]),
        )
        found.setdefault(one.cell, {})[one.policy] = one
    return found
