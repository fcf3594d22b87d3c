"""What a user would want to know: each method under the tuning that suits it best, in the same virtual time.

The number of tasks in flight and the rate are tuned on held-out examples, for every method over the same grid of tasks
and as many rates; the planner's plan has its own number of tasks. Beside the paper's three ways stand others: fast
clients favoured; FedBuff sending tasks to idle clients only; and AsyncSGD giving the finisher the next task, with a
task a client, since who has none at first never gets one.
"""

from collections.abc import Iterator
from pathlib import Path

from sojourn.errors import SojournError
from sojourn.paper.cifar10.readings import FASTER, IDLE, PLANNED, PURE, Reading
from sojourn.paper.cifar10.search import Chosen, Tried, tried
from sojourn.paper.cifar10.size import Size
from sojourn.paper.ledger import Ledger

METHODS = ("asyncsgd", "generalized", FASTER, "fedbuff", IDLE)
SHARES = (0.1, 0.5, 1.0)


def favourable_trials(size: Size, folder: Path, ledger: Ledger) -> Iterator[tuple[Reading, Tried]]:
    """The trials for every number of tasks, to the end of the server's periods; many are the search's own."""
    for share in SHARES:
        reading = Reading("periods", 1, share)
        yield reading, tried(size, folder, reading, METHODS, ledger)
    for method, share in ((PURE, 1.0), (PLANNED, size.planned()[0] / size.clients)):
        reading = Reading("periods", 1, share)
        yield reading, tried(size, folder, reading, (method,), ledger)


def favourable(size: Size, folder: Path, ledger: Ledger) -> Chosen:
    """The best number of tasks and rate of each method."""
    chosen: Chosen = {}
    for reading, made in favourable_trials(size, folder, ledger):
        if not made.best:
            raise SojournError(f"'{reading.name(size)}' was not tried whole; go on with the stage trials")
        for method, best in made.best.items():
            if method not in chosen or best.accuracy > chosen[method][1].accuracy:
                chosen[method] = (reading, best)
    return chosen
