"""Compare the bounds of FedBuff and AsyncSGD with ours, on the worked example with deterministic work (Table 1).

tau_max is C services of the slowest client: a time, which the paper puts where the bounds want server steps. In steps
it is that time multiplied by the throughput (simulated, with deterministic work). Both are shown. With exponential work
there is no longest delay, and both bounds are empty. Each bound is taken at its own best step size, both free and cut
at the largest for which it holds; ours uses the exact stationary m of exponential work.
"""

from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import NamedTuple

import numpy as np

from queuing_dynamics.worked_example import (
    CONCURRENCIES,
    READINGS,
    SPEEDS,
    STEPS,
    UNIFORM,
    complete,
    exact_bounds,
    grid,
    worked_fleet,
)
from sojourn.constants import WORKED_EXAMPLE
from sojourn.csv_file import write_csv
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.planning.bound.theorem import (
    Row,
    asyncsgd,
    asyncsgd_step,
    fedbuff,
    fedbuff_step,
    longest_staleness,
    longest_wait,
)
from sojourn.report.figures import COLOURS, pyplot, save
from sojourn.report.reproduction.claim import EXACT, STROKE, Claim, claim, numbers, percents, plain, span
from sojourn.report.reproduction.experiment import Experiment, Watch
from sojourn.timing.exact.analysis import analyze
from sojourn.timing.simulate.summary import measure

METHODS = ("FedBuff", "AsyncSGD")
UNITS = ("time", "steps")


class Compared(NamedTuple):
    """One method's bound compared with ours."""

    method: str
    longest_in: str
    longest: float
    step: str
    reading: str
    concurrency: int
    speed: float
    theirs: float
    theirs_error: float
    ours: float
    ours_uniform: float

    @property
    def gain(self) -> float:
        """Return how much lower ours is."""
        return 1 - self.ours / self.theirs

    @property
    def gain_error(self) -> float:
        """Its standard error, from the simulated throughput."""
        return self.ours / self.theirs**2 * self.theirs_error


def method_bound(method: str, longest: float, concurrency: int, free: bool) -> Row:
    """Return a row of Table 1 at its best step size, with tau_c = C and a mean staleness of C - 1."""
    n, C, K = 100, concurrency, WORKED_EXAMPLE
    if method == "FedBuff":
        step = fedbuff_step(STEPS, n, longest, K) if longest < inf else 1.0
        limit = fedbuff(step, STEPS, n, longest, K).largest_step
        return fedbuff(step if free or limit == 0 else min(step, limit), STEPS, n, longest, K)
    step = asyncsgd_step(STEPS, C, C - 1, K)
    limit = asyncsgd(step, STEPS, C, C - 1, longest, K).largest_step
    return asyncsgd(step if free or limit == 0 else min(step, limit), STEPS, C, C - 1, longest, K)


def tau_max(fleet: Fleet, concurrency: int, throughput: float) -> dict[str, float]:
    """Return tau_max as a time and in steps, from the fleet's laws; infinite if a service has no longest duration."""
    bounded, slowest = all(law.longest < inf for law in fleet.law), float(fleet.rate.min())
    return {
        "time": longest_wait(concurrency, slowest, bounded),
        "steps": longest_staleness(concurrency, slowest, throughput, bounded),
    }


def run(folder: Path, fast: bool, watch: Watch) -> list[Claim]:
    """Compute all rows of Table 1 at every speed and concurrency."""
    rows: list[Compared] = []
    work = [(C, speed) for C in CONCURRENCIES for speed in SPEEDS]
    for done, (C, speed) in enumerate(work):
        watch("bounds", done, len(work))
        rows += _rows(C, speed)
    write_csv(folder / "other-bounds.csv", [{**one._asdict(), "gain": one.gain} for one in rows])
    _picture(rows, folder / "other-bounds")
    return _claims(rows)


def _rows(C: int, speed: float) -> Iterator[Compared]:
    fixed, fleet = worked_fleet(speed, deterministic=True), worked_fleet(speed)
    flow = complete(measure(fixed, Plan.uniform(fixed, C), 100_000, start="even", warmup=20_000, seed=1)).throughput
    longest = tau_max(fixed, C, float(flow.value))
    for reading in READINGS:
        for step, free in (("free", True), ("cut", False)):
            ours = float(exact_bounds(fleet, grid(fleet), C, reading, free=free).min())
            flat = float(exact_bounds(fleet, np.array([UNIFORM]), C, reading, free=free)[0])
            for unit in UNITS:
                for method in METHODS:
                    theirs = method_bound(method, longest[unit], C, free).value
                    more = longest[unit] + (C * float(flow.error) if unit == "steps" else 0.0)
                    error = abs(method_bound(method, more, C, free).value - theirs)
                    yield Compared(method, unit, longest[unit], step, reading, C, speed, theirs, error, ours, flat)


def _claims(rows: list[Compared]) -> list[Claim]:
    claims = [_massive(rows, method, unit, reading) for method in METHODS for unit in UNITS for reading in READINGS]
    hundred = [one for one in rows if one.concurrency == 100 and one.step == "free" and one.longest_in == "time"]
    same = [one for one in hundred if one.method == "AsyncSGD" and one.reading == "indicator"]
    gap = max(abs(one.theirs / one.ours_uniform - 1) for one in same)
    buffered = [one.theirs for one in hundred if one.method == "FedBuff"]
    fleet = worked_fleet(2.0)
    random = tau_max(fleet, 100, analyze(fleet, Plan.uniform(fleet, 100)).throughput)
    empty = [method_bound(method, random[unit], 100, True).empty for unit in UNITS for method in METHODS]
    return [
        *claims,
        claim(
            "with exponential work the bounds of FedBuff and AsyncSGD are empty",
            "empty",
            " / ".join("empty" if one else "a number" for one in empty[:2]),
            holds=[one is not None for one in empty],
            rule="no step size is allowed",
            short="bounds with exponential work",
            parts="FedBuff / AsyncSGD",
            note=f"a service of the {fleet.law[0]} law has no longest duration, so that tau_max is {random['time']}",
        ),
        claim(
            "values at C = 100, free step, tau_max = C (time): FedBuff, AsyncSGD",
            "figure only",
            f"{plain(buffered[0])} / {plain(same[0].theirs)}",
            short="value of the bound, free step, tau_max = C",
            parts="FedBuff / AsyncSGD",
            note="AsyncSGD's row is our bound at uniform p in the indicator reading"
            + (", to rounding: all of the gain comes from sampling" if gap < 1e-12 else f", but for {gap:.0e}"),
        ),
    ]


def _massive(rows: list[Compared], method: str, unit: str, reading: str) -> Claim:
    mine = [one for one in rows if (one.method, one.longest_in, one.reading) == (method, unit, reading)]
    free, cut = ([one for one in mine if one.step == step and one.concurrency == 100] for step in ("free", "cut"))
    errors = [100 * one.gain_error for one in free], [100 * one.gain_error for one in cut]
    return claim(
        f"improvement over {method} at mu_f = 2, 4, 8, 16, C = 100; {reading} m, tau_max as {unit}; free and cut steps",
        "massive",
        f"free {percents([one.gain for one in free])}; cut {percents([one.gain for one in cut])}",
        error=_said(errors),
        holds=[one.gain >= 0.3 for one in (*free, *cut)],
        rule="a bound lower by at least 30% at every speed (no number is printed), with free steps and with each step "
        "cut at what its bound allows",
        note="ours with the exact m of exponential work, theirs with deterministic work, as the paper's tau_max"
        + ("; AsyncSGD's value knows tau_max only through the largest step" if method == "AsyncSGD" else ""),
        short=f"over {method}; {reading} m, tau_max as {unit}",
        parts="free / cut",
        brief=STROKE.join(span([one.gain for one in each], percents) for each in (free, cut)),
    )


def _said(errors: tuple[list[float], list[float]]) -> str:
    """Return standard errors with free steps and with cut ones."""
    words = [numbers(part, 2, "%") if any(part) else EXACT for part in errors]
    return EXACT if words == [EXACT, EXACT] else "; ".join(words)


def _picture(rows: list[Compared], path: Path) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.4), sharey=True, layout="constrained")
    lines = [("FedBuff", "time", COLOURS[0]), ("FedBuff", "steps", COLOURS[4]), ("AsyncSGD", "time", COLOURS[1])]
    for axis, reading in zip(axes, READINGS, strict=True):
        for method, unit, colour in lines:
            for dashes, C in zip((":", "--", "-"), CONCURRENCIES, strict=True):
                key = (method, unit, reading, C, "free")
                mine = [
                    one for one in rows if (one.method, one.longest_in, one.reading, one.concurrency, one.step) == key
                ]
                said = f"{method}{f', tau_max as {unit}' if method == 'FedBuff' else ''}, C = {C}"
                axis.plot([one.speed for one in mine], [one.gain for one in mine], color=colour, ls=dashes, label=said)
        axis.axhline(0, color="grey", lw=0.8)
        axis.set(xlabel="speed of the fast clients, mu_f", title=f"{reading} reading of m")
        axis.yaxis.set_major_formatter(plt.matplotlib.ticker.PercentFormatter(1.0))
    axes[0].set_ylabel("relative improvement of our bound, free steps")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    save(figure, path)


EXPERIMENT = Experiment(
    "other-bounds",
    "Our bound beside those of FedBuff and AsyncSGD",
    "Table 1 and the figure of the relative improvement over FedBuff and AsyncSGD (section 3)",
    run,
)
