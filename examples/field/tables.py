"""The tables of docs/field.md."""

from collections.abc import Sequence
from math import exp, inf, isfinite, log, sqrt
from statistics import fmean, geometric_mean, stdev

from cells import Cell
from entries import CONSTANT, STEADY
from results import Outcome, Outcomes

PLAN = "generalized-asyncsgd, planned"
NEAREST_TO_IT = 10  # entries that are compared with it, seed by seed
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
    return sorted(sorted(common), key=lambda entry: mean_over_best(found, names, entry))


def mean_over_best(found: Outcomes, names: Sequence[str], entry: str) -> float:
    """Return its loss over the best, the geometric mean over these cells."""
    return geometric_mean(over_best(found, name, entry) for name in names)


def its_error(found: Outcomes, names: Sequence[str], entry: str) -> float:
    """Return the standard error of that mean over the seeds; the loss of the best is taken as it is."""
    by_cell = [_logs(found[name], entry) for name in names]
    by_seed = [fmean(logs) for logs in zip(*by_cell, strict=True)]
    return mean_over_best(found, names, entry) * stdev(by_seed) / sqrt(len(by_seed))


def _logs(mine: dict[str, Outcome], entry: str) -> list[float]:
    """Return the logarithm of the loss of each seed; that of a diverged run is bounded."""
    most = MOST * min(one.loss for one in mine.values())
    return [log(min(most, loss)) for loss in mine[entry].losses]


def with_error(found: Outcomes, names: Sequence[str], entry: str) -> str:
    return f"{mean_over_best(found, names, entry):.2f} ± {its_error(found, names, entry):.2f}"


def summary_table(found: Outcomes, cells: Sequence[Cell]) -> str:
    """Return one row per entry: its loss over the best by kind of cell, its worst client, its costs."""
    names = [cell.name for cell in cells if cell.name in found]
    if not names:
        return "Not trained yet."
    kinds = {
        "random classes": [cell.name for cell in cells if cell.dealt == "random" and cell.name in found],
        "by speed": [cell.name for cell in cells if cell.dealt == "by speed" and cell.name in found],
    }
    kinds = {kind: group for kind, group in kinds.items() if group}
    head = ["entry", *kinds, "accuracy", "worst client", "updates", "discarded", "MB up"]
    rows = []
    for entry in ranked(found, names):
        mine = [found[name][entry] for name in names]
        rows.append([entry, *(with_error(found, group, entry) for group in kinds.values()), *_costs(mine)])
    return markdown(head, rows)


def _costs(mine: Sequence[Outcome]) -> list[str]:
    return [
        percent(fmean(one.accuracy for one in mine)),
        percent(fmean(one.worst for one in mine)),
        *counted(mine),
    ]


def counted(mine: Sequence[Outcome]) -> list[str]:
    """Return the updates received, the share of gradients that never enter the model, and what clients sent."""
    return [
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
    rows = [[entry, *(with_error(found, group, entry) for group in groups.values())] for entry in ranked(found, names)]
    return markdown([f"entry, {cells[0].dealt}", *groups], rows)


def plan_table(found: Outcomes, cells: Sequence[Cell]) -> str:
    """Return the plan beside the entries that come nearest to it, seed by seed: both had the same data and times."""
    from scipy.stats import t

    names = [cell.name for cell in cells if PLAN in found.get(cell.name, {})]
    if not names:
        return "Not trained yet."
    rows = []
    for entry in [one for one in ranked(found, names) if one != PLAN][:NEAREST_TO_IT]:
        means, away = [], []
        for name in names:
            both = zip(_logs(found[name], PLAN), _logs(found[name], entry), strict=True)
            pairs = [mine - other for mine, other in both]
            means.append(fmean(pairs))
            clear = float(t.ppf(0.975, len(pairs) - 1)) * stdev(pairs) / sqrt(len(pairs))
            away.append(0 if abs(fmean(pairs)) <= clear else fmean(pairs))
        error = stdev(means) / sqrt(len(means)) if len(means) > 1 else 0.0
        ratio = exp(fmean(means))
        lower, clearly = sum(one < 0 for one in means), (sum(one < 0 for one in away), sum(one > 0 for one in away))
        rows.append([entry, f"{ratio:.2f} ± {ratio * error:.2f}", *map(str, (lower, *clearly))])
    return markdown(["entry", "the plan's loss over its", "lower in", "clearly lower", "clearly higher"], rows)


def quadratic_table(found: Outcomes, cells: Sequence[Cell]) -> str:
    """Return the distance from the optimum in each fleet, with standard errors."""
    names = [cell.name for cell in cells if cell.name in found]
    if not names:
        return "Not trained yet."
    common = [one for one in set.intersection(*(set(found[name]) for name in names)) if not one.endswith(CONSTANT)]
    order = sorted(sorted(common), key=lambda entry: fmean(min(10.0, found[name][entry].distance[0]) for name in names))
    titles = [cell.fleet_name for cell in cells if cell.name in found]
    rows = [[entry, *(_near(found[name][entry]) for name in names)] for entry in order]
    return markdown(["entry", *titles], rows)


UNBIASED = (
    *("asyncsgd, random", "generalized-asyncsgd", "asgrad, shuffled", "ia2sgd", "ace"),
    *("ringleader", "malenia"),
)
"""Gradient methods in which every client counts alike: it is drawn as often as the others, or has one place in a table
or in an average.
"""
EXACT = {**dict.fromkeys(UNBIASED, 0.0), "generalized-asyncsgd, planned": 0.5, "asyncsgd, finisher": 1.0}
"""Entries whose limit is known: the clients' weights in it are their speeds to this power."""
SIMULATED = ("asgrad, waiting for 5",)
"""Entries whose updates all count alike, but whose clients are not always busy: how often each of them comes is counted
in a simulation of their timing.
"""
STEADY_LIMITS = {"fedbuff": 1.0, "fedbuff, planned": 0.5}
"""The same for entries with local steps, whose step size has to be constant for it."""


def exact_table(found: Outcomes, cells: Sequence[Cell]) -> str:
    """Return where entries would settle with small steps and much time, beside where they ended."""
    cells = [cell for cell in cells if cell.name in found]
    if not cells:
        return "Not trained yet."
    rows = []
    for entry in [one for one in (*EXACT, *SIMULATED) if all(one in found[cell.name] for cell in cells)]:
        limits = _limits(cells, EXACT[entry]) if entry in EXACT else _simulated_limits(cells, entry)
        ended = [_near(found[cell.name][entry], 2) for cell in cells]
        rows.append(
            [entry + "*" * (entry in SIMULATED), *(one for both in zip(limits, ended, strict=True) for one in both)]
        )
    return markdown(["entry", *(head for cell in cells for head in (cell.fleet_name, "ended"))], rows)


def steady_table(found: Outcomes, cells: Sequence[Cell]) -> str:
    """Return where methods with local steps ended with a step size that falls to zero, and with a constant one."""
    cells = [cell for cell in cells if all(one.name in found.get(cell.name, {}) for one in STEADY)]
    rows = []
    for one in STEADY:
        entry = one.name.removesuffix(CONSTANT)
        if entry in STEADY_LIMITS:
            rows.append([f"{entry}: exact", *_limits(cells, STEADY_LIMITS[entry])])
        rows.append([f"{entry}: constant step", *(_near(found[cell.name][one.name]) for cell in cells)])
        rows.append([f"{entry}: falling step", *(_near(found[cell.name][entry]) for cell in cells)])
    return markdown(["entry", *(cell.fleet_name for cell in cells)], rows) if cells else "Not trained yet."


def _limits(cells: Sequence[Cell], power: float) -> list[str]:
    from apart import settles

    return [f"{settles(cell.fleet.rate[cell.fleet.group_of_client], power):.2f}" for cell in cells]


def _simulated_limits(cells: Sequence[Cell], entry: str) -> list[str]:
    from apart import settles
    from shares import shares

    return [f"{settles(shares(cell, entry), 1.0):.2f}" for cell in cells]


def _near(one: Outcome, digits: int = 3) -> str:
    mean, error = one.distance
    return f"{mean:.{digits}f} ± {error:.{digits}f}" if isfinite(mean) else "diverged"


def cifar_table(found: Outcomes, cells: Sequence[Cell]) -> str:
    """Return loss and accuracy on CIFAR-10, one table per fleet, the lowest loss first."""
    trained = [cell for cell in cells if cell.name in found]
    return "\n\n".join(_on_images(cell, found[cell.name]) for cell in trained) or "Not trained yet."


def _on_images(cell: Cell, mine: dict[str, Outcome]) -> str:
    costs = ["updates", "discarded", "MB up"]
    head = [f"entry, {FLEETS[cell.fleet_name]}", "loss", "accuracy", "worst client", *costs, "step"]
    rows = []
    for one in sorted(mine.values(), key=lambda one: one.loss):
        step = f"{one.step_size:g}" + ("*" if one.edge else "")
        accuracy = f"{percent(one.accuracy)} ± {100 * _error(one.accuracies):.1f}%"
        facts = (accuracy, percent(one.worst), *counted([one]), step)
        rows.append([one.entry, f"{one.loss:.2f} ± {_error(one.losses):.2f}", *facts])
    return markdown(head, rows)


FLEETS = {"paper": "8:1", "paper, heavy-tailed": "heavy-tailed"}
NEAREST = {"paper": "10:1", "paper, heavy-tailed": "heavy-tailed"}  # the small fleet that a fleet resembles most


def predictions_table(found: Outcomes, cells: Sequence[Cell], small: Sequence[Cell]) -> str:
    """Return how well the order of entries in small cells predicts that on CIFAR-10, by fleet."""
    from scipy.stats import spearmanr

    rows = []
    for cell in cells:
        like = [one.name for one in small if one.fleet_name == NEAREST[cell.fleet_name] and one.dealt == cell.dealt]
        if cell.name not in found or not all(name in found for name in like):
            continue
        mine = found[cell.name]
        expected = [mean_over_best(found, like, entry) for entry in mine]
        losses = spearmanr(expected, [one.loss for one in mine.values()]).statistic
        accuracies = spearmanr(expected, [-one.accuracy for one in mine.values()]).statistic
        rows.append([FLEETS[cell.fleet_name], f"{losses:.2f}", f"{accuracies:.2f}"])
    head = ["fleet", "rank correlation, by loss", "by accuracy"]
    return markdown(head, rows) if rows else "Not trained yet."


def _error(values: Sequence[float]) -> float:
    return stdev(values) / sqrt(len(values))


def percent(share: float) -> str:
    return f"{100 * share:.1f}%" if isfinite(share) else "diverged"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
