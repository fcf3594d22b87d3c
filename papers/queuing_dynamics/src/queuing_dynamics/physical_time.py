"""The worked example in physical time: U = 1000 units of time, T = lambda(p) U server steps.

Sampling slow clients more often makes updates fresher and steps rarer. The paper finds that with C = n the best p is
8.5e-3 and the bound falls by 40%, and that uniform sampling is best when few tasks are in flight. Both readings of m
are shown, exact and stationary, over 50 values of p around the uniform one, as in the paper, and, because the optimum
may lie between two of them, over all p. The paper gives no range for its grid; (0, min(2/n, 1/n_fast)) is our choice.
Because we do not find 40%, the same is done with two other lambda(p): the mean speed sum_i p_i mu_i of the client
sampled, and 1 / sum_i (p_i / mu_i), one over the mean service time. Neither is the throughput, but either may be what
was called the average network speed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from queuing_dynamics.worked_example import (
    CONCURRENCIES,
    FAST,
    READINGS,
    SPEEDS,
    UNIFORM,
    Best,
    best,
    exact_bounds,
    grid,
    sampled,
    worked_fleet,
)
from sojourn.constants import WORKED_EXAMPLE
from sojourn.csv_file import write_csv
from sojourn.fleet import Fleet
from sojourn.planning.bound.theorem import best_step, bound, sums
from sojourn.report.figures import COLOURS, pyplot, save
from sojourn.report.reproduction.claim import Claim, claim, near, numbers, percents, span, thousandths
from sojourn.report.reproduction.experiment import Experiment, Watch
from sojourn.timing.exact.analysis import Reading, analyze

TIME = 1000.0
P, GAIN = 8.5e-3, 0.40
EVERY_SPEED = (2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0)
FREE, CUT = "free", "at most eta_max"
MEAN_SPEED, MEAN_SERVICE = "sum_i p_i mu_i", "1 / sum_i (p_i / mu_i)"


class BestInTime(NamedTuple):
    """The best sampling for one speed and concurrency."""

    step: str
    reading: str
    concurrency: int
    speed: float
    p: float
    gain: float
    bound: float
    uniform_bound: float
    optimal_p: float
    optimal_gain: float
    paper_p_gain: float
    throughput: float
    uniform_throughput: float


def run(folder: Path, fast: bool, watch: Watch) -> list[Claim]:
    """Search every grid, and compare with the paper."""
    found = list(_found(watch))
    write_csv(folder / "physical-time.csv", [one._asdict() for one in found])
    other = list(_other_speeds(watch))
    write_csv(folder / "other-speeds.csv", [one._asdict() for one in other])
    _picture(found, folder / "physical-time")
    claims = []
    for reading in READINGS:
        claims += [_gain(found, reading), _probability(found, reading), _few_tasks(found, reading)]
        claims.append(_mean_speed([one for one in other if one.reading == reading], reading))
    return claims


def _found(watch: Watch) -> Iterator[BestInTime]:
    work = [(C, speed) for C in CONCURRENCIES for speed in EVERY_SPEED]
    for done, (C, speed) in enumerate(work):
        watch("searching", done, len(work))
        fleet = worked_fleet(speed)
        values = grid(fleet)
        flow = {p: analyze(fleet, sampled(fleet, p, C)).throughput for p in (*values, UNIFORM)}
        for reading in READINGS:
            for step in (FREE, CUT):
                bounds = exact_bounds(fleet, values, C, reading, free=step == FREE, time=TIME)
                flat, papers = exact_bounds(fleet, np.array([UNIFORM, P]), C, reading, free=step == FREE, time=TIME)
                p, value, gain = best(values, bounds, flat)
                over_all = _between(fleet, p, float(values[1] - values[0]), C, reading, step == FREE, float(flat))
                rest = (1 - papers / flat, flow[p], flow[UNIFORM])
                yield BestInTime(step, reading, C, speed, p, gain, value, flat, *over_all, *rest)


def _between(
    fleet: Fleet, p: float, gap: float, C: int, reading: Reading, free: bool, uniform: float
) -> tuple[float, float]:
    """Return the best p between the neighbours of the grid's best, and its gain."""
    edges = (p - gap, min(p + gap, (1 - 1e-9) / FAST))

    def value(at: float) -> float:
        return float(exact_bounds(fleet, np.array([at]), C, reading, free=free, time=TIME)[0])

    found = minimize_scalar(value, bounds=edges, method="bounded", options={"xatol": 1e-7})
    return float(found.x), 1 - float(found.fun) / uniform


def _of(found: list[BestInTime], reading: str, C: int, step: str = FREE) -> list[BestInTime]:
    """Return the four speeds of the worked example."""
    rows = [one for one in found if (one.reading, one.concurrency, one.step) == (reading, C, step)]
    return [one for one in rows if one.speed in SPEEDS]


def _gain(found: list[BestInTime], reading: str) -> Claim:
    rows, cut = _of(found, reading, 100), _of(found, reading, 100, CUT)
    return claim(
        f"gain over uniform at C = n = 100, U = 1000, mu_f = 2, 4, 8, 16; {reading} m",
        "40%",
        percents([one.gain for one in rows]),
        holds=[any(abs(one.gain - GAIN) <= 0.05 for one in rows)],
        rule="within 5 percentage points at one of the speeds (the paper names none)",
        note=f"over all p {percents([one.optimal_gain for one in rows])}; "
        f"at p = 8.5e-3 itself {percents([one.paper_p_gain for one in rows])}; "
        f"with steps of at most eta_max {percents([one.gain for one in cut])}",
        short=f"gain over uniform; {reading} m",
        brief=span([one.gain for one in rows], percents),
    )


def _probability(found: list[BestInTime], reading: str) -> Claim:
    rows = _of(found, reading, 100)
    every = [one for one in found if (one.reading, one.concurrency, one.step) == (reading, 100, FREE)]
    equal = [f"{one.speed:g}" for one in every if abs(one.p - P) < 1e-4]
    return claim(
        f"best p of a fast client at C = n, mu_f = 2, 4, 8, 16; {reading} m",
        "8.5e-3, less than 1/n",
        numbers([one.p * 1e3 for one in rows], 3) + " (e-3)",
        holds=[one.p < UNIFORM for one in rows],
        rule="fast clients less often than slow ones, p < 0.01, at every speed",
        note=f"over all p {numbers([one.optimal_p * 1e3 for one in rows], 3)} (e-3); "
        f"the grid's best is 8.5e-3 at {'mu_f = ' + ', '.join(equal) if equal else 'no speed'}",
        short=f"best p of a fast client; {reading} m",
        brief=span([one.p for one in rows], thousandths),
    )


def _few_tasks(found: list[BestInTime], reading: str) -> Claim:
    rows = _of(found, reading, 10)
    return claim(
        f"few tasks (C = 10): uniform sampling is best, mu_f = 2, 4, 8, 16; {reading} m",
        "uniform",
        percents([one.gain for one in rows]) + " gained by the best p",
        holds=[one.gain <= 0.05 for one in rows],
        rule="nothing gains more than 5%",
        note=f"best p {numbers([one.p * 1e3 for one in rows], 3)} (e-3)",
        short=f"few tasks (C = 10): gain of the best p; {reading} m",
        brief=span([one.gain for one in rows], percents),
    )


class OtherSpeed(NamedTuple):
    """The best sampling if lambda(p) were something else than the throughput."""

    average: str
    reading: str
    concurrency: int
    speed: float
    p: float
    gain: float
    bound: float


def _other_speeds(watch: Watch) -> Iterator[OtherSpeed]:
    work = [(C, speed) for C in CONCURRENCIES for speed in SPEEDS]
    for done, (C, speed) in enumerate(work):
        watch("other meanings of lambda", done, len(work))
        for average in (MEAN_SPEED, MEAN_SERVICE):
            for reading in READINGS:
                found = other_speed_best(average, speed, C, reading)
                yield OtherSpeed(average, reading, C, speed, found.p, found.gain, found.value)


def other_speed_best(average: str, speed: float, C: int, reading: Reading) -> Best:
    """Return the best p of the grid if T were U times this average over the clients sampled."""
    fleet = worked_fleet(speed)
    power = 1 if average == MEAN_SPEED else -1
    values = grid(fleet)
    bounds = []
    for p in (*values, UNIFORM):
        plan = sampled(fleet, p, C)
        steps = TIME * float((fleet.count * plan.sampling * fleet.rate**power).sum()) ** power
        m, weights = analyze(fleet, plan).staleness(reading), np.full(fleet.groups, UNIFORM)
        S1, S2 = sums(plan.sampling, m, weights, fleet.count)
        step = best_step(steps, C, S1, S2, WORKED_EXAMPLE)
        bounds.append(bound(step, steps, C, S1, S2, WORKED_EXAMPLE))
    return best(values, np.array(bounds[:-1]), bounds[-1])


def _mean_speed(found: list[OtherSpeed], reading: Reading) -> Claim:
    many, few, service = (
        [one for one in found if (one.average, one.concurrency) == key]
        for key in ((MEAN_SPEED, 100), (MEAN_SPEED, 10), (MEAN_SERVICE, 100))
    )
    closest = min(many, key=lambda one: abs(one.gain - GAIN))
    return claim(
        f"the same gain with lambda = sum_i p_i mu_i in place of the throughput, mu_f = 2, 4, 8, 16; {reading} m",
        "40% at p = 8.5e-3",
        percents([one.gain for one in many]),
        holds=[abs(closest.gain - GAIN) <= 0.05, near(closest.p, P, 0.1)],
        rule="at one of the speeds the gain within 5 percentage points, and p there within 10%",
        note=f"best p {numbers([one.p * 1e3 for one in many], 3)} (e-3); with C = 10 the gains are "
        f"{percents([one.gain for one in few])}; with lambda = 1 / sum_i (p_i / mu_i) and C = 100 "
        f"{percents([one.gain for one in service])} at p = {numbers([one.p * 1e3 for one in service], 3)} (e-3)",
        short=f"gain with lambda = sum p_i mu_i; {reading} m",
        brief=span([one.gain for one in many], percents),
    )


def _picture(found: list[BestInTime], path: Path) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained")
    for reading, dashes in zip(READINGS, ("-", "--"), strict=True):
        for colour, C in zip(COLOURS, CONCURRENCIES, strict=False):
            rows = [one for one in found if (one.reading, one.concurrency, one.step) == (reading, C, FREE)]
            speeds = [one.speed for one in rows]
            said = f"C = {C}, {reading} m"
            axes[0].plot(speeds, [one.optimal_p for one in rows], color=colour, ls=dashes, label=said)
            axes[1].plot(speeds, [one.optimal_gain for one in rows], color=colour, ls=dashes)
            for axis, key in zip(axes, ("p", "gain"), strict=True):
                axis.plot(speeds, [getattr(one, key) for one in rows], ".", color=colour, ms=4)
    axes[0].plot([], [], ".", color="black", ms=4, label="on the grid of 50 values")
    axes[0].axhline(P, color="grey", lw=0.8)
    axes[0].text(2, P, "the paper's 8.5e-3 (C = n)", va="bottom", fontsize=8, color="grey")
    axes[0].axhline(UNIFORM, color="grey", lw=0.8, ls=":")
    axes[0].text(16, UNIFORM, "uniform", ha="right", va="bottom", fontsize=8, color="grey")
    axes[1].axhline(GAIN, color="grey", lw=0.8)
    axes[1].text(2, GAIN, "the paper's 40% (C = n)", va="bottom", fontsize=8, color="grey")
    axes[0].set(xlabel="speed of the fast clients, mu_f", ylabel="best p of a fast client")
    axes[1].set(xlabel="speed of the fast clients, mu_f", ylabel="relative improvement of the bound", ylim=(0, None))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    save(figure, path)


EXPERIMENT = Experiment(
    "physical-time",
    "The worked example in physical time",
    "figure of the improvement for a fixed time (appendix on physical time)",
    run,
)
