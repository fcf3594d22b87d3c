"""Tables of docs/field.md for two claims: who is first where data is alike, and how much time the plan needs."""

from collections.abc import Sequence
from statistics import fmean

from cells import DEALT, Cell
from results import Outcomes
from tables import counted, markdown, percent, ranked, with_error
from times import Reached


def alike_table(found: Outcomes, cells: Sequence[Cell]) -> str:
    """Return the loss over the best where data is alike at all clients, with the errors of the seeds, by fleet."""
    cells = [cell for cell in cells if cell.name in found]
    if not cells:
        return "Not trained yet."
    names = [cell.name for cell in cells]
    rows = []
    for entry in ranked(found, names):
        mine = [found[name][entry] for name in names]
        over = (with_error(found, [name], entry) for name in names)
        rows.append([entry, *over, percent(fmean(one.accuracy for one in mine)), *counted(mine)[:2]])
    return markdown(["entry", *(cell.fleet_name for cell in cells), "accuracy", "updates", "discarded"], rows)


def times_table(reached: Sequence[Reached], cells: Sequence[Cell]) -> str:
    """Return after which share of the time the plan is where another entry ends, one column per fleet."""
    found = {(one.cell, one.other): one for one in reached}
    rows = []
    for other in sorted({one.other for one in reached}, reverse=True):
        for dealt in DEALT:
            mine = [found.get((cell.name, other)) for cell in cells if cell.dealt == dealt]
            if any(mine):
                rows.append([other, dealt, *("" if one is None else one.text for one in mine)])
    fleets = list(dict.fromkeys(cell.fleet_name for cell in cells))
    return markdown(["where this entry ends", "data", *fleets], rows) if rows else "Not trained yet."
