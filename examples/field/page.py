"""Update docs/field.md from the committed file: the text between two marks is replaced, the rest stays.

<!-- made: NAME --> ... <!-- end of NAME -->
"""

import re
from pathlib import Path

from cells import ALIKE, Cell, cells
from claims import alike_table, times_table
from picture import draw
from results import Outcomes, load
from tables import (
    cifar_table,
    exact_table,
    fleets_table,
    plan_table,
    predictions_table,
    quadratic_table,
    steady_table,
    summary_table,
)
from times import load_times


def report_all(results: Path, page: Path) -> None:
    """Write tables and picture."""
    text = page.read_text("utf-8")
    made = parts(results)
    for name in re.findall(r"<!-- made: ([a-z-]+) -->", text):
        if name not in made:
            raise SystemExit(f"error: {page.name} asks for a part '{name}'; there are {', '.join(made)}")
        pattern = rf"(<!-- made: {name} -->).*?(<!-- end of {name} -->)"
        text = re.sub(pattern, lambda mark, name=name: f"{mark[1]}\n{made[name]}\n{mark[2]}", text, flags=re.DOTALL)
    page.write_text(text, "utf-8")
    found = load(results)
    if any(cell.name in found for cell in _of("digits", "fashion")):
        draw(found, _of("digits", "fashion"), page.parent / "pictures" / "field")
    print(f"{page}: {len(made)} parts")


def parts(results: Path) -> dict[str, str]:
    """Return all parts by name."""
    found: Outcomes = load(results)
    return {
        "summary": summary_table(found, _of("digits", "fashion")),
        "plan": plan_table(found, _of("digits", "fashion")),
        "fleets": fleets_table(found, _of("digits", "fashion")),
        "quadratic": quadratic_table(found, _of("quadratic")),
        "exact": exact_table(found, _of("quadratic")),
        "steady": steady_table(found, _of("quadratic")),
        "alike": alike_table(found, ALIKE_CELLS),
        "times": times_table(load_times(results), [*_of("digits"), *ALIKE_CELLS]),
        "cifar": cifar_table(found, _of("cifar")),
        "predictions": predictions_table(found, _of("cifar"), _of("digits", "fashion")),
    }


def _of(*problems: str) -> list[Cell]:
    return [cell for cell in cells() if cell.problem in problems and cell.dealt != ALIKE]


ALIKE_CELLS = [cell for cell in cells() if cell.dealt == ALIKE]
