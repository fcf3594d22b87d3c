"""Train the runs of the table that no ledger holds yet.

    python -m sojourn.paper.cifar10 search --results results --minutes 9
"""

import argparse
import time
from pathlib import Path

from sojourn.paper.cifar10.search import trials
from sojourn.paper.cifar10.size import FAST, FULL
from sojourn.paper.ledger import Ledger, train


def main() -> None:
    """Go on with a stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("search",))
    parser.add_argument("--fast", action="store_true", help="small, on digits")
    parser.add_argument("--results", type=Path, required=True, help="folder of the ledgers")
    parser.add_argument("--work", type=Path, default=Path("paper-runs"), help="folder of the runs")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing after so many")
    parser.add_argument("--together", type=int, help="cells in common waves")
    arguments = parser.parse_args()
    began, size = time.monotonic(), FAST if arguments.fast else FULL
    ledger = Ledger.load(arguments.results / arguments.stage)
    cells = list(trials(size, arguments.work))

    def say(done: int, many: int, name: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s: {done} of {many}, {name}", flush=True)

    def going() -> bool:
        return time.monotonic() - began < 60 * arguments.minutes

    whole = train(cells, ledger, arguments.work / arguments.stage, arguments.together, going, say)
    print("all is done" if whole else "there is more to do: call it again")


if __name__ == "__main__":
    main()
