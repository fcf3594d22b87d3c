"""TinyImageNet: FedAvg, FedBuff, FAVANO, AsyncSGD and Generalized AsyncSGD with ResNet18, over the same time.

The paper shows curves and prints no numbers, and leaves open most of what was run, so there is nothing to agree with.
The full size is trained on a GPU; its ledgers are kept with this package, and tables and picture are made from them.
With `fast`, everything is trained on digits with ten clients, which tests the code and not the paper.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import nan, sqrt
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from queuing_dynamics.ledger import Ledger
from queuing_dynamics.tinyimagenet.methods import LOCAL, METHODS, TITLES
from queuing_dynamics.tinyimagenet.size import FAST, FULL, Size
from queuing_dynamics.tinyimagenet.stages import TRAINING, Tuned, cells_of, ledger_of, trials, tuned
from queuing_dynamics.tuned import EDGES, LAST, accuracy_in_time, worth_of
from sojourn.csv_file import write_csv
from sojourn.experiments.cells import EndedCell
from sojourn.experiments.statistics import curves, interval, standing
from sojourn.report.reproduction.claim import Claim, claim
from sojourn.report.reproduction.experiment import Experiment, Watch

KEPT = Path(__file__).parents[1] / "results" / "tinyimagenet"
BASELINE = "asyncsgd"

Runs = dict[str, dict[int, EndedCell]]


def run(folder: Path, fast: bool, watch: Watch) -> list[Claim]:
    """Make tables, a picture and claims, from kept results or from a small training."""
    with TemporaryDirectory(prefix=".runs-", dir=folder) as work:
        if not fast:
            return made(FULL, Path(work), KEPT, folder)
        TRAINING.train(FAST, Path(work), folder / "results", watch)
        return made(FAST, Path(work), folder / "results", folder)


def made(size: Size, work: Path, results: Path, folder: Path) -> list[Claim]:
    """Make everything from the ledgers of a size, and return the claims."""
    TRAINING.check(size, work, results)
    best = tuned(size, work, results)
    runs = ledger_of("table", results).by_method(cells_of("table", size, work, results))
    write_csv(folder / "table.csv", standing(runs, BASELINE))
    write_csv(folder / "rates.csv", _rates(size, work, ledger_of("trials", results), best))
    _draw(size, runs, folder / "tinyimagenet")
    claims = [_claim(size, method, runs, best[method]) for method in METHODS]
    return [replace(claims[0], note=f"{size.caution}; {claims[0].note}"), *claims[1:]]


def ends(size: Size, runs: Mapping[int, EndedCell]) -> list[float]:
    """Return the accuracy of each run over the last part of the time, in percent; NaN if it diverged."""
    return [nan if one.diverged else 100 * accuracy_in_time(one.rows, size.time) for one in runs.values()]


def _rates(size: Size, work: Path, ledger: Ledger, best: Mapping[str, Tuned]) -> list[dict[str, Any]]:
    """Return everything that was tried, and the accuracy on held-out examples in percent."""
    worth = partial(accuracy_in_time, end=size.time)
    rows = []
    for marks, cell in trials(size, work):
        one = best[marks["method"]]
        chosen = (marks["local_steps"], marks["rate"]) == (one.local_steps, one.rate)
        row = {**marks, "state": ledger.runs[cell.hash]["state"], "accuracy": worth_of(cell.hash, ledger, worth)}
        rows.append({**row, "chosen": chosen, "edge": one.edge if chosen else ""})
    return rows


def _draw(size: Size, runs: Runs, path: Path) -> None:
    from sojourn.report.training_figures import comparison_picture

    named = {TITLES[method]: mine for method, mine in runs.items()}
    data, model = (call.partition("(")[0] for call in (size.data, size.model))
    title = f"{data}, {model}: five methods at their best rates, mean of {size.final_seeds} seeds"
    comparison_picture(list(curves(named)), "accuracy", path, title)


def _claim(size: Size, method: str, every: Runs, best: Tuned) -> Claim:
    """Return a claim on the result of a method and its cost; the paper has no number to compare it with."""
    runs, values = every[method], np.array(ends(size, every[method]))
    error = values.std(ddof=1) / sqrt(len(values)) if len(values) > 1 else nan
    gone = sum(one.diverged for one in runs.values())
    steps = f"local steps {best.local_steps}, " if method in LOCAL else ""
    took = {key: fmean(one.last[key] for one in runs.values()) for key in ("gradients", "received", "version")}
    return claim(
        f"test accuracy of {TITLES[method]} by virtual time {size.time:g}, mean over the last {LAST:.0%} of it",
        "figure only",
        "diverged" if gone else f"{values.mean():.1f}%",
        error=f"{error:.1f}",
        note=f"{steps}rate {best.rate:g}{EDGES[best.edge]}; {took['gradients']:.0f} gradients computed, "
        f"{took['received']:.0f} updates received and {took['version']:.0f} server steps, on average over "
        f"{len(runs)} seeds" + (f", {gone} of which diverged" if gone else "") + _less(size, method, every),
        short=f"accuracy of {TITLES[method]}",
    )


def _less(size: Size, method: str, every: Runs) -> str:
    """Return the difference of a method from AsyncSGD, paired by seed, with the interval of the mean."""
    if method == BASELINE:
        return ""
    mine, theirs = (ends(size, every[name]) for name in (method, BASELINE))
    apart = interval(one - other for one, other in zip(mine, theirs, strict=True))
    return f"; less AsyncSGD {apart.mean:+.1f} (95%: {apart.low:+.1f} to {apart.high:+.1f})"


EXPERIMENT = Experiment(
    "tinyimagenet",
    "FedAvg, FedBuff, FAVANO, AsyncSGD and Generalized AsyncSGD with ResNet18",
    "figure of section 5",
    run,
)
