"""The pictures of docs/theory.md, each from exact values and from simulated traces with fixed seeds.

    python examples/theory_pictures.py --out docs/pictures          # ten seconds on two cores
    python examples/theory_pictures.py --out /tmp/quick --fast

Writes theory-timeline.png, theory-throughput.png, theory-shares.png, theory-staleness.png and theory-bound.png.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn import Fleet, Plan, Trace, analyze, measure, simulate
from sojourn.constants import WORKED_EXAMPLE
from sojourn.files import written
from sojourn.planning.bound.theorem import best_step, bound, sums
from sojourn.planning.policy import Policy
from sojourn.planning.twin import predict
from sojourn.report.figures import COLOURS, pyplot

FEW = Fleet.of(fast=(3, 4.0), slow=(2, 1.0))
MANY = Fleet.of(fast=(90, 8.0), slow=(10, 1.0))
LADDER = Fleet.of_rates(np.geomspace(0.25, 8.0, 24))
TIME = 2000 / 730  # in which the whole fleet, always busy, would compute 2000 updates
GREY = "#d9dee1"


def slots(dispatched: NDArray[np.float64], started: NDArray[np.float64]) -> list[int]:
    """A row for each waiting task such that no two that wait at the same time share one."""
    free: list[float] = []
    rows = []
    for begin, end in zip(dispatched, started, strict=True):
        row = next((at for at, until in enumerate(free) if until <= begin), len(free))
        if row == len(free):
            free.append(end)
        free[row] = end
        rows.append(row)
    return rows


def timeline(path: Path, fast: bool) -> None:
    """What each of five clients does while five tasks are in flight, routed and capped."""
    plt = pyplot()
    figure, axes = plt.subplots(2, 1, figsize=(8.6, 5.8), sharex=True, layout="constrained")
    begin, end = 20.0, 26.0
    for axis, cap in zip(axes, (None, 1), strict=True):
        trace = simulate(FEW, Plan.uniform(FEW, 5, cap=cap), 600, seed=5, start="even")
        inside = trace.applied & (trace.applied_at >= begin) & (trace.applied_at < end)
        for client in range(FEW.clients):
            lane(axis, trace, client, begin, end)
        said = "Routed: drawn blindly, tasks queue" if cap is None else "Capped at 1: drawn among those with room"
        axis.set_title(f"{said}. {inside.sum()} updates in these {end - begin:.0f} units of time", fontsize=10)
        axis.set(xlim=(begin, end), ylim=(FEW.clients - 0.42, -0.75))
        names = [f"{FEW.name[group]} {client}" for client, group in enumerate(FEW.group_of_client)]
        axis.set_yticks(range(FEW.clients), names)
        axis.tick_params(left=False)
    axes[1].set_xlabel("time")
    marks = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in (COLOURS[0], COLOURS[1], COLOURS[3], GREY)]
    told = ["fast client computes", "slow client computes", "a task waits (one thin bar each)", "client is idle"]
    figure.legend(marks, told, loc="outside lower center", ncols=4, frameon=False)
    write(figure, path / "theory-timeline.png")


def lane(axis: Any, trace: Trace, client: int, begin: float, end: float) -> None:
    """One client: its services as bars, and above them the tasks that wait."""
    now = float(np.nanmax(trace.applied_at))
    rows = np.flatnonzero(trace.client == client)
    rows = rows[np.argsort(trace.dispatched_at[rows], kind="stable")]
    sent, started, done = (
        np.nan_to_num(column[rows], nan=now) for column in (trace.dispatched_at, trace.started_at, trace.finished_at)
    )
    axis.barh(client, end - begin, left=begin, height=0.34, color=GREY)
    colour = COLOURS[int(FEW.group_of_client[client])]
    axis.barh(client, done - started, left=started, height=0.34, color=colour, edgecolor="white", lw=0.8)
    waits = started > sent
    for row, left, right in zip(slots(sent[waits], started[waits]), sent[waits], started[waits], strict=True):
        axis.barh(client - 0.25 - 0.115 * row, right - left, left=left, height=0.09, color=COLOURS[3])


def throughput(path: Path, fast: bool) -> None:
    """Updates per unit of time against the tasks in flight, for four ways to send them."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
    tasks = np.unique(np.round(np.geomspace(1, 300, 24)).astype(int))
    ways = {
        "cap 1: to idle clients": (lambda many: Plan.uniform(MANY, many, cap=1), 100),
        "routed by speed": (lambda many: Plan.by_speed(MANY, many), 300),
        "cap 2": (lambda many: Plan.uniform(MANY, many, cap=2), 200),
        "routed, uniform": (lambda many: Plan.uniform(MANY, many), 300),
    }
    for colour, (said, (plan, most)) in zip(COLOURS, ways.items(), strict=False):
        mine = [int(many) for many in tasks if many < most] + [most]
        axis.plot(mine, [analyze(MANY, plan(many)).throughput for many in mine], color=colour, lw=1.8, label=said)
        seen = [many for many in (10, 50, 100) if many <= most]
        found = [
            measure(MANY, plan(many), 20_000 if fast else 200_000, start="even", warmup=10_000, seed=1) for many in seen
        ]
        errors = [3 * float(one.throughput.error) for one in found]
        axis.errorbar(seen, [float(one.throughput.value) for one in found], errors, fmt="o", ms=4, color=colour)
    axis.axhline(730, color="black", lw=0.8, ls=":")
    axis.text(1, 737, "everybody busy: 90 × 8 + 10 × 1 = 730", va="bottom")
    axis.set(xscale="log", xlabel="tasks in flight, C", ylabel="updates per unit of time", ylim=(0, 800))
    axis.set_xticks([1, 3, 10, 30, 100, 300], ["1", "3", "10", "30", "100", "300"])
    axis.set_title("Lines: exact. Points: simulated, ± 3 standard errors", fontsize=10)
    axis.legend(frameon=False, loc="center left", bbox_to_anchor=(0.0, 0.68))
    write(figure, path / "theory-throughput.png")


def shares(path: Path, fast: bool) -> None:
    """Part of each client in the updates against its speed."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(7.0, 4.0), layout="constrained")
    fleet = LADDER
    ways = {
        "routed, uniform: every client alike": Plan.uniform(fleet, 12),
        "cap 1, 6 tasks for 24 clients": Plan.uniform(fleet, 6, cap=1),
        "cap 1, 12 tasks": Plan.uniform(fleet, 12, cap=1),
        "cap 1, 24 tasks: in proportion to speed": Plan.uniform(fleet, 24, cap=1),
    }
    for colour, (said, plan) in zip((COLOURS[1], COLOURS[3], COLOURS[2], COLOURS[0]), ways.items(), strict=True):
        axis.plot(fleet.rate, 100 * analyze(fleet, plan).share, color=colour, lw=1.4, label=said)
        trace = simulate(fleet, plan, 10_000 if fast else 100_000, seed=1, start="even")
        seen = np.bincount(trace.client[trace.applied], minlength=fleet.clients) / trace.applied.sum()
        axis.plot(fleet.rate, 100 * seen, "o", color=colour, ms=3)
    axis.set(xscale="log", yscale="log", xlabel="speed of the client", ylabel="its share of all updates (%)")
    axis.set_xticks([0.25, 0.5, 1, 2, 4, 8], ["1/4", "1/2", "1", "2", "4", "8"])
    axis.set_yticks([0.5, 1, 2, 5, 10], ["0.5", "1", "2", "5", "10"])
    axis.minorticks_off()
    axis.set_title("24 clients of 24 speeds. Lines: exact. Points: 100,000 simulated updates", fontsize=10)
    axis.legend(frameon=False)
    write(figure, path / "theory-shares.png")


def staleness(path: Path, fast: bool) -> None:
    """Mean staleness against the tasks in flight, and its distribution where nobody waits and nobody is idle."""
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.4, 4.2), layout="constrained")
    steps, replications = (20_000, 10) if fast else (100_000, 20)
    tasks = np.arange(5, 101, 5)
    for group, name in enumerate(MANY.name):
        for cap, dashes, mark in ((None, "--", "s"), (1, "-", "o")):
            exact = [analyze(MANY, Plan.uniform(MANY, int(many), cap=cap)).staleness()[group] for many in tasks]
            said = f"{name}, {'routed' if cap is None else 'cap 1'}"
            left.plot(tasks, exact, dashes, color=COLOURS[group], label=said)
            for many in (20, 60, 100):
                plan = Plan.uniform(MANY, many, cap=cap)
                start = "stationary" if plan.one_each else "even"
                seen = measure(MANY, plan, steps, replications=replications, seed=1, start=start, warmup=30_000)
                value, error = seen.staleness.value[group], 3 * seen.staleness.error[group]
                left.errorbar(many, value, error, fmt=mark, ms=4, color=COLOURS[group])
    left.plot(tasks, tasks - 1, color="black", lw=1.2, ls=":", label="mean over all updates: C - 1")
    left.set(yscale="log", xlabel="tasks in flight, C", ylabel="mean staleness in updates", ylim=(0.7, 3000))
    left.set_title("Means: exact, and simulated ± 3 standard errors", fontsize=10)
    left.legend(frameon=False, fontsize=8, ncols=2, loc="lower right")
    distribution(right, steps, replications)
    write(figure, path / "theory-staleness.png")


def distribution(axis: Any, steps: int, replications: int) -> None:
    """To the finisher, exponential service: each next update is of client i with probability mu_i / sum mu."""
    plan = Plan.uniform(MANY, 100, cap=1)
    total = float((MANY.count * MANY.rate).sum())
    for group, (name, width) in enumerate(zip(MANY.name, (20, 150), strict=True)):
        edges = np.arange(0, 21 * width, width)
        counts = []
        for seed in range(replications):
            trace = simulate(MANY, plan, steps, seed=seed, start="stationary")
            mine = trace.staleness[MANY.group_of_client[trace.client[trace.applied]] == group]
            counts.append(np.histogram(mine, edges)[0] / mine.size)
        quit_ = MANY.rate[group] / total
        exact = (1 - quit_) ** edges[:-1] - (1 - quit_) ** edges[1:]
        mean = total / MANY.rate[group] - 1
        middle = (edges[:-1] + edges[1:]) / 2 / mean
        scale = mean / width
        error = 3 * np.std(counts, axis=0, ddof=1) / np.sqrt(replications)
        colour = COLOURS[group]
        axis.plot(middle, exact * scale, color=colour, label=f"{name}: mean {mean:g}")
        axis.errorbar(middle, np.mean(counts, axis=0) * scale, error * scale, fmt="o", ms=3, color=colour)
    axis.set(xlabel="staleness / mean staleness of the group", ylabel="density", xlim=(0, 4), ylim=(0, None))
    axis.set_title("Distribution, cap 1, C = n = 100: geometric", fontsize=10)
    axis.legend(frameon=False)


def bounds(path: Path, fast: bool) -> None:
    """What the bound and the twin say of the tasks in flight, in a fixed time."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
    tasks = [2, 4, 7, 10, 14, 20, 30, 50, 70, 100]
    values = [in_time(Plan.uniform(MANY, many)) for many in tasks]
    axis.plot(tasks, np.array(values) / min(values), "s-", color=COLOURS[1], label="Theorem 1's bound, routed")
    ways = {"twin's loss, routed": (None, COLOURS[3]), "twin's loss, cap 1": (1, COLOURS[0])}
    policies = {
        said: [Policy(f"{said} {many}", replace(Plan.uniform(MANY, many, cap=cap), correction=0.5)) for many in tasks]
        for said, (cap, _) in ways.items()
    }
    found = predict(MANY, [one for every in policies.values() for one in every], TIME, traces=2 if fast else 8)
    loss = {one.policy.name: one.loss for one in found}
    least = min(loss.values())
    for said, (_, colour) in ways.items():
        axis.plot(tasks, [loss[f"{said} {many}"] / least for many in tasks], "o-", color=colour, label=said)
    axis.set(xscale="log", yscale="log", xlabel="tasks in flight, C", ylabel="times the least of its kind")
    axis.set_xticks(tasks, [str(many) for many in tasks])
    axis.set_yticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
    axis.minorticks_off()
    axis.set_title("The same time for every C, each at its best step size", fontsize=10)
    axis.legend(frameon=False)
    write(figure, path / "theory-bound.png")


def in_time(plan: Plan, time: float = TIME) -> float:
    """Theorem 1's bound after a time, at the step size that is best for it."""
    found = analyze(MANY, plan)
    weights = np.full(MANY.groups, 1 / MANY.clients)
    S1, S2 = sums(found.share, found.staleness("indicator"), weights, MANY.count)
    steps = found.throughput * time
    step = best_step(steps, plan.concurrency, S1, S2, WORKED_EXAMPLE)
    return bound(step, steps, plan.concurrency, S1, S2, WORKED_EXAMPLE)


def write(figure: Any, path: Path) -> None:
    """As PNG, the same bytes for the same figure."""
    with written(path, "picture") as partial:
        figure.savefig(partial, format="png", dpi=120, metadata={"Software": None})
    pyplot().close(figure)


DRAWN = (timeline, throughput, shares, staleness, bounds)


def main() -> None:
    """Draw them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    parser.add_argument("--fast", action="store_true", help="fewer simulated updates")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for one in DRAWN:
        one(given.out, given.fast)


if __name__ == "__main__":
    main()
