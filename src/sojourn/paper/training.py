"""Training what no ledger holds yet, stage after stage: the command line of the paper's trainings.

`python -m sojourn.paper.cifar10 search --results results`, and the same with `tinyimagenet` and its stages.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import typer

from sojourn.errors import SojournError
from sojourn.paper.ledger import Ledger, Marked, train

Size = TypeVar("Size")
CellsOf = Callable[[str, Size, Path, Path], list[Marked]]
"""Cells of a stage at a size, with the folders of the runs and of the ledgers, as far as these can tell."""
LedgerOf = Callable[[str, Path], Ledger]
"""Ledger of a stage, from the folder of the ledgers."""


def train_stage(
    cells: Callable[[], Sequence[Marked]],
    ledger: Ledger,
    folder: Path,
    together: int | None = None,
    going: Callable[[], bool] = lambda: True,
    watch: Callable[[int, int, str], None] | None = None,
) -> bool:
    """Train a stage as long as `going`; whether it is whole. What came of some cells may ask for more of them."""
    while train(cells(), ledger, folder, together, going, watch):
        if not ledger.missing(cells()):
            return True
    return False


def main(stages: Sequence[str], cells_of: CellsOf[Size], ledger_of: LedgerOf, sizes: tuple[Size, Size]) -> None:
    """The command: go on with a stage, as long as there is time. The sizes are the full one and the fast one."""
    arguments = _parser(stages).parse_args()
    began, size = time.monotonic(), sizes[1] if arguments.fast else sizes[0]

    def cells() -> list[Marked]:
        return cells_of(arguments.stage, size, arguments.work, arguments.results)

    def say(done: int, many: int, name: str) -> None:
        typer.echo(f"{time.monotonic() - began:6.0f} s: {done} of {many}, {name}")

    def going() -> bool:
        return time.monotonic() - began < 60 * float(arguments.minutes)

    try:
        ledger = ledger_of(arguments.stage, arguments.results)
        whole = train_stage(cells, ledger, arguments.work / arguments.stage, arguments.together, going, say)
    except SojournError as error:
        raise SystemExit(f"error: {error}") from None
    typer.echo("all is done" if whole else "there is more to do: call it again")


def _parser(stages: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Train the runs of a stage that no ledger holds yet.")
    parser.add_argument("stage", choices=stages)
    parser.add_argument("--fast", action="store_true", help="small, on digits")
    parser.add_argument("--results", type=Path, required=True, help="folder of the ledgers")
    parser.add_argument("--work", type=Path, default=Path("paper-runs"), help="folder of the runs")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing after so many")
    parser.add_argument("--together", type=int, help="cells in common waves")
    return parser
