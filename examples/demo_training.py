"""Ten clients, half of them slow, learn to read digits: four algorithms in one virtual time, each at its best step.

Every client holds two of the ten classes. The step size of each algorithm is the best of seven by a validation set; the
table is about the test set, over three other seeds.
"""

import shutil
from pathlib import Path
from statistics import mean, stdev

from rich.console import Console
from rich.progress import track
from rich.table import Table

from sojourn import Fleet, goal, make_plan
from sojourn.experiments.training import train
from sojourn.learning.run.config import TrainConfig
from sojourn.learning.run.metrics import read_metrics
from sojourn.report.training_figures import curves

FLEET = Fleet.of(fast=(5, 8.0), slow=(5, 1.0))
TIME = 100.0
STEP_SIZES = (0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
TUNING_SEED = 11
SEEDS = (1, 2, 3)
ALGORITHMS = {
    "AsyncSGD": "asyncsgd",
    "Generalized AsyncSGD, planned": "generalized-asyncsgd",
    "FedBuff": "fedbuff(size=3)",
    "FedAvg": "fedavg",
}


def run(folder: Path, name: str, step_size: float, seed: int, tuning: bool) -> dict[str, float]:
    """Train one algorithm; returns the last row of its metrics."""
    planned = name.endswith("planned")
    config = TrainConfig(
        fleet=str(folder / "fleet.csv"),
        plan=str(folder / "plan.json") if planned else None,
        concurrency=None if planned else 5,
        algorithm=ALGORITHMS[name],
        data="digits(validation=0.2)" if tuning else "digits",
        partition="classes(k=2)",
        batch_size=16,
        step_size=step_size,
        time=TIME,
        seed=seed,
        evaluate_every=10**9 if tuning else 10,
    )
    return dict(train(config, where(folder, name, step_size, seed, tuning)).metrics)


def where(folder: Path, name: str, step_size: float, seed: int, tuning: bool) -> Path:
    """Folder of a run."""
    kind = "tuning" if tuning else "runs"
    return folder / kind / f"{name.replace(',', '').replace(' ', '-').lower()}-step-size-{step_size:g}-seed-{seed}"


def training(folder: Path, console: Console) -> list[Path]:
    """Tune, train, print the table, draw the picture."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    FLEET.save(folder / "fleet.csv")
    make_plan(FLEET, goal(time=TIME)).plan.save(folder / "plan.json")
    best: dict[str, float] = {}
    grid = [(name, step_size) for name in ALGORITHMS for step_size in STEP_SIZES]
    found = {}
    for name, step_size in track(grid, description="tuning", console=Console(stderr=True), transient=True):
        found[name, step_size] = run(folder, name, step_size, TUNING_SEED, True)["accuracy"]
    for name in ALGORITHMS:
        best[name] = max(STEP_SIZES, key=lambda step_size, name=name: found[name, step_size])
    last = {}
    jobs = [(name, seed) for name in ALGORITHMS for seed in SEEDS]
    for name, seed in track(jobs, description="training", console=Console(stderr=True), transient=True):
        last[name, seed] = run(folder, name, best[name], seed, False)
    console.print(table(best, last))
    runs = {name: read_metrics(where(folder, name, best[name], SEEDS[0], False)) for name in ALGORITHMS}
    title = f"digits, 10 clients, 2 classes each, time {TIME:g}, best of {len(STEP_SIZES)} step sizes, seed {SEEDS[0]}"
    return curves(runs, folder / "training", title)


def table(best: dict[str, float], last: dict[tuple[str, int], dict[str, float]]) -> Table:
    """One row an algorithm: means over the seeds."""
    title = f"digits in virtual time {TIME:g}: 5 clients at rate 8, 5 at rate 1, 2 classes each, {len(SEEDS)} seeds"
    grid = Table(title=title, title_justify="left", title_style="bold", show_edge=False)
    for head in ("algorithm", "step size", "updates", "model steps", "staleness", "accuracy", "worst client"):
        grid.add_column(head, justify="left" if head == "algorithm" else "right")
    for name in best:
        rows = [last[name, seed] for seed in SEEDS]
        numbers = [f"{mean(row[key] for row in rows):.4g}" for key in ("received", "version", "staleness")]
        shares = [
            f"{mean(v):.3f} ± {stdev(v):.3f}" for v in ([r[k] for r in rows] for k in ("accuracy", "client_worst"))
        ]
        grid.add_row(name, f"{best[name]:g}", *numbers, *shares)
    return grid
