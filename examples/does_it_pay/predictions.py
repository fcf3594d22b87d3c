"""Predictions for every policy in every cell before it is trained: by the bound, by throughput, and by the twin.

The predictors are told whether data depends on speed, as a planner would know it. Predictions are in predictions-*.csv.
Those of held-out cells are written once and never changed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from policies import ROBUST, policies
from trials import updates_in
from world import Cell

from sojourn.constants import WORKED_EXAMPLE
from sojourn.csv_file import read_csv, write_csv
from sojourn.files import read_json, write_json
from sojourn.landscape import Landscape
from sojourn.planning.bound.theorem import best_step, bound, largest_step, sums
from sojourn.planning.policy import Policy
from sojourn.scenario import Dispatcher, Scenario
from sojourn.timing.expected import expected

Row = dict[str, object]
COLUMNS = ("cell", "policy", "updates", "bound", "generic", "generic_step", "calibrated", "calibrated_step")
MEASURED: dict[str, Any] = {"gradients": 400, "points": 3}


def predicted(results: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Return the predictions by cell and policy; missing numbers are left out."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for path in sorted(results.glob("predictions-*.csv")):
        for row in read_csv(path, "predictions", COLUMNS):
            facts = {key: float(row[key]) for key in COLUMNS[2:] if row[key]}
            found.setdefault(row["cell"], {})[row["policy"]] = facts
    return found


def predict_all(cells: Sequence[Cell], results: Path, count: bool) -> None:
    """Write the predictions for these cells, one file per problem and part."""
    results.mkdir(parents=True, exist_ok=True)
    known = predicted(results)
    wanted = [cell for cell in cells if not (cell.held_out and cell.name in known)]
    if count:
        print(f"{sum(len(policies(cell)) for cell in wanted)} policies in {len(wanted)} cells to predict")
        return
    for path, mine in _files(wanted, results).items():
        rows: dict[tuple[object, object], Row] = {
            (row["cell"], row["policy"]): dict(row)
            for row in (read_csv(path, "predictions", COLUMNS) if path.exists() else ())
        }
        for cell in mine:
            rows = {key: row for key, row in rows.items() if key[0] != cell.name}
            rows |= {(cell.name, row["policy"]): row for row in said_of(cell, results)}
            write_csv(path, list(rows.values()), read_back=True)
        print(f"{path.name}: {len(mine)} cells", flush=True)


def _files(cells: Sequence[Cell], results: Path) -> dict[Path, list[Cell]]:
    found: dict[Path, list[Cell]] = {}
    for cell in cells:
        part = "held-out" if cell.held_out else "development"
        found.setdefault(results / f"predictions-{cell.work.name}-{part}.csv", []).append(cell)
    return found


def said_of(cell: Cell, results: Path) -> list[Row]:
    """Return one row per policy."""
    from sojourn.planning.twin import predict

    made = policies(cell)
    models = {"generic": Landscape.generic()}
    path = calibration_of(cell, results)
    if path.exists():
        models["calibrated"] = replace(Landscape(**read_json(path, "landscape")), between=0.0)
    if cell.skewed:
        models = {key: landscape.skewed() for key, landscape in models.items()}
    said: dict[str, Row] = {name: {**dict.fromkeys(COLUMNS, ""), "cell": cell.name, "policy": name} for name in made}
    for name, policy in made.items():
        said[name]["updates"] = f"{updates_in(cell, policy):.6g}"
        said[name]["bound"] = f"{bound_of(cell, policy):.6g}"
    for key, landscape in models.items():
        for one in predict(cell.fleet, [_linear(policy) for policy in made.values()], cell.time, landscape):
            said[one.policy.name][key] = f"{one.loss:.6g}"
            said[one.policy.name][f"{key}_step"] = f"{one.step_size:.6g}"
    return list(said.values())


def _linear(policy: Policy) -> Policy:
    """Return the policy under the name that the twin has for its rule."""
    return replace(policy, algorithm=policy.algorithm.replace("ca2fl:CA2FL", "ca2fl"))


def bound_of(cell: Cell, policy: Policy) -> float:
    """Return Theorem 1's bound in the time at its best step size, with shares for p, as if updates were weighted by
    1/(n s).
    """
    found = expected(cell.fleet, policy.plan, Scenario(Dispatcher(policy.dispatcher)))
    share, fleet = found.share, cell.fleet
    weights = np.full(fleet.groups, 1 / fleet.clients)
    S1, S2 = sums(share, found.staleness() * share, weights, fleet.count)
    steps, tasks = found.throughput * cell.time, policy.plan.concurrency
    eta = min(best_step(steps, tasks, S1, S2, WORKED_EXAMPLE), largest_step(tasks, S1, S2, WORKED_EXAMPLE))
    value = bound(eta, steps, tasks, S1, S2, WORKED_EXAMPLE)
    return value if math.isfinite(value) else math.inf


def calibration_of(cell: Cell, results: Path) -> Path:
    """Return the file of a problem's constants; they are measured once, on the first of its cells."""
    return results / "landscapes" / f"{cell.work.name}.json"


def calibrate_all(cells: Sequence[Cell], results: Path, count: bool) -> None:
    """Measure the constants that are missing, from a few hundred gradients along a short training."""
    from sojourn import calibrate

    wanted: dict[Path, Cell] = {}
    for cell in cells:
        if not calibration_of(cell, results).exists():
            wanted.setdefault(calibration_of(cell, results), cell)
    print(f"{len(wanted)} calibrations of about {MEASURED['gradients']} gradients at {MEASURED['points']} models each")
    for path, cell in {} if count else wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        run: dict[str, Any] = {
            "partition": cell.dealt(),
            "time": cell.time,
            "step_size": cell.work.start / 2,
            **cell.work.keys(),
        }
        found = calibrate(cell.fleet, policies(cell)[ROBUST].plan, **MEASURED, **run).landscape(cell.fleet)
        write_json(path, {item.name: _short(getattr(found, item.name)) for item in fields(found)}, "landscape")
        print(path.name, flush=True)


def _short(value: Any) -> Any:
    """Round numbers to six digits."""
    if isinstance(value, Mapping):
        return {key: _short(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return [_short(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
