"""How long a network remembers its start: the mean staleness of the task dispatched at step k.

n = 10 and n = 50 clients, C = n tasks, one at each client; five clients are ten times faster. The paper looks at one
fast client up to T = 500 and sees it stationary when k > 50 and k > 150. Here the curve counts as settled at k when its
mean over twenty steps stays, from there on, within 5% and two standard errors of the exact stationary value. Staleness
is counted up to T, as in the paper, so that the last tasks look fresh. Tasks of one run depend on each other, so
standard errors come from ten independent sets of runs.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sojourn.csv_file import write_csv
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.report.figures import COLOURS, pyplot, save
from sojourn.report.reproduction.claim import Claim, claim, plain
from sojourn.report.reproduction.experiment import Experiment, Watch
from sojourn.timing.exact.analysis import Analysis, analyze
from sojourn.timing.simulate.transient import transient
from sojourn.types import Floats

STEPS = 500
PAPER = {10: 50, 50: 150}
"""Step from which on the paper calls the curve stationary, by number of clients."""
WINDOW, LAST = 20, 400
CLOSE = 0.05
LOTS = 10
RUNS = (2_000, 200)
"""Number of runs in a set, in full and fast."""


class Curves(NamedTuple):
    """Staleness by [set of runs, group, dispatch step - 1]."""

    conditional: Floats
    indicator: Floats
    runs: int


def fleet_of(clients: int) -> Fleet:
    """Return a fleet of five clients at rate 10, and the others at rate 1."""
    return Fleet.of(fast=(5, 10.0), slow=(clients - 5, 1.0))


def mean_of(lots: Floats) -> tuple[Any, Any]:
    """Return the mean over the sets of runs (first axis) and its standard error."""
    return lots.mean(axis=0), lots.std(axis=0, ddof=1) / np.sqrt(lots.shape[0])


def settled(lots: Floats, exact: float) -> int:
    """Return the step from which on the mean over `WINDOW` steps stays close to the exact value (up to step `LAST`)."""
    whole = np.lib.stride_tricks.sliding_window_view(lots, WINDOW, axis=1).mean(axis=2)[:, :LAST]
    mean, error = mean_of(whole)
    off = np.flatnonzero(np.abs(mean - exact) > CLOSE * exact + 2 * error)
    return int(off[-1]) + 1 if off.size else 0


def run(folder: Path, fast: bool, watch: Watch) -> list[Claim]:
    """Simulate both networks, and compare them with the paper."""
    claims, drawn = [], {}
    for clients in PAPER:
        fleet = fleet_of(clients)
        plan = Plan.uniform(fleet, clients)
        curves, exact = _curves(fleet, plan, RUNS[fast], watch), analyze(fleet, plan)
        claims += _claims(clients, curves, exact)
        drawn[clients] = curves, exact
        write_csv(folder / f"staleness-{clients}.csv", _rows(curves))
    _picture(drawn, folder / "stationarity")
    return claims


def _curves(fleet: Fleet, plan: Plan, runs: int, watch: Watch) -> Curves:
    lots = []
    for lot in range(LOTS):
        watch(f"{fleet.clients} clients", lot, LOTS)
        lots.append(transient(fleet, plan, STEPS, replications=runs, seed=lot + 1))
    return Curves(np.array([one.conditional for one in lots]), np.array([one.indicator for one in lots]), runs * LOTS)


def _claims(clients: int, curves: Curves, exact: Analysis) -> list[Claim]:
    limit = PAPER[clients]
    stationary = exact.staleness()
    later, error = mean_of(curves.conditional[:, 0, limit:LAST].mean(axis=1))
    indicator, indicator_error = mean_of(curves.indicator[:, 0, limit:LAST].mean(axis=1))
    begun = settled(curves.conditional[:, 0], float(stationary[0]))
    return [
        claim(
            f"fast client, n = {clients}: stationary when k > {limit}",
            f"k > {limit}",
            f"k > {begun}",
            error="-",
            holds=[begun <= limit],
            rule=f"the mean over {WINDOW} steps stays within 5% and two standard errors of the exact value from there",
            note=f"{curves.runs} runs; at k = 1 it is {plain(float(curves.conditional[:, 0, 0].mean()), 3)}",
            short=f"stationary from where on, n = {clients}",
        ),
        claim(
            f"fast client, n = {clients}: mean staleness for {limit} < k <= {LAST}, conditional",
            "figure only",
            plain(float(later)),
            error=plain(float(error), 2),
            note=f"exact and stationary {stationary[0]:.6f}; indicator {plain(float(indicator))} ± "
            f"{plain(float(indicator_error), 2)}, exact {float(exact.staleness('indicator')[0]):.7f}",
            short=f"mean staleness of a fast client after that, n = {clients}",
        ),
    ]


def _rows(curves: Curves) -> list[dict[str, Any]]:
    (conditional, error), (indicator, indicator_error) = mean_of(curves.conditional), mean_of(curves.indicator)
    return [
        {
            "step": k + 1,
            "client": name,
            "conditional": conditional[group, k],
            "conditional_error": error[group, k],
            "indicator": indicator[group, k],
            "indicator_error": indicator_error[group, k],
        }
        for group, name in enumerate(("fast", "slow"))
        for k in range(STEPS)
    ]


def _picture(drawn: dict[int, tuple[Curves, Analysis]], path: Path) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(9.2, 3.6))
    steps = np.arange(1, STEPS + 1)
    for axis, (clients, (curves, exact)) in zip(axes, drawn.items(), strict=True):
        value, error = mean_of(curves.conditional[:, 0])
        axis.fill_between(steps, value - error, value + error, color=COLOURS[0], alpha=0.25, lw=0)
        axis.plot(steps, value, color=COLOURS[0], lw=0.9, label="simulated, ± one standard error")
        stationary = float(exact.staleness()[0])
        axis.axhline(stationary, color="black", lw=1.0, ls=":", label=f"exact, stationary: {stationary:.4f}")
        axis.axvline(PAPER[clients], color=COLOURS[1], lw=1.0, ls="--", label=f"the paper's k = {PAPER[clients]}")
        axis.set(xlabel="dispatched at server step k", ylim=(0, None), xlim=(0, STEPS))
        axis.set_title(f"one fast client of {clients}, {clients} tasks in flight", fontsize=10)
        axis.legend(frameon=False, fontsize=8)
    axes[0].set_ylabel("mean staleness (server steps)")
    save(figure, path)


EXPERIMENT = Experiment(
    "stationarity", "How long a network remembers its start", "figure of m_{i,k} against k (section 2)", run
)
