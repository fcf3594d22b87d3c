"""Measure what the live page of simulated training costs, by the length of its trace.

A run of 1000 clients with 1000 tasks in flight has come half of the way; each look finds one more evaluation, 1000
updates later. Each length is measured in a process of its own, which says the CPU time of opening the page, of the
first look and of the later ones, and by how much its memory has grown at most. Nothing is served, and nothing trains
meanwhile.
"""

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

from sojourn import Fleet, Plan, scan, simulate_to_file, train
from sojourn.dashboards import watched_in
from sojourn.report.live_page.state import State

LENGTHS = (100_000, 1_000_000, 5_000_000)  # updates
LOOKS, BETWEEN = 40, 1000  # later looks, and updates between two of them
EVERY = 2.0  # seconds between two looks, as of all fleets of more than 200 clients
MOST = 0.02  # of a core
HEAD = (
    "| updates | open, ms | first look, ms | a later look, ms | share of a core | memory, MB | target |\n" + "|---" * 7
)


def row(updates: int) -> str:
    """Measure one length, and return its row."""
    with TemporaryDirectory(prefix="sojourn-bench-") as place:
        folder, times = _half_trained(Path(place), updates)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
            opened, first, later, memory = other.submit(_looks, folder, times).result()
    share = later / EVERY
    figures = " | ".join(f"{1e3 * one:.3g}" for one in (opened, first, later))
    verdict = f"at most {MOST:.0%}: {'met' if share <= MOST else 'missed'}"
    return f"| {updates:,} | {figures} | {share:.2%} | {memory:.0f} | {verdict} |"


def _half_trained(place: Path, updates: int) -> tuple[Path, list[float]]:
    """Make the folder of a run along a long trace, and return the times of its evaluations."""
    fleet, folder = Fleet.of(fast=(900, 8.0), slow=(100, 1.0)), place / "run"
    plan = Plan.uniform(fleet, 1000)
    fleet.save(place / "fleet.csv")
    plan.save(place / "plan.json")
    train(place / "fleet.csv", place / "plan.json", folder=folder, steps=20, progress=False, model="logistic")
    for name in ("trace.parquet", "summary.json"):
        (folder / name).unlink()
    simulate_to_file(fleet, plan, updates, folder / "trace.parquet", seed=1)
    ends = np.concatenate([piece.applied_at[piece.applied] for piece in scan(folder / "trace.parquet")])
    begin = updates // 2
    return folder, ends[begin : begin + (LOOKS + 1) * BETWEEN : BETWEEN].tolist()


def _looks(folder: Path, times: list[float]) -> tuple[float, float, float, float]:
    """Return the CPU seconds of opening, of the first look and of a later one, and the megabytes that they took."""
    head, first, *_ = (folder / "metrics.csv").read_text().splitlines()
    at = head.split(",").index("time")
    (folder / "metrics.csv").write_text(f"{head}\n")
    State(watched_in(folder))  # what it imports
    before, spent = _memory(), [time.process_time()]
    state = State(watched_in(folder))
    spent.append(time.process_time())
    taken = []
    for one in times:
        cells = first.split(",")
        cells[at] = str(one)
        with (folder / "metrics.csv").open("a") as file:
            file.write(",".join(cells) + "\n")
        began = time.process_time()
        state.look()
        taken.append(time.process_time() - began)
    return spent[1] - spent[0], taken[0], median(taken[1:]), _memory() - before


def _memory() -> float:
    """Return the most megabytes that this process has held (`ru_maxrss` would count those of who started it)."""
    said = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(said.split()[1]) / 1024


def main() -> None:
    print(HEAD)
    for updates in LENGTHS:
        print(row(updates), flush=True)


if __name__ == "__main__":
    main()
