"""Delays of saturated clusters: code that the two experiments with 1000 tasks and 10^6 steps share.

The paper prints means of single simulations, so a printed mean is compared with the spread of single runs of ours.
"""

from collections.abc import Mapping
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from queuing_dynamics.worked_example import complete
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.report.figures import COLOURS, pyplot, save
from sojourn.report.reproduction.claim import STROKE, Claim, claim, numbers, printed
from sojourn.report.reproduction.experiment import Watch, telling
from sojourn.timing.exact.analysis import analyze
from sojourn.timing.simulate.jump_chain import bin_edges
from sojourn.timing.simulate.summary import Summary, measure
from sojourn.types import Floats

STEPS, TASKS = 1_000_000, 1000
REPLICATIONS = (100, 12)
FAR = 3.0  # standard deviations of a single run


def simulated(fleet: Fleet, plan: Plan, start: str, fast: bool, watch: Watch) -> Summary:
    """Simulate many runs of 10^6 steps from this start."""
    told = telling(watch, f"{STEPS:,} steps, {start} start")
    return complete(measure(fleet, plan, STEPS, start=start, replications=REPLICATIONS[fast], seed=1, progress=told))


class SingleRuns(NamedTuple):
    """Results of single runs, by [run, group]."""

    mean: Floats
    """Mean staleness of each run."""
    largest: Floats
    """Largest staleness of each run."""

    @property
    def times(self) -> tuple[Floats, Floats]:
        """Return the ratio of the largest to the mean staleness of a run: its mean over the runs,
        and standard error.
        """
        ratio = self.largest / self.mean
        return ratio.mean(axis=0), ratio.std(axis=0, ddof=1) / sqrt(len(ratio))


def single_runs(fleet: Fleet, plan: Plan, start: str, fast: bool, watch: Watch) -> SingleRuns:
    """Simulate runs of 10^6 steps from this start, each with its own seed and result."""
    runs = []
    for run in range(REPLICATIONS[fast]):
        watch("largest of single runs", run, REPLICATIONS[fast])
        runs.append(complete(measure(fleet, plan, STEPS, start=start, seed=run + 1)))
    mean, largest = ([getattr(one, name) for one in runs] for name in ("staleness", "oldest"))
    return SingleRuns(np.array([one.value for one in mean]), np.array(largest, dtype=np.float64))


def single_run_rows(fleet: Fleet, runs: SingleRuns) -> list[dict[str, Any]]:
    """Return mean and largest staleness of every run, by group."""
    return [
        {"seed": run + 1, "group": name, "mean": runs.mean[run, group], "largest": int(runs.largest[run, group])}
        for run in range(len(runs.mean))
        for group, name in enumerate(fleet.name)
    ]


def spread(summary: Summary) -> Floats:
    """Return the standard deviation of the mean staleness of one run, by group."""
    return np.asarray(summary.staleness.error * sqrt(summary.replications))


def single_run_claim(
    statement: str, paper: Mapping[str, float], summary: Summary, short: str, note: str = "", words: str | None = None
) -> Claim:
    """Compare printed means of one run, by group, with many runs of ours; `words` is what the paper says in words."""
    groups = [summary.fleet.index(name) for name in paper]
    means, mean, error = np.array([*paper.values()]), summary.staleness.value[groups], summary.staleness.error[groups]
    away = (means - mean) / spread(summary)[groups]
    said = ", ".join(f"{value:+.1f}" for value in away)
    return claim(
        statement,
        words or printed(paper.values()),
        numbers(mean),
        error=numbers(error, 2),
        holds=[abs(value) <= FAR for value in away],
        rule="each printed mean within 3 standard deviations of a single run of ours",
        note=f"{summary.replications} runs; the printed ones lie {said} deviations of a run away"
        + (f"; {note}" if note else ""),
        short=short,
        parts=STROKE.join(paper),
    )


def delay_rows(summaries: Mapping[tuple[str, str], Summary]) -> list[dict[str, Any]]:
    """Return means and spreads by (sampling, start) and group, with the exact stationary values."""
    return [
        {
            "sampling": sampling,
            "start": start,
            "group": name,
            "p": float(one.plan.sampling[group]),
            "staleness": one.staleness.value[group],
            "standard_error": one.staleness.error[group],
            "one_run_deviation": spread(one)[group],
            "exact_stationary": analyze(one.fleet, one.plan).staleness()[group],
            "largest": one.oldest[group],
            "throughput": float(one.throughput.value),
            "throughput_error": float(one.throughput.error),
            "replications": one.replications,
        }
        for (sampling, start), one in summaries.items()
        for group, name in enumerate(one.fleet.name)
    ]


def histogram_rows(summaries: Mapping[str, Summary]) -> list[dict[str, Any]]:
    """Return counts by staleness: an interval [from, below) and how many updates of the group fall into it."""
    edges = bin_edges()
    return [
        {"sampling": sampling, "group": name, "from": edges[at], "below": edges[at + 1], "updates": count}
        for sampling, one in summaries.items()
        for group, name in enumerate(one.fleet.name)
        for at, count in enumerate(one.staleness_bins[group])
        if count
    ]


def histograms(summaries: Mapping[str, Summary], path: Path) -> None:
    """Draw the distribution of the staleness, with one panel per sampling and group."""
    plt = pyplot()
    groups = next(iter(summaries.values())).fleet.groups
    shape = (len(summaries), groups)
    size = (4.2 * groups, 3.0 * len(summaries) + 0.3)
    figure, axes = plt.subplots(*shape, figsize=size, squeeze=False, layout="constrained")
    edges = bin_edges()
    for row, (sampling, one) in zip(axes, summaries.items(), strict=True):
        exact, top = analyze(one.fleet, one.plan).staleness(), one.staleness_quantile(0.99)
        for group, axis in enumerate(row):
            density = one.staleness_bins[group] / np.diff(edges) / one.staleness_bins[group].sum()
            axis.stairs(density, edges - 0.5, fill=True, color=COLOURS[group], alpha=0.75)
            mean = float(one.staleness.value[group])
            axis.axvline(mean, color="black", lw=1.2, label=f"simulated mean {mean:.4g}")
            axis.axvline(exact[group], color="black", lw=1.2, ls=":", label=f"exact mean {exact[group]:.4g}")
            axis.set_xlim(-0.5, max(4.0, 1.05 * float(top[group])))
            p = float(one.plan.sampling[group])
            axis.set_title(f"{one.fleet.name[group]}, {sampling} (p = {p:.4g})", fontsize=10)
            axis.set(xlabel="staleness (server steps; the oldest 1% lie beyond)", ylabel="share of updates a step")
            axis.legend(frameon=False, fontsize=8)
    save(figure, path)
