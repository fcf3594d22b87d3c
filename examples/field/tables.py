"""The tables of docs/field.md."""

from collections.abc import Iterable, Sequence
from math import inf, isfinite
from statistics import fmean

from cells import Cell
from results import Outcome, Outcomes

MOST = 100.0  # a loss that many times the best counts as this much, so that one diverged run does not hide the rest


def over_best(found: Outcomes, cell: str, entry: str) -> float:
    """Return the loss of an entry over that of the best entry of its cell."""
    mine = found[cell]
    if entry not in mine:
        return inf
    best = min(one.loss for one in mine.values())
    return min(MOST, mine[entry].loss / best) if isfinite(mine[entry].loss) else MOST


def ranked(found: Outcomes, names: Sequence[str]) -> list[str]:
    """Return the entries that are in all of these cells, by their geometric mean over the best; the best first."""
    common = set.intersection(*(set(found[name]) for name in names))
    return sorted(sorted(common), key=lambda entry: _geometric(over_best(found, name, entry) for name in names))


def _geometric(values: Iterable[float]) -> float:
    from math import exp, log

    return exp(fmean(log(value) for value in values))


def summary_table(found: Outcomes, cells: Sequence[Cell]) -> str:
    """Return one row per entry: its loss over the best by kind of cell, its worst client, its costs."""
    names = [cell.name for cell in cells if cell.name in found]
    if not names:
        return "Not trained yet."
    kinds = {
        "random classes": [cell.name for cell in cells if cell.dealt == "random" and cell.name in found],
        "by speed": [cell.name for cell in cells if cell.dealt == "by speed" and cell.name in found],
    }
    head = ["entry", *kinds, "accuracy", "worst client", "updates", "discarded", "MB up"]
    rows = []
    for entry in ranked(found, names):
        mine = [found[name][entry] for name in names]
        means = [_geometric(over_best(found, name, entry) for name in group) for group in kinds.values()]
        rows.append([entry, *(f"{mean:.2f}" for mean in means), *_costs(mine)])
    return _table(head, rows)


def _costs(mine: Sequence[Outcome]) -> list[str]:
    return [
        _percent(fmean(one.accuracy for one in mine)),
        _percent(fmean(one.worst for one in mine)),
        f"{fmean(one.updates for one in mine):,.0f}",
        f"{100 * sum(one.unused for one in mine) / max(1.0, sum(one.gradients for one in mine)):.0f}%",
        f"{fmean(one.bytes_up for one in mine) / 1e6:,.0f}",
    ]


def fleets_table(found: Outcomes, cells: Sequence[Cell]) -> str:
    """Return the loss over the best of each cell, one table per way of dealing, one column per fleet."""
    names = [cell.name for cell in cells if cell.name in found]
    if not names:
        return "Not trained yet."
    return "\n\n".join(
        _by_fleet(found, names, [one for one in cells if one.dealt == way]) for way in ("random", "by speed")
    )


def _by_fleet(found: Outcomes, names: Sequence[str], cells: Sequence[Cell]) -> str:
    """Return the table of one way of dealing, over the problems."""
    groups: dict[str, list[str]] = {}
    for cell in cells:
        if cell.name in found:
            groups.setdefault(cell.fleet_name, []).append(cell.name)
    rows = [
        [entry, *(f"{_geometric(over_best(found, name, entry) for name in group):.2f}" for group in groups.values())]
        for entry in ranked(found, names)
    ]
    return _table([f"entry, {cells[0].dealt}", *groups], rows)


def quadratic_table(found: Outcomes, cells: Sequence[Cell]) -> str:
    """Return the distance from the optimum in each fleet, with standard errors."""
    names = [cell.name for cell in cells if cell.name in found]
    if not names:
        return "Not trained yet."
    common = set.intersection(*(set(found[name]) for name in names))
    order = sorted(sorted(common), key=lambda entry: fmean(min(10.0, found[name][entry].distance[0]) for name in names))
    titles = [cell.fleet_name for cell in cells if cell.name in found]
    rows = [[entry, *(_near(found[name][entry]) for name in names)] for entry in order]
    return _table(["entry", *titles], rows)


def _near(one: Outcome) -> str:
    mean, error = one.distance
    return f"{mean:.3f} ± {error:.3f}" if isfinite(mean) else "diverged"


def cifar_table(found: Outcomes, cells: Sequence[Cell]) -> str:
    """Return the test accuracy on CIFAR-10 by fleet."""
    names = [cell.name for cell in cells if cell.name in found]
    if not names:
        return "Not trained yet."
    common = set.intersection(*(set(found[name]) for name in names))
    order = sorted(sorted(common), key=lambda entry: -fmean(_or_zero(found[name][entry].accuracy) for name in names))
    head = ["entry"]
    for cell in cells:
        if cell.name in found:
            head += [f"{cell.fleet_name}: accuracy", "worst client", "updates", "step"]
    rows = [[entry, *(text for name in names for text in _on_images(found[name][entry]))] for entry in order]
    return _table(head, rows)


def _on_images(one: Outcome) -> list[str]:
    step = f"{one.step_size:g}" + ("*" if one.edge else "")
    return [_percent(one.accuracy), _percent(one.worst), f"{one.updates:,.0f}", step]


def _or_zero(value: float) -> float:
    return value if isfinite(value) else 0.0


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%" if isfinite(share) else "diverged"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
