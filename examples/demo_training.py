"""Ten clients, half of them slow, learn to read digits: four methods in the same virtual time, each at its best rate.

Every client holds two of the ten classes. The rate of each method is the best of seven by a validation set; the
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
from sojourn.learning.run.read_metrics import read_metrics
from sojourn.report.training_figures import curves

FLEET = Fleet.of(fast=(5, 8.0), slow=(5, 1.0))
TIME = 100.0
RATES = (0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
TUNING_SEED = 11
SEEDS = (1, 2, 3)
METHODS = {
    "AsyncSGD": "asyncsgd",
    "Generalized AsyncSGD, planned": "generalized-asyncsgd",
    "FedBuff": "fedbuff(size=3)",
    "FedAvg": "fedavg",
}


def run(folder: Path, name: str, rate: float, seed: int, tuning: bool) -> dict[str, float]:
    """Train one method; returns the last row of its metrics."""
    planned = name.endswith("planned")
    config = TrainConfig(
        fleet=str(folder / "fleet.csv"),
        plan=str(folder / "plan.json") if planned else None,
        concurrency=None if planned else 5,
        algorithm=METHODS[name],
        data="digits(validation=0.2)" if tuning else "digits",
        partition="classes(k=2)",
        batch_size=16,
        rate=rate,
        time=TIME,
        seed=seed,
        evaluate_every=10**9 if tuning else 10,
    )
    return dict(train(config, where(folder, name, rate, seed, tuning)).metrics)


def where(folder: Path, name: str, rate: float, seed: int, tuning: bool) -> Path:
    """Folder of a run."""
    kind = "tuning" if tuning else "runs"
    return folder / kind / f"{name.replace(',', '').replace(' ', '-').lower()}-rate-{rate:g}-seed-{seed}"


def training(folder: Path, console: Console) -> list[Path]:
    """Tune, train, print the table, draw the picture."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    FLEET.save(folder / "fleet.csv")
    make_plan(FLEET, goal(time=TIME)).plan.save(folder / "plan.json")
    best: dict[str, float] = {}
    grid = [(name, rate) for name in METHODS for rate in RATES]
    found = {}
    for name, rate in track(grid, description="tuning", console=Console(stderr=True), transient=True):
        found[name, rate] = run(folder, name, rate, TUNING_SEED, True)["accuracy"]
    for name in METHODS:
        best[name] = max(RATES, key=lambda rate, name=name: found[name, rate])
    last = {}
    jobs = [(name, seed) for name in METHODS for seed in SEEDS]
    for name, seed in track(jobs, description="training", console=Console(stderr=True), transient=True):
        last[name, seed] = run(folder, name, best[name], seed, False)
    console.print(table(best, last))
    runs = {name: read_metrics(where(folder, name, best[name], SEEDS[0], False)) for name in METHODS}
    title = (
        f"digits, 10 clients with 2 classes each, virtual time {TIME:g}, best of {len(RATES)} rates, seed {SEEDS[0]}"
    )
    return curves(runs, folder / "training", title)


def table(best: dict[str, float], last: dict[tuple[str, int], dict[str, float]]) -> Table:
    """One row a method: means over the seeds."""
    title = f"digits in virtual time {TIME:g}: 5 clients at rate 8, 5 at rate 1, 2 classes each, {len(SEEDS)} seeds"
    grid = Table(title=title, title_justify="left", title_style="bold", show_edge=False)
    for head in ("method", "rate", "updates", "model steps", "staleness", "accuracy", "worst client"):
        grid.add_column(head, justify="left" if head == "method" else "right")
    for name in best:
        rows = [last[name, seed] for seed in SEEDS]
        numbers = [f"{mean(row[key] for row in rows):.4g}" for key in ("received", "version", "staleness")]
        shares = [
            f"{mean(v):.3f} ± {stdev(v):.3f}" for v in ([r[k] for r in rows] for k in ("accuracy", "client_worst"))
        ]
        grid.add_row(name, f"{best[name]:g}", *numbers, *shares)
    return grid
