"""The bound against the step size, for several samplings.

n = 100, half of them fast, C = 10 tasks, T = 10^4 steps, A = L = B = 1. A fast client is sampled with p, a slow one
with 2/n - p. The paper gives no speeds; fast clients are ten times faster here, as in its stationarity figure. The
largest step in its caption has an 8 where Theorem 1 has 16, and leaves out the theorem's second limit, 2 / S1, which
is itself four times that of the lemma behind it.

For "small" steps the samplings are compared at a tenth of the smallest of the caption's largest steps. At 1e-3, the
step size that was tried first, the sampling p = 1.9e-2 has no bound any more in the conditional reading, and its curve
ends before that. The value at 1e-3 is shown as well.
"""

from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from queuing_dynamics.worked_example import READINGS, sampled
from sojourn.constants import Constants
from sojourn.csv_file import write_csv
from sojourn.fleet import Fleet
from sojourn.planning.bound.theorem import Limit, bound, largest_step, step_limits, sums
from sojourn.report.figures import pyplot, save
from sojourn.report.reproduction.claim import Claim, claim, numbers, percents, plain
from sojourn.report.reproduction.experiment import Experiment, Watch
from sojourn.timing.exact.analysis import Reading, analyze

FLEET = Fleet.of(fast=(50, 10.0), slow=(50, 1.0))
TASKS, STEPS = 10, 10_000
FIRST_SMALL = 1e-3  # the step size that was tried first as a small one
UNIT = Constants(A=1.0, L=1.0, B=1.0)
SAMPLINGS = (2e-3, 5e-3, 7.5e-3, 1e-2, 1.25e-2, 1.5e-2, 1.9e-2)
UNIFORM = 1e-2
EVERY_P = np.arange(1, 40) * 5e-4


class Curve(NamedTuple):
    """The numbers of one sampling that the bound needs."""

    reading: Reading
    p: float
    S1: float
    S2: float

    def at(self, step: float) -> float:
        """Return the bound at this step size."""
        return bound(step, STEPS, TASKS, self.S1, self.S2, UNIT)

    @property
    def of_theorem(self) -> float:
        """eta_max of Theorem 1, as printed."""
        return largest_step(TASKS, self.S1, self.S2, UNIT, "printed")

    @property
    def of_proof(self) -> float:
        """eta_max as the proof has it."""
        return largest_step(TASKS, self.S1, self.S2, UNIT, "proof")

    def by_spread(self, limit: Limit) -> float:
        """The second limit: 1/(2 L S1) in the theorem, 1/(8 L S1) in the lemma that it rests on."""
        return step_limits(TASKS, self.S1, self.S2, UNIT, limit)[1]

    def by_staleness(self, constant: int) -> float:
        """(constant L^2 C S2)^(-1/2): the limit in the figure's caption with 8, the theorem's first one with 16."""
        return 1 / sqrt(constant * TASKS * self.S2)


def curve(p: float, reading: Reading) -> Curve:
    """Return the sums of the bound at this sampling, with the exact stationary staleness."""
    plan = sampled(FLEET, p, TASKS)
    m = analyze(FLEET, plan).staleness(reading)
    return Curve(reading, p, *sums(plan.sampling, m, np.full(2, 1 / FLEET.clients), FLEET.count))


def run(folder: Path, fast: bool, watch: Watch) -> list[Claim]:
    """Compute all curves, and compare them with what the paper says."""
    curves = [curve(p, reading) for reading in READINGS for p in SAMPLINGS]
    steps = np.geomspace(1e-4, 1.0, 200)
    write_csv(folder / "bound-against-step.csv", [_point(one, float(step)) for one in curves for step in steps])
    write_csv(folder / "largest-steps.csv", [_limits(one) for one in curves])
    _picture(curves, folder / "step-size")
    claims = [one for reading in READINGS for one in _claims([each for each in curves if each.reading == reading])]
    return [*claims, _second_limit([one for one in curves if one.p == UNIFORM])]


def _point(one: Curve, step: float) -> dict[str, Any]:
    return {"reading": one.reading, "p": one.p, "step_size": step, "bound": one.at(step)}


def _limits(one: Curve) -> dict[str, Any]:
    return {
        "reading": one.reading,
        "p": one.p,
        "S1": one.S1,
        "S2": one.S2,
        "caption_8": one.by_staleness(8),
        "theorem_16": one.by_staleness(16),
        "theorem_second": one.by_spread("printed"),
        "lemma_second": one.by_spread("proof"),
        "eta_max_printed": one.of_theorem,
        "eta_max_proof": one.of_proof,
    }


def _claims(curves: list[Curve]) -> list[Claim]:
    reading = curves[0].reading
    flat = next(one for one in curves if one.p == UNIFORM)
    little, large = min(one.by_staleness(8) for one in curves) / 10, flat.by_staleness(8)
    small, big = ({one.p: one.at(step) for one in curves} for step in (little, large))
    best = min((curve(float(p), reading) for p in EVERY_P), key=lambda one: one.at(large))
    good, steep = flat.at(large) / best.at(large), big[1.9e-2] / big[UNIFORM]
    apart = max(small.values()) / min(small.values()) - 1
    first = [one.at(FIRST_SMALL) for one in curves]
    beyond = [f"{one.p:g}" for one in curves if one.by_staleness(8) < FIRST_SMALL]
    far = max(big.values()) / min(big.values())
    return [
        claim(
            f"small step (eta = {plain(little, 2)}): all samplings are equivalent; {reading} m",
            "equivalent",
            f"{percents([apart])} between best and worst p",
            holds=[apart <= 0.05],
            rule="within 5% at a tenth of the least of the largest steps",
            note=f"at eta = 1e-3 {percents([max(first) / min(first) - 1])}"
            + (f", which is beyond the caption's largest step for p = {', '.join(beyond)}" if beyond else "")
            + f"; at the largest step of uniform sampling the worst bound is {plain(far, 3)} times the best",
            short=f"small step: all samplings alike; {reading} m",
            brief=f"{percents([apart])} apart",
        ),
        claim(
            f"large step (eta = {plain(large, 3)}, the caption's largest for uniform p): uniform is good; {reading} m",
            "around the uniform one",
            f"{plain(good, 3)} times the best",
            holds=[good <= 1.25],
            rule="the bound at uniform p at most 25% above that at the best p",
            note=f"best p there {best.p:g}; the speeds are ours",
            short=f"uniform at a large step; {reading} m",
            brief=f"{plain(good, 3)} times best",
        ),
        claim(
            f"p close to 2/n hinders the bound: p = 1.9e-2 over uniform at that step; {reading} m",
            "worse",
            f"{plain(steep, 3)} times",
            holds=[steep > 1.05],
            rule="at least 5% more",
            short=f"p = 1.9e-2 over uniform; {reading} m",
        ),
        claim(
            f"largest step at uniform p: caption (8) beside the theorem (16 and 2/S1); {reading} m",
            "(8 L^2 C S2)^(-1/2)",
            numbers([large, flat.by_staleness(16), flat.of_theorem]),
            holds=[abs(large / flat.of_theorem - 1) <= 0.01],
            rule="caption and theorem within 1%",
            note="caption, the theorem's first limit, eta_max as printed; with the proof's second limit eta_max is "
            f"{plain(flat.of_proof)}; 1/(4L) (C S2)^(-1/2) has 16 under the root",
            short=f"largest step; {reading} m",
            parts="caption (8) / theorem (16) / eta_max",
        ),
    ]


def _second_limit(flat: list[Curve]) -> Claim:
    printed, proven = (flat[0].by_spread(limit) for limit in ("printed", "proof"))
    moved = any(one.of_theorem != one.of_proof for one in flat)
    return claim(
        "second limit of the step at uniform p: as in Theorem 1, beside the lemma that it rests on",
        f"1/(2 L S1) = {plain(printed)}",
        f"1/(8 L S1) = {plain(proven)}",
        holds=[abs(printed / proven - 1) <= 0.01],
        rule="theorem and lemma within 1%",
        note="the lemma needs -eta/2 + 2 eta^2 L S1 <= -eta/4; at uniform sampling it is the smaller limit for C <= 2, "
        + ("and here too" if moved else "so that nothing changes at the C = 10 of this figure"),
        short="second limit of the step",
    )


def _picture(curves: list[Curve], path: Path) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.4), layout="constrained")
    shades = plt.matplotlib.colormaps["viridis"](np.linspace(0, 0.92, len(SAMPLINGS)))
    for axis, reading in zip(axes, READINGS, strict=True):
        mine = [each for each in curves if each.reading == reading]
        least = min(one.by_staleness(8) for one in mine) / 8
        for shade, one in zip(shades, mine, strict=True):
            steps = np.geomspace(least, one.by_staleness(8), 120)
            said = f"p = {one.p:g}" + (" (uniform)" if one.p == UNIFORM else "")
            axis.plot(steps, [one.at(float(step)) for step in steps], color=shade, label=said)
            axis.plot(one.by_staleness(8), one.at(one.by_staleness(8)), "o", color=shade, ms=4)
            axis.plot(one.of_theorem, one.at(one.of_theorem), "s", mfc="white", color=shade, ms=5)
        axis.plot([], [], "o", color="black", ms=4, label="caption's largest step (8)")
        axis.plot([], [], "s", mfc="white", color="black", ms=5, label="the theorem's eta_max")
        axis.set(xscale="log", yscale="log", xlabel="step size", title=f"{reading} reading of m")
        axis.xaxis.set_minor_formatter(plt.NullFormatter())
    axes[0].set_ylabel("bound after 10,000 steps")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    save(figure, path)


EXPERIMENT = Experiment(
    "step-size",
    "The bound against the step size",
    "figure of the bound with respect to eta (appendix on bounds)",
    run,
)
