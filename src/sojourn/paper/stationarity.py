"""How long a network remembers its start: the mean staleness of the task dispatched at step k.

n = 10 and n = 50 clients, C = n tasks, one at each client; five clients are ten times faster. The paper looks at one
fast client up to T = 500 and sees it stationary when k > 50 and k > 150. Here the curve counts as settled at k when its
mean over twenty steps stays within 5% of the exact stationary value from there on. Staleness is counted up to T, as the
paper does, so that the last tasks look fresh.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.fleet import Fleet
from sojourn.paper.claim import Claim, claim, plain
from sojourn.paper.experiment import Experiment, Watch, telling
from sojourn.paper.written import write_rows
from sojourn.plan import Plan
from sojourn.report.figures import COLOURS, pyplot, save
from sojourn.simulation.transient import Transient, transient
from sojourn.theory.analysis import Analysis, analyze

Floats = NDArray[np.float64]

STEPS = 500
PAPER = {10: 50, 50: 150}
"""Step from which the paper calls the curve stationary, by number of clients."""
WINDOW, LAST = 20, 400
CLOSE = 0.05
REPLICATIONS = (20_000, 2_000)


def fleet_of(clients: int) -> Fleet:
    """Five clients at rate 10, the others at rate 1."""
    return Fleet.of(fast=(5, 10.0), slow=(clients - 5, 1.0))


def settled(curve: Floats, exact: float) -> int:
    """The step from which the mean over `WINDOW` steps stays `CLOSE` to the exact value (up to step `LAST`)."""
    means = np.convolve(curve, np.full(WINDOW, 1 / WINDOW), "valid")[:LAST]
    off = np.flatnonzero(np.abs(means / exact - 1) > CLOSE)
    return int(off[-1]) + 1 if off.size else 0


def run(folder: Path, fast: bool, watch: Watch) -> list[Claim]:
    """Simulate both networks, and compare."""
    claims, drawn = [], {}
    for clients in PAPER:
        fleet = fleet_of(clients)
        plan = Plan.uniform(fleet, clients)
        told = telling(watch, f"{clients} clients")
        curves = transient(fleet, plan, STEPS, replications=REPLICATIONS[fast], seed=1, progress=told)
        exact = analyze(fleet, plan)
        claims += _claims(clients, curves, exact)
        drawn[clients] = curves, exact
        write_rows(folder / f"staleness-{clients}.csv", _rows(curves))
    _picture(drawn, folder / "stationarity")
    return claims


def _claims(clients: int, curves: Transient, exact: Analysis) -> list[Claim]:
    limit = PAPER[clients]
    stationary, curve = float(exact.staleness()[0]), curves.conditional[0]
    later = curve[limit:LAST]
    error = float(np.sqrt((curves.conditional_error[0][limit:LAST] ** 2).sum()) / later.size)
    begun = settled(curve, stationary)
    slow = settled(curves.conditional[1], float(exact.staleness()[1])) if clients == 10 else None
    note = f"{curves.replications} replications; before it the curve is higher: {plain(curve[0], 3)} at k = 1"
    return [
        claim(
            f"fast client, n = {clients}: stationary when k > {limit}",
            f"k > {limit}",
            f"k > {begun}",
            error="-",
            holds=[begun <= limit],
            rule=f"the mean over {WINDOW} steps stays within 5% of the exact value from there on",
            note=note + ("" if slow is None else f"; a slow client is settled when k > {slow}"),
        ),
        claim(
            f"fast client, n = {clients}: mean staleness for {limit} < k <= {LAST}, conditional",
            "figure only",
            plain(float(later.mean())),
            error=plain(error, 2),
            note=f"exact {stationary:.6f}; indicator reading: exact {float(exact.staleness('indicator')[0]):.7f}, "
            f"simulated {plain(float(curves.indicator[0][limit:LAST].mean()))}",
        ),
    ]


def _rows(curves: Transient) -> list[dict[str, Any]]:
    return [
        {
            "step": k + 1,
            "client": name,
            "conditional": curves.conditional[group, k],
            "conditional_error": curves.conditional_error[group, k],
            "indicator": curves.indicator[group, k],
            "indicator_error": curves.indicator_error[group, k],
        }
        for group, name in enumerate(("fast", "slow"))
        for k in range(STEPS)
    ]


def _picture(drawn: dict[int, tuple[Transient, Analysis]], path: Path) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(9.2, 3.6))
    steps = np.arange(1, STEPS + 1)
    for axis, (clients, (curves, exact)) in zip(axes, drawn.items(), strict=True):
        value, error = curves.conditional[0], curves.conditional_error[0]
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
