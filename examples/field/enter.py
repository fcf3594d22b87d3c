"""Enter a method: train it in quick cells as every other entry was, and show its row beside the committed ones."""

from argparse import Namespace

from cells import ALIKE, chosen
from claims import alike_table
from entries import PLANNED, Entry
from results import ended, load
from tables import quadratic_table, summary_table
from train import trained

from sojourn.errors import InvalidInput
from sojourn.learning.algorithms.table import algorithm

QUICK = ("quadratic-10to1", "digits-10to1-random", "digits-10to1-by-speed")


def entered(arguments: Namespace) -> None:
    """Train one method, named by its text, in the cells that the other words choose; default: the 10:1 fleet."""
    if not arguments.words:
        raise InvalidInput("enter needs a method, got none; write for example: enter my_method:Mine digits")
    text, *words = arguments.words
    algorithm(text)  # says what is wrong with it before anything is trained
    mine = Entry(text + PLANNED * arguments.planned, text, planned=arguments.planned)
    wanted = [words] if words else [[quick] for quick in QUICK]
    picked = [cell for one in wanted for cell in chosen(one, arguments.gradients)]
    home = arguments.out / "entered"
    found = load(arguments.results)
    for cell in picked:
        print(f"{cell.name}", flush=True)
        for run, why in trained(cell, mine, home, arguments.jobs).failures.items():
            print(f"{run} failed: {why}", flush=True)
        found.setdefault(cell.name, {}).update(ended(home, cell, [mine]))
    quadratic = [cell for cell in picked if cell.problem == "quadratic"]
    alike = [cell for cell in picked if cell.dealt == ALIKE]
    images = [cell for cell in picked if cell not in [*quadratic, *alike]]
    if arguments.gradients is not None:
        print(
            f"The row of {text} is from a trial of {arguments.gradients} gradients; do not compare it with the others."
        )
    for cells, table in ((quadratic, quadratic_table), (images, summary_table), (alike, alike_table)):
        if cells:
            print(table(found, cells))
