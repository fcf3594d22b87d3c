"""Train the runs of the table that no ledger holds yet: `python -m sojourn.paper.cifar10 search --results results`."""

from sojourn.paper.cifar10.size import FAST, FULL
from sojourn.paper.cifar10.stages import STAGES, cells_of, ledger_of
from sojourn.paper.training import main

if __name__ == "__main__":
    main(STAGES, cells_of, ledger_of, (FULL, FAST))
