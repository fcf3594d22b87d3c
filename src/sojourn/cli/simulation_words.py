"""Compare theory with simulation in words: which is larger, by how much, and why."""

import math
from typing import TYPE_CHECKING

from sojourn.cli.cells import Cell, number

if TYPE_CHECKING:
    from sojourn.timing.exact.analysis import Analysis
    from sojourn.timing.simulate.summary import Summary

CHANCE = 3.0  # up to this many standard errors chance explains a difference
CORRELATED = 0.3  # correlation of neighbouring batches above which their errors are too small


def theory_is(theory: float, simulated: float) -> Cell:
    """Return by how much the theory is higher or lower than the simulation; `-` if nothing was simulated.

    >>> theory_is(89, 100), theory_is(100.5, 100), theory_is(1, 1), theory_is(1, 0)
    ('11% lower', '0.50% higher', 'the same', '-')
    """
    if not simulated or not math.isfinite(simulated):
        return Cell("-", {"relative": math.nan})
    off = float(theory / simulated - 1)
    size = f"{100 * abs(off):.{0 if abs(off) >= 0.1 else 2}f}%"
    words = "the same" if size == "0.00%" else f"{size} {_side(off)}"
    return Cell(words, {"relative": off})


def errors_apart(z: float) -> Cell:
    """Return how many standard errors a simulated value lies from the predicted one.

    >>> errors_apart(-2.5), errors_apart(0.0)
    ('2.5 standard errors lower', 'the same')
    """
    if math.isnan(z):
        return Cell("-", {"standard errors": z})
    return Cell(f"{number(abs(z), 3)} standard errors {_side(z)}" if z else "the same", {"standard errors": z})


def why(summary: "Summary", exact: "Analysis", told: list[str], short: bool) -> str:
    """Return a sentence that says whether chance explains the differences, and if not, what does."""
    apart = _apart(summary, exact)
    if not apart:
        return (
            "it is not known whether chance explains the differences, as there are no standard errors; use more --steps"
        )
    name, most = max(apart.items(), key=lambda one: one[1])
    if most <= CHANCE:
        return f"chance can explain the differences: none is larger than {CHANCE:g} standard errors"
    reasons = {
        "the theory describes another system, see below": any(one.startswith("the theory") for one in told),
        "tasks were lost, which the theory does not model": bool(summary.lost.any()),
        "the run is too short, see below": short,
        "the standard errors are too small, see below": summary.batch_correlation > CORRELATED,
    }
    known = [reason for reason, holds in reasons.items() if holds]
    because = "; ".join(known) or "no reason is known; try another --seed and more --steps"
    return f"chance does not explain the differences, up to {most:.3g} standard errors ({name}): {because}"


def _apart(summary: "Summary", exact: "Analysis") -> dict[str, float]:
    """Return the standard errors between theory and simulation, for each quantity compared."""
    flow, stale, theory = summary.throughput, summary.staleness, exact.staleness()
    pairs = {"throughput": (exact.throughput, float(flow.value), float(flow.error))}
    for g, name in enumerate(summary.fleet.name):
        pairs[f"staleness of '{name}'"] = (float(theory[g]), float(stale.value[g]), float(stale.error[g]))
    found = {name: abs(one - other) / error for name, (one, other, error) in pairs.items() if error > 0}
    return {name: z for name, z in found.items() if math.isfinite(z)}


def _side(value: float) -> str:
    return "higher" if value > 0 else "lower"
