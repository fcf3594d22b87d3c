"""What a user would want to know: each method under the tuning that suits it best, in the same virtual time.

The number of tasks in flight and the rate are tuned on held-out examples, for every method over the same grid of tasks
and as many rates; the planner's plan has its own number of tasks. Two ways that the paper does not have stand beside
its three: fast clients favoured, and FedBuff sending tasks to idle clients only.
"""

from collections.abc import Iterator
from pathlib import Path

from sojourn.paper.cifar10.finals import final
from sojourn.paper.cifar10.readings import PLANNED, Reading
from sojourn.paper.cifar10.search import trial
from sojourn.paper.cifar10.settled import Best, best_rate
from sojourn.paper.cifar10.size import Size
from sojourn.paper.ledger import Ledger
from sojourn.sweep.cell import Cell
from sojourn.sweep.comparison import FIRST_TUNING_SEED

METHODS = (
    *("asyncsgd", "generalized", "fedbuff", "generalized, fast favoured"),
    *(PLANNED, "fedbuff, idle clients"),
)
SHARES = (0.1, 0.5, 1.0)


def choices(size: Size, method: str) -> list[Reading]:
    """Numbers of tasks that a method is tried with, to the end of the server's periods."""
    shares = (size.planned()[0] / size.clients,) if method == PLANNED else SHARES
    return [Reading("periods", 1, share) for share in shares]


def favourable_trials(size: Size, folder: Path) -> Iterator[tuple[dict[str, object], Cell]]:
    """Every trial; those of the paper's methods are the search's own."""
    for method in METHODS:
        for reading in choices(size, method):
            for rate in reading.rates(method):
                for seed in range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + size.trial_seeds):
                    yield trial(size, folder, reading, method, rate, seed)


def favourable(size: Size, ledger: Ledger) -> dict[str, tuple[Reading, Best]]:
    """The best number of tasks and rate of each method that was tried."""
    chosen: dict[str, tuple[Reading, Best]] = {}
    for method in METHODS:
        for reading in choices(size, method):
            rows = [
                row for row in ledger.runs.values() if (row["reading"], row["method"]) == (reading.name(size), method)
            ]
            found = best_rate(rows, ledger)
            if found is not None and (method not in chosen or found.accuracy > chosen[method][1].accuracy):
                chosen[method] = (reading, found)
    return chosen


def favourable_finals(
    size: Size, folder: Path, chosen: dict[str, tuple[Reading, Best]]
) -> Iterator[tuple[dict[str, object], Cell]]:
    """Each method at its best, over fresh seeds."""
    for method, (reading, best) in chosen.items():
        for seed in range(size.final_seeds):
            yield final(size, folder, method, reading.name(size), reading.keys(size, method), best.rate, seed)
