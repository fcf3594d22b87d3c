"""Train the runs of the table that no ledger holds yet: `python -m sojourn.paper.cifar10 search --results results`."""

import argparse
import time
from pathlib import Path

import typer

from sojourn.paper.cifar10.favourable import favourable, favourable_finals, favourable_trials
from sojourn.paper.cifar10.finals import finals
from sojourn.paper.cifar10.search import trials
from sojourn.paper.cifar10.settled import nearest
from sojourn.paper.cifar10.size import FAST, FULL, Size
from sojourn.paper.ledger import Ledger, Marked, train

STAGES = ("search", "table", "trials", "favourable")


def cells_of(stage: str, size: Size, work: Path, search: Ledger) -> list[Marked]:
    """The cells of a stage; the later ones depend on what the search found."""
    if stage == "search":
        return list(trials(size, work))
    if stage == "trials":
        return list(favourable_trials(size, work))
    if stage == "table":
        return list(finals(size, work, nearest(size, search)[0]))
    return list(favourable_finals(size, work, favourable(size, search)))


def main() -> None:
    """Go on with a stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("--fast", action="store_true", help="small, on digits")
    parser.add_argument("--results", type=Path, required=True, help="folder of the ledgers")
    parser.add_argument("--work", type=Path, default=Path("paper-runs"), help="folder of the runs")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing after so many")
    parser.add_argument("--together", type=int, help="cells in common waves")
    arguments = parser.parse_args()
    began, size = time.monotonic(), FAST if arguments.fast else FULL
    kept = "search" if arguments.stage in ("search", "trials") else arguments.stage
    ledger = Ledger.load(arguments.results / kept)
    cells = cells_of(arguments.stage, size, arguments.work, Ledger.load(arguments.results / "search"))

    def say(done: int, many: int, name: str) -> None:
        typer.echo(f"{time.monotonic() - began:6.0f} s: {done} of {many}, {name}")

    def going() -> bool:
        return time.monotonic() - began < 60 * float(arguments.minutes)

    whole = train(cells, ledger, arguments.work / arguments.stage, arguments.together, going, say)
    typer.echo("all is done" if whole else "there is more to do: call it again")


if __name__ == "__main__":
    main()
