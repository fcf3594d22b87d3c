"""Delays of three clusters, the fast one far from saturation.

n = 9: three clients each at rates 10, 1.2 and 1, uniform sampling, C = 1000 tasks, T = 10^6 steps. The paper's
simulation gives lambda of about 9 and delays of 1, 55 and 2935, which it says its closed forms recover.
"""

from pathlib import Path

from queuing_dynamics.delays import TASKS, delay_rows, histogram_rows, histograms, simulated, single_run_claim
from sojourn.csv_file import write_csv
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.report.reproduction.claim import Claim, claim, near, numbers, plain, printed
from sojourn.report.reproduction.experiment import Experiment, Watch
from sojourn.timing.exact.analysis import Analysis, analyze
from sojourn.timing.simulate.summary import Summary

FLEET = Fleet.of(fast=(3, 10.0), medium=(3, 1.2), slow=(3, 1.0))
PAPER = (1.0, 55.0, 2935.0)
LAMBDA = 9.0


def run(folder: Path, fast: bool, watch: Watch) -> list[Claim]:
    """Simulate from an even and from a stationary start, and compare with the paper."""
    plan = Plan.uniform(FLEET, TASKS)
    seen = {("uniform", start): simulated(FLEET, plan, start, fast, watch) for start in ("even", "stationary")}
    even = seen["uniform", "even"]
    write_csv(folder / "delays.csv", delay_rows(seen))
    write_csv(folder / "histograms.csv", histogram_rows({"uniform": even}))
    histograms({"uniform": even}, folder / "three-clusters")
    exact = analyze(FLEET, plan)
    return [_throughput(even, exact), *_delays(even, seen["uniform", "stationary"], exact), *_arithmetic(exact)]


def _throughput(even: Summary, exact: Analysis) -> Claim:
    return claim(
        "throughput lambda",
        "about 9",
        f"{exact.throughput:.6f}",
        holds=[near(exact.throughput, LAMBDA, 0.02)],
        rule="within 2%",
        note=f"simulated from an even start {plain(float(even.throughput.value))} ± "
        f"{plain(float(even.throughput.error), 2)}",
    )


def _delays(even: Summary, still: Summary, exact: Analysis) -> list[Claim]:
    mean = exact.staleness()
    return [
        single_run_claim(
            "mean delay of fast clients, as a run of 10^6 steps from an even start",
            {"fast": PAPER[0]},
            even,
            "mean delay, one run from an even start",
            f"the stationary {mean[0]:.3f} agrees",
            words="close to 1",
        ),
        single_run_claim(
            "mean delays of medium and slow clients, as a run of 10^6 steps from an even start",
            {"medium": PAPER[1], "slow": PAPER[2]},
            even,
            "mean delays, one run from an even start",
        ),
        claim(
            "mean delays of fast, medium and slow clients, stationary",
            printed(PAPER),
            numbers(mean, 6),
            holds=[near(ours, paper, 0.05) for ours, paper in zip(mean, PAPER, strict=True)],
            rule="within 5% each",
            note=f"simulated from a stationary start {numbers(still.staleness.value)} ± "
            f"{numbers(still.staleness.error, 2)}; the printed medium delay is that of an even start",
            short="mean delays, stationary",
            parts="fast / medium / slow",
        ),
    ]


def _arithmetic(exact: Analysis) -> list[Claim]:
    """Compute the printed approximations, with lambda = 9."""
    busy = float(exact.utilisation[0])
    whole = 3 * 10 * busy + 3 * 1.2 + 3 * 1.0
    forms = {
        "medium: 5 lambda / mu_m": (5 * LAMBDA / 1.2, PAPER[1], ""),
        "slow: 325 lambda / mu_s": (
            325 * LAMBDA,
            PAPER[2],
            f"by its own formula 325 is 3C/n - 5 = {plain(3 * TASKS / FLEET.clients - 5)}, which makes "
            f"{plain((3 * TASKS / FLEET.clients - 5) * LAMBDA)}",
        ),
    }
    claims = [
        claim(
            f"the printed form for {form} recovers the simulated delay",
            printed([paper]),
            plain(value),
            holds=[near(value, paper, 0.05)],
            rule="within 5%",
            note=note,
            short=f"printed form for {form}",
        )
        for form, (value, paper, note) in forms.items()
    ]
    return [
        *claims,
        claim(
            "fast clients: lambda / mu_f is about 3 P(X_f > 0)",
            "3 P(X_f > 0)",
            f"{plain(whole / 10)} and {plain(3 * busy)}",
            holds=[near(3 * busy, whole / 10, 0.05)],
            rule="the two within 5%",
            note="the rates of the medium and slow clients, 6.6, are left out of lambda there",
            short="fast clients: lambda / mu_f and 3 P(X_f > 0)",
        ),
    ]


EXPERIMENT = Experiment(
    "three-clusters",
    "Delays of three clusters, the fast one far from saturation",
    "histograms of the appendix on three clusters",
    run,
)
