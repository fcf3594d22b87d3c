"""Update docs/does-it-pay.md from the committed files: the text between two marks is replaced, the rest stays.

<!-- made: NAME --> ... <!-- end of NAME -->
"""

import re
from pathlib import Path

from picture import draw
from results import load
from tables import (
    against_table,
    cells_table,
    cifar_table,
    decay_table,
    every_cell,
    long_cifar_table,
    people_table,
    policies_table,
    predictors_table,
    regret_table,
    steps_table,
    targets_table,
)
from verdict import Verdict, targets, transfer, verdicts
from world import cells

EVERY = (
    "# Every policy in every cell\n\nMade by `python examples/does_it_pay report`. Losses are means over the seeds.\n\n"
)


def report_all(results: Path, page: Path) -> None:
    """Write tables, the picture, and the list of every cell."""
    text = page.read_text("utf-8")
    made = parts(results)
    for name in re.findall(r"<!-- made: ([a-z-]+) -->", text):
        if name not in made:
            raise SystemExit(f"error: {page.name} asks for a part '{name}'; there are {', '.join(made)}")
        text = replaced(text, name, made[name])
    page.write_text(text, "utf-8")
    (results / "every-cell.md").write_text(EVERY + every_cell(load(results), cells()), "utf-8")
    small = _small(verdicts(results))
    if small:
        draw(small, page.parent / "pictures" / "does-it-pay")
    print(f"{page}: {len(made)} parts")


def replaced(text: str, name: str, part: str) -> str:
    r"""Return the page with one part replaced.

    >>> replaced("a <!-- made: x --> old <!-- end of x --> b", "x", "new")
    'a <!-- made: x -->\nnew\n<!-- end of x --> b'
    """
    pattern = rf"(<!-- made: {name} -->).*?(<!-- end of {name} -->)"
    return re.sub(pattern, lambda found: f"{found[1]}\n{part}\n{found[2]}", text, flags=re.DOTALL)


def parts(results: Path) -> dict[str, str]:
    """Return all parts by name."""
    found, known, outcomes = verdicts(results), cells(), load(results)
    small, guessed = _small(found), load(results, "guess")
    factor = transfer(results)
    key = "generic"
    factors = ", ".join(f"{value:.3g} ({name} constants)" for name, value in factor.items())
    return {
        "targets": targets_table(targets(small, guessed, key)),
        "against": against_table(small),
        "regret": regret_table(small),
        "policies": policies_table(small),
        "people": people_table(small),
        "predictors": predictors_table(small),
        "cells": cells_table(small, key),
        "decay": decay_table(outcomes, known),
        "steps": steps_table(small, guessed),
        "transfer": f"Median over cells to develop on: {factors or 'not yet'}.",
        "cifar": cifar_table(outcomes, known),
        "cifar-long": long_cifar_table(outcomes, known),
    }


def _small(found: list[Verdict]) -> list[Verdict]:
    """Return the verdicts on digits and Fashion-MNIST."""
    return [one for one in found if one.cell.budget in ("short", "long")]
