"""What a plan promises, whether the promises are kept, and whether the plan relies on parking.

Parking: if all probabilities are free, a bound that counts server steps is lowest when one slow client is sampled so
often that it holds nearly all tasks. Then most updates come from the other clients and are fresh, but the server hardly
moves.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sojourn.plan import Plan
from sojourn.planning.bound.objective import Objective, Prediction
from sojourn.timing.exact.analysis import Analysis
from sojourn.timing.simulate.summary import Summary

HELD = 0.5  # part of all tasks at one client that counts as parking
KEPT = 4.0  # a promise counts as kept within this many standard errors
PLAIN = ("bound", "steps", "time", "energy", "largest_step_size", "free_step_size")
SLOWED = 0.5  # part of uniform sampling's throughput that counts as collapsed


def promises(prediction: Prediction) -> dict[str, object]:
    """Return what a plan promises, for its file."""
    scored, analysis = prediction.scored, prediction.analysis
    plain = {
        "value": scored.value,
        "bound": scored.bound,
        "steps": scored.steps,
        "time": scored.time,
        "energy": scored.energy,
        "free_step_size": scored.free_step_size,
        "largest_step_size": scored.largest_step_size,
        "throughput": analysis.throughput,
        "server_rate": analysis.server_rate,
    }
    numbers = {key: None if value is None or not np.isfinite(value) else float(value) for key, value in plain.items()}
    return {**numbers, "staleness": analysis.staleness().tolist(), "queue": analysis.queue.tolist()}


def parking(objective: Objective, prediction: Prediction) -> str | None:
    """Return a warning if one client holds most tasks while throughput collapses; None otherwise."""
    analysis = prediction.analysis
    fleet, plan = analysis.fleet, analysis.plan
    worst = int(np.argmax(analysis.queue))
    held = float(analysis.queue[worst]) / plan.concurrency
    if held < HELD or fleet.clients < 3:
        return None
    uniform = objective.predict(fleet, Plan.uniform(fleet, plan.concurrency)).analysis.throughput
    if analysis.throughput > SLOWED * uniform:
        return None
    return (
        f"parking: one client of '{fleet.name[worst]}' is sampled with probability {plan.sampling[worst]:.3g} and "
        f"holds {100 * held:.0f}% of the tasks, so the others have little staleness; throughput falls to "
        f"{analysis.throughput:.4g} from {uniform:.4g} with uniform sampling. A bound that counts steps rewards this; "
        "plan for time, or give equal clients equal probabilities, or set a floor"
    )


def server_rate(plan: Plan, given: float | None) -> float | None:
    """Return the server rate that is given, or the one for which the plan was made."""
    promised = plan.promises.get("server_rate")
    return given if given is not None or promised is None else float(promised)


def promised(plan: Plan) -> list[str]:
    """Return what the plan promises as sentences; an empty list if it was written by hand."""
    if not plan.promises:
        return []
    facts = {key: plan.promises.get(key) for key in PLAIN}
    listed = ", ".join(f"{key.replace('_', ' ')} {value:.6g}" for key, value in facts.items() if value is not None)
    step = "" if plan.step_size is None else f"step size {plan.step_size:.6g}, "
    return [f"the plan minimised {plan.objective}: {step}{listed}"]


def against_theory(plan: Plan, analysis: Analysis) -> list[str]:
    """Return sentences on whether throughput and staleness are still as promised."""
    if plan.promises.get("throughput") is None:
        return []
    pairs = [(float(plan.promises["throughput"]), analysis.throughput)]
    stale = plan.promises.get("staleness", [])
    pairs += list(zip(stale, analysis.staleness().tolist(), strict=False))
    off = max(abs(now - then) / max(abs(then), 1e-12) for then, now in pairs)
    if off < 1e-6:
        return ["throughput and staleness are as the plan promises"]
    return [
        f"throughput or staleness differs by up to {100 * off:.3g}% from what the plan promises; was it made for other "
        "links, another server or another concurrency?"
    ]


def against_simulation(plan: Plan, summary: Summary) -> list[dict[str, Any]]:
    """Return promised and simulated throughput and staleness, with their difference in standard errors."""
    if plan.promises.get("throughput") is None:
        return []
    flow, stale = summary.throughput, summary.staleness
    rows = [("throughput", float(plan.promises["throughput"]), float(flow.value), float(flow.error))]
    for g, value in enumerate(plan.promises.get("staleness", [])[: summary.fleet.groups]):
        name = f"staleness of {summary.fleet.name[g]}"
        rows.append((name, float(value), float(stale.value[g]), float(stale.error[g])))
    return [
        {"promise": name, "promised": then, "simulated": now, "standard_error": error, "z": _z(then, now, error)}
        for name, then, now, error in rows
    ]


def _z(then: float, now: float, error: float) -> float:
    """Return a difference in standard errors; NaN if the error is not known."""
    if error == 0:
        return 0.0 if now == then else math.copysign(math.inf, now - then)
    return (now - then) / error


def verdicts(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return sentences on which promises were not kept and which cannot be judged, from rows of
    `against_simulation`.
    """
    broken = [row["promise"] for row in rows if abs(row["z"]) > KEPT]
    unknown = [row["promise"] for row in rows if math.isnan(row["z"])]
    said = [f"not kept within {KEPT:g} standard errors: {_some(broken)}"] if broken else []
    if unknown:
        said.append(f"too few updates to tell: {_some(unknown)}")
    return said or [f"every promise is kept within {KEPT:g} standard errors"]


def _some(names: list[str]) -> str:
    return ", ".join(names[:6]) + (" ..." if len(names) > 6 else "")
