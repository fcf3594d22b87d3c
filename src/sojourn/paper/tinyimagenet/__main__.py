"""Train the runs that no ledger holds yet: `python -m sojourn.paper.tinyimagenet trials --results results`."""

from sojourn.paper.tinyimagenet.size import FAST, FULL
from sojourn.paper.tinyimagenet.stages import STAGES, cells_of, ledger_of
from sojourn.paper.training import main

if __name__ == "__main__":
    main(STAGES, cells_of, ledger_of, (FULL, FAST))
