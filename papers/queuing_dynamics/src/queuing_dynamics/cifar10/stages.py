"""The stages of training, in the order in which they depend on each other.

search       the readings of the paper                          refine       the settled one at finer rates
table        the three methods under the settled reading        in-time      the same at rates chosen for a time
trials       further methods and numbers of tasks               favourable   each method at its best
"""

from pathlib import Path

from queuing_dynamics.cifar10.favourable import favourable, favourable_trials
from queuing_dynamics.cifar10.finals import finals
from queuing_dynamics.cifar10.readings import readings
from queuing_dynamics.cifar10.search import Chosen, tried
from queuing_dynamics.cifar10.settled import THREE, refined, refined_in_time, settled
from queuing_dynamics.cifar10.size import FAST, FULL, Size
from queuing_dynamics.ledger import Ledger, Marked
from queuing_dynamics.training import Training
from sojourn.errors import SojournError

STAGES = ("search", "refine", "table", "in-time", "trials", "favourable")


def ledger_of(stage: str, results: Path) -> Ledger:
    """Return the ledger of a stage. Stages that share runs share one: all that choose by held-out examples, and both
    tables.
    """
    return Ledger.load(
        results / {"table": "table", "in-time": "table", "favourable": "favourable"}.get(stage, "search")
    )


def cells_of(stage: str, size: Size, work: Path, results: Path) -> list[Marked]:
    """Return the cells of a stage, as far as the ledgers determine them."""
    search = ledger_of("search", results)
    if stage == "search":
        return [cell for reading in readings() for cell in tried(size, work, reading, THREE, search).cells]
    if stage == "refine":
        return refined(size, work, settled(size, work, search), search).cells
    if stage == "trials":
        return [cell for _, made in favourable_trials(size, work, search) for cell in made.cells]
    return list(finals(size, work, chosen(stage, size, work, search)))


def chosen(stage: str, size: Size, work: Path, search: Ledger) -> Chosen:
    """Return the settings of the methods of a table."""
    if stage == "favourable":
        return favourable(size, work, search)
    found = settled(size, work, search)
    best = (refined if stage == "table" else refined_in_time)(size, work, found, search).best
    if not best:
        raise SojournError("the settled reading was not tried whole at finer rates; go on with the stage refine")
    return {method: (found.reading, one) for method, one in best.items()}


TRAINING = Training("cifar10", STAGES, cells_of, ledger_of, FULL, FAST)
