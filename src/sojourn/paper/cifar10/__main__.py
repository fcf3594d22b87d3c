"""Train the runs of the table that no ledger holds yet: `python -m sojourn.paper.cifar10 search --results results`."""

import argparse
import time
from pathlib import Path

import typer

from sojourn.errors import SojournError
from sojourn.paper.cifar10.size import FAST, FULL
from sojourn.paper.cifar10.stages import STAGES, cells_of, ledger_of
from sojourn.paper.ledger import train


def main() -> None:
    """Go on with a stage, as long as there is time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("--fast", action="store_true", help="small, on digits")
    parser.add_argument("--results", type=Path, required=True, help="folder of the ledgers")
    parser.add_argument("--work", type=Path, default=Path("paper-runs"), help="folder of the runs")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing after so many")
    parser.add_argument("--together", type=int, help="cells in common waves")
    arguments = parser.parse_args()
    began, size = time.monotonic(), FAST if arguments.fast else FULL
    ledger = ledger_of(arguments.stage, arguments.results)

    def say(done: int, many: int, name: str) -> None:
        typer.echo(f"{time.monotonic() - began:6.0f} s: {done} of {many}, {name}")

    def going() -> bool:
        return time.monotonic() - began < 60 * float(arguments.minutes)

    while True:  # what came of some trials may ask for more of them
        cells = cells_of(arguments.stage, size, arguments.work, arguments.results)
        whole = train(cells, ledger, arguments.work / arguments.stage, arguments.together, going, say)
        if not whole or not ledger.missing(cells_of(arguments.stage, size, arguments.work, arguments.results)):
            break
    typer.echo("all is done" if whole else "there is more to do: call it again")


if __name__ == "__main__":
    try:
        main()
    except SojournError as error:
        raise SystemExit(f"error: {error}") from None
