"""What is trained, in the order in which one thing follows from the other.

search       the readings of the paper          table        the three methods under the settled one
trials       further methods, numbers of tasks  favourable   each method at its best
"""

from pathlib import Path

from sojourn.paper.cifar10.favourable import favourable, favourable_finals, favourable_trials
from sojourn.paper.cifar10.finals import finals
from sojourn.paper.cifar10.readings import readings
from sojourn.paper.cifar10.search import tried
from sojourn.paper.cifar10.settled import THREE, settled
from sojourn.paper.cifar10.size import Size
from sojourn.paper.ledger import Ledger, Marked

STAGES = ("search", "table", "trials", "favourable")


def ledger_of(stage: str, results: Path) -> Ledger:
    """The ledger of a stage; search and trials share one, since they share trials."""
    return Ledger.load(results / ("search" if stage == "trials" else stage))


def cells_of(stage: str, size: Size, work: Path, results: Path) -> list[Marked]:
    """The cells of a stage, as far as the ledgers can tell."""
    search = ledger_of("search", results)
    if stage == "search":
        return [cell for reading in readings() for cell in tried(size, work, reading, THREE, search).cells]
    if stage == "trials":
        return [cell for _, made in favourable_trials(size, work, search) for cell in made.cells]
    if stage == "table":
        return list(finals(size, work, settled(size, work, search)))
    return list(favourable_finals(size, work, favourable(size, work, search)))
