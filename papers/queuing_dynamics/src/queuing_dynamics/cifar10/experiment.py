"""CIFAR-10: FedBuff, AsyncSGD and Generalized AsyncSGD with ResNet20; what the paper leaves open is searched.

The full size was trained on a GPU; its ledgers are kept with this package, and tables and pictures are made from them.
With `fast`, everything is trained on digits with ten clients, which tests the code and not the paper: nothing is
judged.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from queuing_dynamics.cifar10.claims import (
    PAIRS,
    TITLES,
    levels_of,
    of_the_rates,
    of_the_readings,
    of_the_tasks,
    of_users,
    orders,
    sizes,
)
from queuing_dynamics.cifar10.compared import Runs, differences, levels, worst_clients
from queuing_dynamics.cifar10.favourable import by_tasks
from queuing_dynamics.cifar10.settled import ENDS, THREE, Standing, nearest, refined, settled
from queuing_dynamics.cifar10.size import FAST, FULL, Size
from queuing_dynamics.cifar10.stages import TRAINING, cells_of, chosen, ledger_of
from queuing_dynamics.tuned import accuracy, reached, worth_of
from sojourn.csv_file import write_csv
from sojourn.experiments.statistics import curves, standing
from sojourn.report.reproduction.claim import Claim
from sojourn.report.reproduction.experiment import Experiment, Watch

KEPT = Path(__file__).parents[1] / "results" / "cifar10"
BASELINE = "asyncsgd"


def run(folder: Path, fast: bool, watch: Watch) -> list[Claim]:
    """Make tables, pictures and claims, from kept results or from a small training."""
    with TemporaryDirectory(prefix=".runs-", dir=folder) as work:
        if not fast:
            return Made(FULL, Path(work), KEPT, folder).claims()
        TRAINING.train(FAST, Path(work), folder / "results", watch)
        claims = Made(FAST, Path(work), folder / "results", folder).claims()
    return [replace(one, paper="-", verdict="not stated", rule="small, on digits: nothing is judged") for one in claims]


class Made:
    """Makes everything from the ledgers of a size."""

    def __init__(self, size: Size, work: Path, results: Path, folder: Path) -> None:
        TRAINING.check(size, work, results)
        self.size, self.work, self.results, self.folder = size, work, results, folder
        self.search = ledger_of("search", results)
        self.settled = settled(size, work, self.search)

    def claims(self) -> list[Claim]:
        """Return all claims, and write the files."""
        every = nearest(self.size, self.work, self.search)
        write_csv(self.folder / "readings.csv", self._readings(every))
        write_csv(self.folder / "rates.csv", self._trials())
        table, rates = self._table("table", "the paper's methods under the settled reading", "received")
        in_time, _ = self._table("in-time", "the same at rates chosen for a time", "time")
        made = [*orders(table, "received"), *orders(in_time, "time"), *orders(table, "version"), *sizes(table)]
        made += levels_of(self.size, table, rates, self.settled)
        return [*made, *self._users(), *self._rates(), *of_the_readings(self.size, every)]

    def _table(self, stage: str, title: str, axis: str) -> tuple[Runs, dict[str, float]]:
        """Return the runs of a table and the step sizes of its methods, and write its files, with
        levels by this axis.
        """
        size, runs = self.size, self._runs(stage)
        rates = {method: one.rate for method, (_, one) in chosen(stage, size, self.work, self.search).items()}
        pairs = PAIRS if set(THREE) == set(runs) else [(later, one) for one, later in combinations(runs, 2)]
        write_csv(self.folder / f"{stage}.csv", standing(runs, BASELINE))
        write_csv(self.folder / f"{stage}-levels.csv", levels(runs, rates, axis))
        write_csv(self.folder / f"{stage}-differences.csv", differences(runs, pairs))
        write_csv(self.folder / f"{stage}-worst-clients.csv", worst_clients(runs))
        from sojourn.report.training_figures import comparison_picture

        named = {TITLES[method]: mine for method, mine in runs.items()}
        seeds = min(len(mine) for mine in runs.values())
        title = f"{size.data}: {title}, mean of {seeds} seeds"
        comparison_picture(list(curves(named)), "accuracy", self.folder / stage, title)
        return runs, rates

    def _runs(self, stage: str) -> Runs:
        cells = cells_of(stage, self.size, self.work, self.results)
        return ledger_of(stage, self.results).by_method(cells)

    def _users(self) -> list[Claim]:
        """Return claims on each method at its best in the same simulated time."""
        runs, rates = self._table("favourable", f"each method at its best in virtual time {self.size.time:g}", "time")
        tuned = chosen("favourable", self.size, self.work, self.search)
        said = {method: f"{one.tasks(self.size)} tasks, rate {rates[method]:g}" for method, (one, _) in tuned.items()}
        held_out = of_the_tasks(by_tasks(self.size, self.work, self.search))
        return [*of_users(self.size, runs, said, rates), *held_out]

    def _rates(self) -> list[Claim]:
        made = refined(self.size, self.work, self.settled, self.search)
        worth = partial(accuracy, most=self.settled.reading.most(self.size))
        return of_the_rates({one: reached(made.cells, one, self.search, worth) for one in THREE}, made.best)

    def _readings(self, every: Sequence[Standing]) -> Iterator[dict[str, Any]]:
        for one in every:
            row: dict[str, Any] = {"reading": one.reading.name(self.size), "fedbuff_read": ENDS[one.end]}
            for method, best in one.best.items():
                row |= {method: best.accuracy, f"{method}_rate": best.rate, f"{method}_edge": best.edge}
            yield {**row, "distance": one.distance}

    def _trials(self) -> Iterator[dict[str, Any]]:
        """Yield every run of the search: all step sizes of all readings, as in the ledger."""
        for cell, row in self.search.runs.items():
            marks = {key: row[key] for key in ("reading", "method", "rate", "seed", "state", "received")}
            yield {**marks, "accuracy": worth_of(cell, self.search, accuracy)}


EXPERIMENT = Experiment(
    "cifar10", "FedBuff, AsyncSGD and Generalized AsyncSGD with ResNet20", "table and figure of section 5", run
)
