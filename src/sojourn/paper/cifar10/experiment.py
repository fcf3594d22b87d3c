"""CIFAR-10: FedBuff, AsyncSGD and Generalized AsyncSGD with ResNet20; what the paper left open is searched for.

The full size was trained on a GPU; its ledgers are kept with this package, and tables and picture are made from them.
Fast, all of it is trained on digits with ten clients, which tests the way and not the paper.
"""

from collections.abc import Mapping
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sojourn.paper.cifar10.favourable import favourable
from sojourn.paper.cifar10.readings import PAPER
from sojourn.paper.cifar10.search import LAST, accuracy
from sojourn.paper.cifar10.settled import ENDS, Standing, nearest, settled
from sojourn.paper.cifar10.size import FAST, FULL, Size
from sojourn.paper.cifar10.stages import STAGES, cells_of, ledger_of
from sojourn.paper.claim import Claim, claim
from sojourn.paper.experiment import Experiment, Watch
from sojourn.paper.ledger import Ledger, Marked, train
from sojourn.sweep.found import Found, write_csv
from sojourn.sweep.interval import Interval, interval
from sojourn.sweep.standing import curves, standing

KEPT = Path(__file__).parents[1] / "results" / "cifar10"
BASELINE = "asyncsgd"
AXES = {"received": "update", "time": "unit of time", "version": "server step", "gradients": "gradient"}
TARGET = 66.0

Runs = dict[str, dict[int, Found]]


def run(folder: Path, fast: bool, watch: Watch) -> list[Claim]:
    """Tables, picture and claims, from kept results or from a small training."""
    size, results = (FAST, folder / "results") if fast else (FULL, KEPT)
    with TemporaryDirectory(prefix="sojourn-") as work:
        if fast:
            _train(size, Path(work), results, watch)
        search = ledger_of("search", results)
        chosen = settled(size, Path(work), search)
        table = _runs(cells_of("table", size, Path(work), results), ledger_of("table", results))
        best = _runs(cells_of("favourable", size, Path(work), results), ledger_of("favourable", results))
        write_csv(folder / "readings.csv", _readings(size, nearest(size, Path(work), search)))
        tuned = favourable(size, Path(work), search)
    for name, runs in (("table", table), ("favourable", best)):
        write_csv(folder / f"{name}.csv", standing(runs, BASELINE))
        _draw(runs, folder / name, size, name)
    settings = {method: f"{reading.tasks(size)} tasks, rate {one.rate:g}" for method, (reading, one) in tuned.items()}
    return [*_of_the_table(size, chosen, table), *_of_users(size, best, settings)]


def _train(size: Size, work: Path, results: Path, watch: Watch) -> None:
    for stage in STAGES:
        while True:
            ledger, cells = ledger_of(stage, results), cells_of(stage, size, work, results)
            if not ledger.missing(cells):
                break
            train(cells, ledger, work / stage, watch=lambda done, many, _, stage=stage: watch(stage, done, many))  # type: ignore[misc]


def _runs(cells: list[Marked], ledger: Ledger) -> Runs:
    found: Runs = {}
    for marks, cell in cells:
        one = ledger.found(cell)
        if one is not None:
            found.setdefault(str(marks["method"]), {})[int(marks["seed"])] = one
    return found


def _readings(size: Size, every: list[Standing]) -> list[dict[str, Any]]:
    rows = []
    for one in every:
        row: dict[str, Any] = {"reading": one.reading.name(size), "fedbuff_read": ENDS[one.buffered]}
        for method, best in one.best.items():
            row |= {method: best.accuracy, f"{method}_rate": best.rate, f"{method}_edge": best.edge}
        rows.append({**row, "distance": one.distance})
    return rows


def _draw(runs: Runs, path: Path, size: Size, name: str) -> None:
    from sojourn.report.comparison_figures import comparison_picture

    titles = {"table": "the paper's three methods under the settled reading", "favourable": "each method at its best"}
    seeds = max(len(mine) for mine in runs.values())
    comparison_picture(list(curves(runs)), "accuracy", path, f"{size.data}: {titles[name]}, mean of {seeds} seeds")


def ends(runs: Mapping[int, Found]) -> dict[int, float]:
    """Accuracy of each run over the last part of the way, in percent; nothing of one that diverged."""
    return {seed: float("nan") if one.diverged else 100 * accuracy(one.rows) for seed, one in runs.items()}


def _of_the_table(size: Size, chosen: Standing, table: Runs) -> list[Claim]:
    made = [_level(size, chosen, table, one.name, one.paper, one.spread) for one in PAPER]
    best = interval(ends(table["generalized"]).values())
    made.append(
        claim(
            "Generalized AsyncSGD under the settled reading",
            "66.61%",
            f"{best.mean:.1f}%",
            error=f"{_error(best, len(table['generalized'])):.1f}",
            holds=[best.mean >= TARGET],
            rule=f"at least {TARGET:g}%",
            note=f"settled: {chosen.reading.name(size)}, FedBuff {ENDS[chosen.buffered]}; {_sizes(size)}",
        )
    )
    rows = {(row["method"], row["axis"]): row for row in standing(table, BASELINE)}
    for axis, word in AXES.items():
        made.append(_order(rows["generalized", axis], "Generalized AsyncSGD above AsyncSGD", word, 1))
        made.append(_order(rows["fedbuff", axis], "AsyncSGD above FedBuff", word, -1))
    return made


def _level(size: Size, chosen: Standing, table: Runs, method: str, paper: float, spread: float) -> Claim:
    found = interval(ends(table[method]).values())
    error = _error(found, len(table[method]))
    both = sqrt(error**2 + (spread**2 / 10))
    return claim(
        f"test accuracy of {method}",
        f"{paper:.2f} ± {spread:.2f}%",
        f"{found.mean:.1f}%",
        error=f"{error:.1f}",
        holds=[abs(found.mean - paper) <= 2 * both],
        rule="the two means within two standard errors of their difference",
        note=f"rate {chosen.best[method].rate:g}; 95% interval {found.low:.1f} to {found.high:.1f}; "
        f"mean over the last {LAST:.0%} of the way",
    )


def _order(row: Mapping[str, Any], statement: str, word: str, sign: int) -> Claim:
    """An order is confirmed, refuted, or too close to call."""
    low, high = sorted(100 * sign * float(row[f"difference_{end}"]) for end in ("low", "high"))
    difference = 100 * sign * float(row["difference"])
    return claim(
        f"{statement}, per {word}",
        {"Generalized AsyncSGD above AsyncSGD": "+7.5", "AsyncSGD above FedBuff": "+9.2"}[statement],
        f"{difference:+.1f}",
        error=f"95% interval {low:+.1f} to {high:+.1f}",
        holds=[high > 0, low > 0],
        rule="agrees: the interval of the paired difference lies above zero; partly: it holds zero, too close to call",
        note=f"both read at {float(row['at']):.4g}",
    )


def _of_users(size: Size, best: Runs, settings: Mapping[str, str]) -> list[Claim]:
    base = ends(best[BASELINE])
    made = []
    for method, runs in best.items():
        mine = ends(runs)
        found = interval(mine.values())
        apart = interval(mine[seed] - base[seed] for seed in mine if seed in base)
        said = (
            "" if method == BASELINE else f"; less AsyncSGD's {apart.mean:+.1f} ({apart.low:+.1f} to {apart.high:+.1f})"
        )
        made.append(
            claim(
                f"{method} at its best, to virtual time {size.time:g}",
                "-",
                f"{found.mean:.1f}%",
                error=f"{_error(found, len(mine)):.1f}",
                note=settings[method] + said,
            )
        )
    return made


def _error(found: Interval, many: int) -> float:
    """Standard error behind a 95% interval."""
    from scipy.special import stdtrit

    return found.half / float(stdtrit(max(1, many - 1), 0.975))


def _sizes(size: Size) -> str:
    return f"{size.data}, {size.model}, {size.clients} clients, {size.final_seeds} seeds"


EXPERIMENT = Experiment(
    "cifar10", "FedBuff, AsyncSGD and Generalized AsyncSGD with ResNet20", "table and figure of section 5", run
)
