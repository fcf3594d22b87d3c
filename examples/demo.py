"""Train a fleet's plan, AsyncSGD and FedBuff for comparison; then the paper's fleets and its worked example.

Run by `make demo`. Writes traces, runs, pictures and a report to --out.
"""

import argparse
import math
import time
from pathlib import Path

from demo_policy import FLEET as TRAINED
from demo_policy import plan_and_training
from rich.console import Console
from rich.progress import track

from sojourn import Fleet, Plan, Summary, Trace, analyze, goal, make_plan, measure, simulate_to_file
from sojourn.cli.show import number, say, table
from sojourn.planning.bound.advice import advice
from sojourn.planning.bound.comparison import compare
from sojourn.planning.bound.search import Planned
from sojourn.report.figures import staleness_histograms
from sojourn.report.page.write import parts_of, write_report
from sojourn.report.plan_figures import plan_pictures

STEPS = 1_000_000
CONCURRENCY = 1000
REPLICATIONS = 20
STARTS = ("even", "stationary")

# what the paper prints for a simulation of 1e6 steps: mean delays by cluster
FLEETS = {
    "two-clusters": (Fleet.of(fast=(5, 1.2), slow=(5, 1.0)), {"fast": "50 and 59", "slow": "1950 and 1938"}),
    "three-clusters": (
        Fleet.of(fast=(3, 10.0), medium=(3, 1.2), slow=(3, 1.0)),
        {"fast": "about 1", "medium": "55", "slow": "2935"},
    ),
}


EXAMPLE = Fleet.of(fast=(90, 8.0), slow=(10, 1.0))  # the paper's worked example
BUDGET = 1000.0


def show_plan(planned: Planned) -> None:
    """Print a table of the plan for the worked example and the usual ones."""
    rows = []
    for name, row in compare(planned).items():
        values = (row.value, row.scored.step_size, row.analysis.throughput, *row.analysis.staleness())
        rows.append([name, *(number(float(value), 4) for value in values)])
    heads = ["plan", "bound", "step size", "throughput", "staleness, fast", "staleness, slow"]
    table(f"90 clients at rate 8, 10 at rate 1: {planned.objective.name}", heads, rows)


def with_error(value: float, error: float) -> str:
    """Return a mean with its standard error, to two digits of the error."""
    digits = max(0, 1 - math.floor(math.log10(error))) if error > 0 else 6
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def show_fleet(name: str, summaries: dict[str, Summary]) -> None:
    """Print the staleness of every group of a fleet: the paper's, the exact one, and as simulated from every start."""
    fleet, paper = FLEETS[name]
    exact = analyze(fleet, Plan.uniform(fleet, CONCURRENCY))
    rows = []
    for g, group in enumerate(fleet.name):
        cells = [one.staleness for one in summaries.values()]
        simulated = [with_error(float(cell.value[g]), float(cell.error[g])) for cell in cells]
        rows.append([group, paper[group], f"{exact.staleness()[g]:.6g}", *simulated])
    flows = [one.throughput for one in summaries.values()]
    throughput = [with_error(float(flow.value), float(flow.error)) for flow in flows]
    told = "about 9" if name == "three-clusters" else "-"
    rows.append(["throughput", told, f"{exact.throughput:.6g}", *throughput])
    heads = ["group", "paper", "exact", *(f"simulated, {start} start" for start in summaries)]
    table(f"{name}: mean staleness in server steps", heads, rows)


def write_page(folder: Path) -> Path:
    """Write one page about the comparison, its plan and a trace of the paper's fleet."""
    fleet, _ = FLEETS["two-clusters"]
    parts = [
        *parts_of(folder / "policy" / "comparison"),
        *parts_of(folder / "policy" / "plan.json", TRAINED),
        *parts_of(folder / "two-clusters-even.parquet", fleet, Plan.uniform(fleet, CONCURRENCY)),
    ]
    write_report(parts, folder / "report.html", command="make demo")
    return folder / "report.html"


def main() -> None:
    """Simulate everything, print tables, write traces and pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="folder for traces and pictures")
    parser.add_argument("--steps", type=int, default=STEPS, help="server steps of each run")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    written = plan_and_training(arguments.out / "policy")
    work = [(name, start) for name in FLEETS for start in STARTS]
    summaries: dict[tuple[str, str], Summary] = {}
    for name, start in track(work, description="simulating", console=Console(stderr=True), transient=True):
        fleet, _ = FLEETS[name]
        plan = Plan.uniform(fleet, CONCURRENCY)
        summaries[name, start] = measure(fleet, plan, arguments.steps, start=start, replications=REPLICATIONS, seed=1)
        trace_path = arguments.out / f"{name}-{start}.parquet"
        simulate_to_file(fleet, plan, arguments.steps, trace_path, start=start, seed=1)
        written.append(trace_path)
    for name, (fleet, _) in FLEETS.items():
        exact = analyze(fleet, Plan.uniform(fleet, CONCURRENCY))
        show_fleet(name, {start: summaries[name, start] for start in STARTS})
        trace = Trace.load(arguments.out / f"{name}-even.parquet")
        title = f"{name}: {CONCURRENCY} tasks, {arguments.steps:,} steps from an even start"
        written += staleness_histograms(trace, fleet, arguments.out / name, title, exact.staleness())
    spread = float(summaries["two-clusters", "even"].staleness.error[0]) * REPLICATIONS**0.5
    say(
        f"{REPLICATIONS} replications of {arguments.steps:,} steps each; ± is one standard error of their mean. The "
        "paper shows one simulation per fleet and does not state its start. One run from an even start scatters by "
        f"± {spread:.2g} around the fast clients' mean: its 59 is a rare draw."
    )
    say("")
    planned = make_plan(EXAMPLE, goal(time=BUDGET))
    show_plan(planned)
    say(advice(planned, compare(planned))[0] + ".")
    say("")
    written += plan_pictures(planned, arguments.out)
    planned.plan.save(arguments.out / "plan.json")
    written.append(arguments.out / "plan.json")
    page = write_page(arguments.out)
    say(
        f"Wrote {len(written)} files, and a folder for each training run, to {arguments.out} "
        f"in {time.perf_counter() - began:.0f} s."
    )
    say(f"Open {page} in a browser: one page that explains them.")


if __name__ == "__main__":
    main()
