"""CIFAR-10: FedBuff, AsyncSGD and Generalized AsyncSGD with ResNet20; what the paper left open is searched for.

The full size was trained on a GPU; its ledgers are kept with this package, and tables and pictures are made from them.
Fast, all of it is trained on digits with ten clients, which tests the way and not the paper: nothing is judged.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sojourn.csv_file import write_csv
from sojourn.paper.cifar10.favourable import favourable
from sojourn.paper.cifar10.settled import ENDS, Standing, nearest, settled
from sojourn.paper.cifar10.size import FAST, FULL, Size
from sojourn.paper.cifar10.stages import TRAINING, cells_of, ledger_of, settled_rates
from sojourn.paper.cifar10.verdicts import (
    TITLES,
    Runs,
    differences,
    levels,
    of_the_readings,
    of_the_table,
    of_users,
)
from sojourn.paper.claim import Claim
from sojourn.paper.experiment import Experiment, Watch
from sojourn.sweep.standing import curves, standing

KEPT = Path(__file__).parents[1] / "results" / "cifar10"
BASELINE = "asyncsgd"


def run(folder: Path, fast: bool, watch: Watch) -> list[Claim]:
    """Tables, pictures and claims, from kept results or from a small training."""
    with TemporaryDirectory(prefix="sojourn-") as work:
        if not fast:
            return made(FULL, Path(work), KEPT, folder)
        TRAINING.train(FAST, Path(work), folder / "results", watch)
        claims = made(FAST, Path(work), folder / "results", folder)
    return [replace(one, paper="-", verdict="not stated", rule="small, on digits: nothing is judged") for one in claims]


def made(size: Size, work: Path, results: Path, folder: Path) -> list[Claim]:
    """All that is made from the ledgers of a size."""
    search = ledger_of("search", results)
    found, every = settled(size, work, search), nearest(size, work, search)
    rates = {method: one.rate for method, (_, one) in settled_rates(size, work, search).items()}
    table = ledger_of("table", results).by_method(cells_of("table", size, work, results))
    write_csv(folder / "readings.csv", _readings(size, every))
    write_csv(folder / "differences.csv", differences(table))
    _write(folder, "table", table, rates)
    _draw(table, folder / "table", f"{size.data}: the paper's methods under the settled reading", size)
    return [
        *of_the_table(size, table, found, rates),
        *_users(size, work, results, folder),
        *of_the_readings(size, every),
    ]


def _users(size: Size, work: Path, results: Path, folder: Path) -> list[Claim]:
    """Each method at its best, where that has been trained."""
    if not TRAINING.whole("trials", size, work, results) or not TRAINING.whole("favourable", size, work, results):
        return []
    best = ledger_of("favourable", results).by_method(cells_of("favourable", size, work, results))
    tuned = favourable(size, work, ledger_of("search", results))
    _write(folder, "favourable", best, {method: one.rate for method, (_, one) in tuned.items()})
    _draw(best, folder / "favourable", f"{size.data}: each method at its best", size)
    settings = {method: f"{reading.tasks(size)} tasks, rate {one.rate:g}" for method, (reading, one) in tuned.items()}
    return of_users(size, best, settings)


def _write(folder: Path, name: str, runs: Runs, rates: Mapping[str, float]) -> None:
    write_csv(folder / f"{name}.csv", standing(runs, BASELINE))
    write_csv(folder / f"{name}-levels.csv", levels(runs, rates))


def _readings(size: Size, every: list[Standing]) -> list[dict[str, Any]]:
    rows = []
    for one in every:
        row: dict[str, Any] = {"reading": one.reading.name(size), "fedbuff_read": ENDS[one.buffered]}
        for method, best in one.best.items():
            row |= {method: best.accuracy, f"{method}_rate": best.rate, f"{method}_edge": best.edge}
        rows.append({**row, "distance": one.distance})
    return rows


def _draw(runs: Runs, path: Path, title: str, size: Size) -> None:
    from sojourn.report.comparison_figures import comparison_picture

    named = {TITLES.get(method, method): mine for method, mine in runs.items()}
    comparison_picture(list(curves(named)), "accuracy", path, f"{title}, mean of {size.final_seeds} seeds")


EXPERIMENT = Experiment(
    "cifar10", "FedBuff, AsyncSGD and Generalized AsyncSGD with ResNet20", "table and figure of section 5", run
)
