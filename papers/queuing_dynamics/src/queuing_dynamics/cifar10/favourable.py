"""What a user would want to know: each method with the tuning that suits it best, in the same simulated time.

The number of tasks in flight and the rate are tuned on held-out examples, for every method over the same grid of tasks
and as many rates; if tasks may wait and the largest number is best, three times as many are tried too. The planner's
plan has its own number of tasks. Besides the paper's three methods there are others: fast clients favoured a little, by
the root of speed, or by speed; FedBuff sending tasks only to idle clients; and AsyncSGD giving the next task to the
client that has just finished, with one task per client, since a client without a task at first never gets one.

In the last two no task waits, and fast clients count by their speed, without weights that correct for it. AsyncSGD by
speed without weights, which is FedBuff with a buffer of one, separates the two effects: there fast clients count in the
same way, and tasks wait as with Generalized AsyncSGD by speed.
"""

from pathlib import Path

from queuing_dynamics.cifar10.readings import FASTER, IDLE, PLANNED, PURE, ROOT, SPEED, UNWEIGHTED, Reading
from queuing_dynamics.cifar10.search import Chosen, Tried, tried
from queuing_dynamics.cifar10.size import Size
from queuing_dynamics.ledger import Ledger
from queuing_dynamics.tuned import Best
from sojourn.errors import SojournError

GROUPS = (("asyncsgd", "generalized", FASTER, "fedbuff", IDLE), (ROOT, SPEED), (UNWEIGHTED,))
"""Methods whose grids of step sizes grow together."""
ROUTED = ("asyncsgd", "generalized", FASTER, ROOT, SPEED, UNWEIGHTED, "fedbuff")
"""Methods whose tasks may wait, so that there may be more tasks than clients."""
SHARES = (0.1, 0.5, 1.0)
MORE = 3.0


def favourable_trials(size: Size, folder: Path, ledger: Ledger) -> list[tuple[Reading, Tried]]:
    """Return the trials for every number of tasks, to the end of the server's periods; many of them belong to the
    search.
    """

    def asked(share: float, *methods: str) -> tuple[Reading, Tried]:
        reading = Reading("periods", 1, share)
        return reading, tried(size, folder, reading, methods, ledger)

    made = [asked(share, *group) for share in SHARES for group in GROUPS]
    made += [asked(1.0, PURE), asked(size.planned()[0] / size.clients, PLANNED)]
    if all(one.best for _, one in made):
        best = _best(made)
        made += [asked(MORE, method) for method in ROUTED if best[method][0].share == SHARES[-1]]
    return made


def favourable(size: Size, folder: Path, ledger: Ledger) -> Chosen:
    """Return the best number of tasks and step size of each method."""
    return _best(_whole(size, folder, ledger))


def by_tasks(size: Size, folder: Path, ledger: Ledger) -> dict[str, dict[int, Best]]:
    """Return the result of each method with each number of tasks, at the best step size."""
    found: dict[str, dict[int, Best]] = {}
    for reading, one in _whole(size, folder, ledger):
        for method, best in one.best.items():
            found.setdefault(method, {})[reading.tasks(size)] = best
    return found


def _whole(size: Size, folder: Path, ledger: Ledger) -> list[tuple[Reading, Tried]]:
    made = favourable_trials(size, folder, ledger)
    for reading, one in made:
        if not one.best:
            raise SojournError(f"'{reading.name(size)}' was not tried whole; go on with the stage trials")
    return made


def _best(made: list[tuple[Reading, Tried]]) -> Chosen:
    chosen: Chosen = {}
    for reading, one in made:
        for method, best in one.best.items():
            if method not in chosen or best.accuracy > chosen[method][1].accuracy:
                chosen[method] = (reading, best)
    return chosen
