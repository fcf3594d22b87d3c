"""The paper's questions with a cap on what a client may hold: each is answered exactly and by simulation, with a
picture.

    python examples/nobody_waits.py --out docs/results/nobody-waits       # a few minutes on two cores
    python examples/nobody_waits.py --out /tmp/quick --fast

Writes one CSV per question and the pictures; docs/nobody-waits.md shows and explains them.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from sojourn import Fleet, Law, Plan, analyze, measure, simulate
from sojourn.constants import WORKED_EXAMPLE
from sojourn.csv_file import write_csv
from sojourn.planning.bound.theorem import best_step, bound, largest_step, sums
from sojourn.report.figures import COLOURS, pyplot, save

WORKED = Fleet.of(fast=(90, 8.0), slow=(10, 1.0))
TWO = Fleet.of(fast=(50, 1.2), slow=(50, 1.0))
THREE = Fleet.of(fast=(30, 10.0), medium=(30, 1.2), slow=(30, 1.0))
CAPS = (None, 3, 2, 1)
LAWS = ("exponential", "deterministic", "lognormal(sigma=1)", "hyperexponential(scv=4)", "empirical(0.2 0.4 0.6 2.8)")


@dataclass(frozen=True)
class Size:
    """How much to simulate."""

    steps: int
    replications: int


FULL, FAST = Size(200_000, 20), Size(4_000, 4)


def name(cap: int | None) -> str:
    """Return a cap in words."""
    return "none (tasks queue)" if cap is None else str(cap)


def tasks_of(fleet: Fleet, cap: int | None, share: float) -> int:
    """Return the number of tasks for this share per client, as far as the cap allows."""
    most = fleet.clients * (cap or 10)
    return max(1, min(most, round(share * fleet.clients)))


def exact_and_simulated(fleet: Fleet, plan: Plan, size: Size, **facts: Any) -> Iterator[dict[str, Any]]:
    """Yield a row per group: theory, simulation, and their difference in standard errors."""
    exact = analyze(fleet, plan)
    settled = int(20 * exact.staleness().max())  # steps after which an even start is forgotten
    start = (
        "stationary" if plan.one_each else "even"
    )  # clients with regular services that start together stay in step for ever
    seen = measure(fleet, plan, size.steps, replications=size.replications, seed=1, start=start, warmup=settled)
    flow = float(seen.throughput.value), float(seen.throughput.error)
    stale = exact.staleness()
    for g, group in enumerate(fleet.name):
        value, error = float(seen.staleness.value[g]), float(seen.staleness.error[g])
        yield {
            **facts,
            "group": group,
            "tasks": plan.concurrency,
            "throughput": exact.throughput,
            "throughput_simulated": flow[0],
            "throughput_error": flow[1],
            "throughput_z": (flow[0] - exact.throughput) / flow[1],
            "share": exact.share[g],
            "busy": exact.utilisation[g],
            "waiting": exact.waiting[g],
            "staleness": stale[g],
            "staleness_simulated": value,
            "staleness_error": error,
            "staleness_z": (value - stale[g]) / error,
        }


def fleets(size: Size) -> list[dict[str, Any]]:
    """The worked example, two and three clusters, one task per client and half of that."""
    rows: list[dict[str, Any]] = []
    cases = [("worked example", WORKED), ("two clusters", TWO), ("three clusters", THREE)]
    for title, fleet in track(cases, "fleets", transient=True):
        for share in (0.5, 1.0):
            for cap in CAPS:
                plan = Plan.uniform(fleet, tasks_of(fleet, cap, share), cap=cap)
                rows += exact_and_simulated(fleet, plan, size, world=title, cap=name(cap))
    return rows


def against_tasks(size: Size) -> list[dict[str, Any]]:
    """Throughput and staleness of the worked example against the tasks in flight."""
    rows: list[dict[str, Any]] = []
    shares = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0, 1.5, 2.0, 2.5, 3.0)
    for share in track(shares, "tasks in flight", transient=True):
        for cap in CAPS:
            if cap is None or share <= cap:
                plan = Plan.uniform(WORKED, tasks_of(WORKED, cap, share), cap=cap)
                rows += exact_and_simulated(WORKED, plan, size, cap=name(cap))
    return rows


def laws(size: Size) -> list[dict[str, Any]]:
    """Compare service laws under a cap of 1, where the means must not change, and of 2, where they do."""
    rows: list[dict[str, Any]] = []
    links = replace(WORKED, uplink_rate=np.array([20.0, 5.0]), downlink_rate=np.array([40.0, 10.0]))
    for title, fleet in track([("no links", WORKED), ("links", links)], "laws", transient=True):
        for law in LAWS:
            served = replace(fleet, law=(Law.parse(law),) * fleet.groups)
            for cap in (1, 2):
                plan = Plan.uniform(served, 50, cap=cap)
                rows += exact_and_simulated(served, plan, size, links=title, law=law, cap=cap)
    return rows


def theorem(horizon: float = 1000.0) -> list[dict[str, Any]]:
    """Evaluate Theorem 1 with shares in place of p; this is outside its proof, because who is drawn depends on the
    past.
    """
    rows = []
    for cap in CAPS:
        for tasks in (14, 50, 100):
            plan = Plan.uniform(WORKED, tasks, cap=cap)
            found = analyze(WORKED, plan)
            weights = np.full(2, 1 / WORKED.clients)
            S1, S2 = sums(found.share, found.staleness("indicator"), weights, WORKED.count)
            steps = found.throughput * horizon
            step = min(best_step(steps, tasks, S1, S2, WORKED_EXAMPLE), largest_step(tasks, S1, S2, WORKED_EXAMPLE))
            value = bound(step, steps, tasks, S1, S2, WORKED_EXAMPLE)
            row = {"cap": name(cap), "tasks": tasks, "throughput": found.throughput, "S1": S1, "S2": S2}
            rows.append({**row, "step_size": step, "formula": value, "proven": cap is None})
    return rows


def histograms(out: Path, size: Size) -> None:
    """Delays of fast and slow clients, in updates, where tasks queue and where nobody waits."""
    plt = pyplot()
    figure, axes = plt.subplots(2, 2, figsize=(9.0, 6.0), layout="constrained")
    for row, cap in zip(axes, (None, 1), strict=True):
        plan = Plan.uniform(WORKED, 50, cap=cap)
        trace = simulate(WORKED, plan, size.steps, seed=2, start="even")
        group = WORKED.group_of_client[trace.client[trace.applied]]
        exact = analyze(WORKED, plan).staleness()
        for g, axis in enumerate(row):
            values = trace.staleness[group == g]
            axis.hist(values, bins=60, range=(0, float(np.quantile(values, 0.995)) + 1), color=COLOURS[g], alpha=0.8)
            axis.axvline(exact[g], color="black", lw=1.2, label=f"exact mean {exact[g]:.4g}")
            axis.set(xlabel="staleness in updates", ylabel="updates", title=f"{WORKED.name[g]}, cap {name(cap)}")
            axis.legend(frameon=False, fontsize=8)
    figure.suptitle("90 clients at rate 8, 10 at rate 1, 50 tasks in flight", fontsize=11)
    save(figure, out / "histograms")


def curves(rows: list[dict[str, Any]], out: Path) -> None:
    """Throughput, and staleness of slow clients, against the tasks in flight: exact lines, simulated points."""
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 4.0), layout="constrained")
    for index, cap in enumerate(CAPS):
        mine = [row for row in rows if row["cap"] == name(cap) and row["group"] == "slow"]
        at = [row["tasks"] for row in mine]
        for axis, key in ((left, "throughput"), (right, "staleness")):
            axis.plot(at, [row[key] for row in mine], color=COLOURS[index], label=f"cap {name(cap)}")
            points = [row[f"{key}_simulated"] for row in mine]
            axis.plot(at, points, "o", color=COLOURS[index], ms=4, mfc="none")
    left.set(xlabel="tasks in flight", ylabel="updates per unit of time", ylim=(0, None))
    right.set(xlabel="tasks in flight", ylabel="staleness of slow clients (updates)", yscale="log")
    left.legend(frameon=False, fontsize=9)
    figure.suptitle("90 clients at rate 8, 10 at rate 1: exact lines, simulated points", fontsize=11)
    save(figure, out / "against-tasks")


def bars(rows: list[dict[str, Any]], out: Path) -> None:
    """Throughput of the three fleets by cap, one task per client."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(10.0, 3.4), layout="constrained")
    for axis, title in zip(axes, dict.fromkeys(row["world"] for row in rows), strict=True):
        mine = [row for row in rows if row["world"] == title and row["group"] == "slow"]
        most = max(row["tasks"] for row in mine)
        full = [row for row in mine if row["tasks"] == most]
        axis.bar([row["cap"] for row in full], [row["throughput"] for row in full], color=COLOURS[: len(full)])
        axis.set(title=f"{title}, {most} tasks", ylabel="updates per unit of time", xlabel="cap")
        axis.tick_params(axis="x", labelsize=8)
    save(figure, out / "fleets")


def off(rows: list[dict[str, Any]], out: Path) -> None:
    """Draw how far the service law moves the throughput from the exact one, under a cap of 1 and of 2."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(8.0, 3.6), layout="constrained")
    mine = [row for row in rows if row["links"] == "no links" and row["group"] == "fast"]
    for index, cap in enumerate((1, 2)):
        own = [row for row in mine if row["cap"] == cap]
        at = np.arange(len(own)) + 0.35 * index
        ratio = [100 * (row["throughput_simulated"] / row["throughput"] - 1) for row in own]
        error = [100 * 2 * row["throughput_error"] / row["throughput"] for row in own]
        axis.bar(at, ratio, 0.33, yerr=error, color=COLOURS[index], label=f"cap {cap}")
    axis.axhline(0, color="black", lw=0.8)
    axis.set_xticks(np.arange(len(LAWS)) + 0.17, [law.partition("(")[0] for law in LAWS])
    axis.set_ylabel("throughput simulated, % off the exact one")
    axis.legend(frameon=False)
    save(figure, out / "laws")


def main() -> None:
    """Answer every question, and write its table and its picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("nobody-waits"))
    parser.add_argument("--fast", action="store_true", help="run short simulations, to check that it works")
    arguments = parser.parse_args()
    size = FAST if arguments.fast else FULL
    arguments.out.mkdir(parents=True, exist_ok=True)
    tables = {"fleets": fleets(size), "against-tasks": against_tasks(size), "laws": laws(size), "theorem": theorem()}
    for title, rows in tables.items():
        write_csv(arguments.out / f"{title}.csv", rows)
    bars(tables["fleets"], arguments.out)
    curves(tables["against-tasks"], arguments.out)
    off(tables["laws"], arguments.out)
    histograms(arguments.out, size)
    farthest = max((abs(row["throughput_z"]) for row in tables["fleets"] + tables["against-tasks"]), default=0.0)
    print(f"wrote {arguments.out}; the largest difference of a throughput is {farthest:.1f} standard errors")


if __name__ == "__main__":
    main()
