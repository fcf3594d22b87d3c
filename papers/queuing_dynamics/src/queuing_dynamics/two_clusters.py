"""Delays of two saturated clusters, with uniform sampling and with the paper's optimal one.

n = 10: five clients at rate 1.2, five at rate 1; C = 1000 tasks, T = 10^6 steps. The main text prints 50 and 1950, the
appendix 59 and 1938. With p = 7.5e-3 for fast clients the delays are said to be divided by 10 and 2.
"""

from pathlib import Path

import numpy as np

from queuing_dynamics.delays import (
    TASKS,
    SingleRuns,
    delay_rows,
    histogram_rows,
    histograms,
    simulated,
    single_run_claim,
    single_run_rows,
    single_runs,
)
from queuing_dynamics.worked_example import READINGS
from sojourn.csv_file import write_csv
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.planning.bound.goal import goal
from sojourn.planning.bound.search import make_plan
from sojourn.report.reproduction.claim import Claim, claim, near, numbers, plain, printed, thousandths
from sojourn.report.reproduction.experiment import Experiment, Watch
from sojourn.timing.exact.analysis import analyze
from sojourn.timing.simulate.summary import Summary

FLEET = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))
MAIN_TEXT, APPENDIX = {"fast": 50.0, "slow": 1950.0}, {"fast": 59.0, "slow": 1938.0}
DIVIDED, SHARE = (10.0, 2.0), 0.15
P = 7.5e-3


def plans() -> dict[str, Plan]:
    """Return uniform sampling, and the paper's."""
    return {
        "uniform": Plan.uniform(FLEET, TASKS),
        "optimal": Plan.of(FLEET, {"fast": P, "slow": 2 / FLEET.clients - P}, TASKS),
    }


def run(folder: Path, fast: bool, watch: Watch) -> list[Claim]:
    """Simulate both samplings from several starts, and compare with the paper."""
    starts = {"uniform": ("even", "stationary"), "optimal": ("even", "routed", "stationary")}
    seen = {
        (sampling, start): simulated(FLEET, plan, start, fast, watch)
        for sampling, plan in plans().items()
        for start in starts[sampling]
    }
    shown = {"uniform": seen["uniform", "even"], "optimal": seen["optimal", "routed"]}
    write_csv(folder / "delays.csv", delay_rows(seen))
    write_csv(folder / "histograms.csv", histogram_rows(shown))
    histograms(shown, folder / "two-clusters")
    single = single_runs(FLEET, plans()["uniform"], "even", fast, watch)
    write_csv(folder / "single-runs.csv", single_run_rows(FLEET, single))
    return [*_delays(seen, single), *_divided(seen), *_best_p()]


def _delays(seen: dict[tuple[str, str], Summary], single: SingleRuns) -> list[Claim]:
    even, still = seen["uniform", "even"], seen["uniform", "stationary"]
    exact = analyze(FLEET, even.plan)
    mean = exact.staleness()
    times, times_error = single.times
    return [
        claim(
            "mean delays of fast and slow clients, uniform p (main text), stationary",
            printed(MAIN_TEXT.values()),
            numbers(mean, 6),
            holds=[near(ours, paper, 0.05) for ours, paper in zip(mean, MAIN_TEXT.values(), strict=True)],
            rule="within 5% each",
            note=f"simulated from a stationary start {numbers(still.staleness.value)} ± "
            f"{numbers(still.staleness.error, 2)}; throughput {exact.throughput:.6f}",
            short="mean delays (main text), stationary",
            parts="fast / slow",
        ),
        single_run_claim(
            "the same (main text), as a run of 10^6 steps from an even start",
            MAIN_TEXT,
            even,
            "the same, one run from an even start",
            "such a run begins with 100 tasks at each fast client, which the mean remembers",
        ),
        single_run_claim(
            "mean delays, uniform p (appendix), as a run of 10^6 steps from an even start",
            APPENDIX,
            even,
            "mean delays (appendix), one run from an even start",
        ),
        claim(
            "mean delays are far smaller than the largest one of the 10^6 steps (fast / slow: largest over mean)",
            "way smaller",
            numbers(times, 3),
            error=numbers(times_error, 2),
            holds=[bool(value >= 3) for value in times],
            rule="the largest of a single run is at least 3 times its mean, on average over the runs",
            note=f"{len(single.largest)} runs from an even start; their largest are "
            f"{numbers(single.largest.mean(axis=0))} on average, {printed(single.largest.max(axis=0))} over all runs",
            short="largest delay of a run over its mean",
            parts="fast / slow",
        ),
    ]


def _divided(seen: dict[tuple[str, str], Summary]) -> list[Claim]:
    claims = []
    for start in ("even", "routed", "stationary"):
        before = seen["uniform", "stationary" if start == "stationary" else "even"]
        after = seen["optimal", start]
        ratio = before.staleness.value / after.staleness.value
        shares = [one.staleness.error / one.staleness.value for one in (before, after)]
        claims.append(
            claim(
                f"p = 7.5e-3 divides the delays of fast and slow clients; {start} start",
                "10 / 2",
                numbers(ratio, 3),
                error=numbers(ratio * np.sqrt(shares[0] ** 2 + shares[1] ** 2), 2),
                holds=[near(ours, paper, SHARE) for ours, paper in zip(ratio, DIVIDED, strict=True)],
                rule="within 15% each",
                note=f"delays with it {numbers(after.staleness.value)}, exact and stationary "
                f"{numbers(analyze(FLEET, after.plan).staleness())}",
                short=f"p = 7.5e-3 divides delays by, {start} start",
                parts="fast / slow",
            )
        )
    return claims


def _best_p() -> list[Claim]:
    claims = []
    for reading in READINGS:
        found = {
            steps: make_plan(FLEET, goal(steps=steps, free_step=True, reading=reading), TASKS, "clusters").plan
            for steps in (1e6, 1e4)
        }
        p = [float(plan.sampling[0]) for plan in found.values()]
        claims.append(
            claim(
                f"best p of a fast client at n = 10, C = 1000, T = 10^6 and 10^4; {reading} m, exact",
                "7.5e-3",
                numbers(np.array(p) * 1e3, 3) + " (e-3)",
                holds=[near(value, P, 0.1) for value in p],
                rule="within 10%",
                note="the paper states no constants here: A = 100, L = 1, B = 20 are the worked example's; uniform is "
                f"{plain(1 / FLEET.clients, 1)}",
                short=f"best p of a fast client, {reading} m",
                parts="T = 10^6 / T = 10^4",
                brief=thousandths(p),
            )
        )
    return claims


EXPERIMENT = Experiment(
    "two-clusters",
    "Delays of two saturated clusters, uniform and optimal sampling",
    "histograms of fast and slow delays (section 4, and the appendix on two clusters)",
    run,
)
