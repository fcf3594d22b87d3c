"""The stages of the command."""

from argparse import Namespace
from pathlib import Path

from cells import Cell, chosen
from entries import ENTRIES, Entry, entries
from train import trained

from sojourn.errors import InvalidInput

KEPT = Path(__file__).resolve().parents[2] / "docs" / "results" / "field"


def cells(arguments: Namespace) -> None:
    """List the cells and the entries."""
    for cell in chosen(arguments.words, arguments.gradients):
        print(f"{cell.name}: {len(_mine(cell, arguments))} entries, time {cell.time:.4g} s")
    for one in ENTRIES:
        print(f"{one.name}: {one.algorithm}")


def train(arguments: Namespace) -> None:
    """Train the chosen cells, one after the other."""
    for cell in chosen(arguments.words, arguments.gradients):
        print(f"{cell.name}", flush=True)
        for one in _mine(cell, arguments):
            found = trained(cell, one, arguments.out, arguments.jobs)
            print(found, flush=True)
            for note in found.notes:
                print(f"note: {note}", flush=True)


def collect(arguments: Namespace) -> None:
    """Put the ended cells into the committed files."""
    from results import collect_all, load
    from times import collect_times

    _check_length(arguments)
    picked = chosen(arguments.words, arguments.gradients)
    collect_all(arguments.out, picked, arguments.results)
    collect_times(arguments.out, picked, load(arguments.results), arguments.results)


def report(arguments: Namespace) -> None:
    """Make the tables and the picture of the page."""
    from page import report_all

    report_all(arguments.results, arguments.page)


def everything(arguments: Namespace) -> None:
    """Train, collect and report: what is there already is not trained again."""
    _check_length(arguments)
    for stage in (train, collect, report):
        stage(arguments)


def enter(arguments: Namespace) -> None:
    """Give a method its row beside those of the field."""
    from enter import entered

    entered(arguments)


def _check_length(arguments: Namespace) -> None:
    if arguments.gradients is not None and arguments.results.resolve() == KEPT:
        raise InvalidInput(
            f"gradients must not be given to collect runs into {KEPT}, got {arguments.gradients}; name another folder "
            "with --results, and a page of its own with --page"
        )


def _mine(cell: Cell, arguments: Namespace) -> list[Entry]:
    words = arguments.entries
    return [one for one in entries(cell) if not words or any(word in one.name for word in words)]
