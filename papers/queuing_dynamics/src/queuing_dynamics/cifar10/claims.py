"""Claims about CIFAR-10: first orders, then sizes of differences, levels, what a user would want, and the search."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf, sqrt
from statistics import fmean
from typing import Any

from queuing_dynamics.cifar10.compared import LAST_PART, MEASURES, Runs, differences, levels
from queuing_dynamics.cifar10.readings import FASTER, IDLE, PAPER, PLANNED, PURE, ROOT, SPEED, UNWEIGHTED, readings
from queuing_dynamics.cifar10.settled import ENDS, Standing
from queuing_dynamics.cifar10.size import Size
from queuing_dynamics.tuned import EDGES, Best
from sojourn.experiments.cells import EndedCell
from sojourn.report.reproduction.claim import CSV_ONLY, Claim, above, claim, numbers

TITLES = {
    "fedbuff": "FedBuff",
    "asyncsgd": "AsyncSGD",
    "generalized": "Generalized AsyncSGD",
    FASTER: "Generalized AsyncSGD, fast clients favoured",
    ROOT: "Generalized AsyncSGD, by the root of speed",
    SPEED: "Generalized AsyncSGD, by speed",
    PLANNED: "Generalized AsyncSGD, the planner's plan",
    IDLE: "FedBuff, tasks to idle clients",
    PURE: "AsyncSGD, tasks to the finisher",
    UNWEIGHTED: "AsyncSGD, by speed without weights",
}
SHORT = {"fedbuff": "FedBuff", "asyncsgd": "AsyncSGD", "generalized": "Generalized"}
TWO_WAYS = "mean / last"
"""How a run is read, on the page: its mean over the last part of the way, and its last model."""
PAIRS = (("generalized", "asyncsgd"), ("asyncsgd", "fedbuff"), ("generalized", "fedbuff"))
UNITS = {
    "received": ("update", "updates"),
    "time": ("unit of time", "units of time"),
    "version": ("server step", "steps"),
}
TARGET = 66.0
SEEDS_OF_THE_PAPER = 10
BOTH = f"over the {LAST_PART} of the way, and by the last model"
ORDER = (
    "confirmed where the 95% interval of the paired difference is above zero, contradicted where it is below, "
    f"open where it holds zero; {BOTH}"
)
NEAREST = f"nearest of {len(list(readings()))} readings"
"""Added to every row under the settled reading, which was chosen by the paper's three accuracies."""
CHOSEN = "the reading was chosen to come near it"

Row = Mapping[str, Any]


def orders(runs: Runs, axis: str) -> list[Claim]:
    """Return claims on which method is above which on an axis; also per server step if that is not one update."""
    pairs = [pair for pair in PAIRS if axis != "version" or "fedbuff" in pair]
    rows = list(differences(runs, pairs, [axis]))
    return [_order(*rows[first : first + len(MEASURES)]) for first in range(0, len(rows), len(MEASURES))]


def sizes(runs: Runs) -> list[Claim]:
    """Return claims on the differences per update, compared with what the paper prints."""
    rows = list(differences(runs, PAIRS, ["received"]))
    return [_size(*rows[first : first + len(MEASURES)]) for first in range(0, len(rows), len(MEASURES))]


def levels_of(size: Size, runs: Runs, rates: Mapping[str, float], found: Standing) -> list[Claim]:
    """Return claims on the accuracies of the three methods, and on whether the paper's is reached."""
    every = list(levels(runs, rates))
    by_method = {one.name: [row for row in every if row["method"] == one.name] for one in PAPER}
    made = [_level(one.name, one.paper, one.spread, *by_method[one.name]) for one in PAPER]
    return [*made, _target(size, found, *by_method["generalized"])]


def of_users(size: Size, runs: Runs, settings: Mapping[str, str], rates: Mapping[str, float]) -> list[Claim]:
    """Return claims on each method at its best in the same simulated time, the best over its last part first."""
    every = list(levels(runs, rates, "time"))
    rows = {method: [row for row in every if row["method"] == method] for method in runs}
    pairs = [(method, "asyncsgd") for method in runs if method != "asyncsgd"]
    found = list(differences(runs, pairs, ["time"]))
    apart = {method: [row for row in found if row["method"] == method] for method, _ in pairs}
    return [
        _of_user(size, method, rows[method], apart.get(method, []), runs[method], settings[method])
        for method in sorted(runs, key=lambda method: -_or_least(rows[method][0]["accuracy"]))
    ]


def of_the_tasks(found: Mapping[str, Mapping[int, Best]]) -> list[Claim]:
    """Return claims on the result of every number of tasks in that time, on held-out examples."""
    return [_tasks(method, [(many, mine[many]) for many in sorted(mine)]) for method, mine in found.items()]


def of_the_rates(tried: Mapping[str, Mapping[float, float]], best: Mapping[str, Best]) -> list[Claim]:
    """Return claims on the result of every step size under the settled reading, on held-out examples."""
    return [
        claim(
            f"{TITLES[method]} under the settled reading, held out, at rates {numbers_of(grid)}",
            "-",
            numbers([grid[rate] for rate in sorted(grid)], 3, "%"),
            error="-",
            note=f"chosen: {best[method].rate:g}",
            short=CSV_ONLY,
        )
        for method, grid in tried.items()
    ]


def of_the_readings(size: Size, every: Sequence[Standing]) -> list[Claim]:
    """Return one claim per reading, the nearest first; of those that differ only in where FedBuff
    is read, the nearer.
    """
    firsts: dict[str, Standing] = {}
    for one in every:
        firsts.setdefault(one.reading.name(size), one)
    return [_reading(name, one) for name, one in firsts.items()]


def numbers_of(grid: Mapping[float, Any]) -> str:
    """Return step sizes separated by slashes."""
    return " / ".join(f"{rate:.3g}" for rate in sorted(grid))


def _order(part: Row, last: Row) -> Claim:
    """Return a claim that is confirmed, refuted, or too close to call; not judged if a run diverged."""
    one, other = part["method"], part["less"]
    per, many = UNITS[part["axis"]]
    steps = "; a server step of FedBuff takes a buffer of updates" if part["axis"] == "version" else ""
    holds = [above(row["difference_low"], row["difference_high"]) for row in (part, last)]
    return claim(
        f"{TITLES[one]} above {TITLES[other]}, per {per}, {NEAREST}",
        "above",
        f"{part['difference']:+.1f} / {last['difference']:+.1f} points",
        error=f"95%: {_range(part)} / {_range(last)}",
        holds=holds if _known(part, last) else (),
        rule=ORDER,
        note=f"at {part['at']:.4g} {many}{steps}; the paper "
        + ("has it per CS step" if part["axis"] != "time" else "states no time"),
        short=f"{SHORT[one]} above {SHORT[other]}, per {per}",
        parts=TWO_WAYS,
        brief=_stroked(_with_range(row) for row in (part, last)),
    )


def _size(part: Row, last: Row) -> Claim:
    printed = {one.name: one.paper for one in PAPER}
    theirs = printed[part["method"]] - printed[part["less"]]
    inside = [row["difference_low"] <= theirs <= row["difference_high"] for row in (part, last)]
    return claim(
        f"{TITLES[part['method']]} less {TITLES[part['less']]}, per update, {NEAREST}",
        f"{theirs:+.1f} points",
        f"{part['difference']:+.1f} / {last['difference']:+.1f} points",
        error=f"95%: {_range(part)} / {_range(last)}",
        holds=inside if _known(part, last) else (),
        rule=f"the paper's difference lies within the 95% interval, {BOTH}",
        note=CHOSEN,
        short=f"{SHORT[part['method']]} less {SHORT[part['less']]}, per update",
        parts=TWO_WAYS,
        brief=_stroked(_with_range(row) for row in (part, last)),
    )


def _level(method: str, paper: float, spread: float, part: Row, last: Row) -> Claim:
    near = [
        abs(row["accuracy"] - paper) <= 2 * sqrt(_error(row) ** 2 + spread**2 / SEEDS_OF_THE_PAPER)
        for row in (part, last)
    ]
    return claim(
        f"test accuracy of {TITLES[method]}, {NEAREST}",
        f"{paper:.2f} ± {spread:.2f}%",
        _stroked(f"{row['accuracy']:.2f} ± {row['deviation']:.2f}%" for row in (part, last)),
        error=_stroked(f"{_error(row):.2f}" for row in (part, last)),
        holds=near if part["accuracy"] == part["accuracy"] else (),
        rule=f"means within two standard errors of their difference, {BOTH}; ± is the deviation between seeds",
        note=f"95%: {_stroked(_range(row, 'accuracy', '') for row in (part, last))}; rate {part['rate']:g}, "
        f"{part['seeds']} seeds; {CHOSEN}",
        short=f"accuracy of {SHORT[method]}",
        parts=TWO_WAYS,
        brief=_stroked(f"{row['accuracy']:.2f} ± {row['deviation']:.2f}%" for row in (part, last)),
    )


def _of_user(
    size: Size, method: str, both: Sequence[Row], apart: Sequence[Row], runs: Mapping[int, EndedCell], setting: str
) -> Claim:
    less = f"; less AsyncSGD {_stroked(_with_range(row) for row in apart)}" if apart else ""
    keys = ("received", "staleness", "client_worst")
    received, staleness, worst = (fmean(run.last[key] for run in runs.values()) for key in keys)
    return claim(
        f"{TITLES[method]}, tuned for virtual time {size.time:g}",
        "-",
        _stroked(f"{row['accuracy']:.1f}%" for row in both),
        error=_stroked(f"{_error(row):.1f}" for row in both),
        note=f"{setting}, {received:,.0f} updates, staleness {staleness:.1f}, worst client {worst:.1%}; "
        f"95%: {_stroked(_range(row, 'accuracy', '') for row in both)}{less}",
        short=CSV_ONLY,
    )


def _tasks(method: str, tried: Sequence[tuple[int, Best]]) -> Claim:
    rates = "rate" if len(tried) == 1 else "rates"
    chosen = max(tried, key=lambda one: one[1].accuracy)[0]
    return claim(
        f"{TITLES[method]}, held out, with {_stroked(str(many) for many, _ in tried)} tasks",
        "-",
        numbers([best.accuracy for _, best in tried], 3, "%"),
        error="-",
        note=f"{rates} {_stroked(_rate(best) for _, best in tried)}"
        + (f"; best with {chosen}" if len(tried) > 1 else ""),
        short=CSV_ONLY,
    )


def _target(size: Size, found: Standing, part: Row, last: Row) -> Claim:
    values = [row["accuracy"] for row in (part, last)]
    holds = [above(row["accuracy_low"], row["accuracy_high"], TARGET) for row in (part, last)]
    return claim(
        f"Generalized AsyncSGD reaches {TARGET:g}%, {NEAREST}",
        f"{PAPER[-1].paper}%",
        numbers(values, 3, "%"),
        error=f"95%: {_stroked(_range(row, 'accuracy', '') for row in (part, last))}",
        holds=holds if part["accuracy"] == part["accuracy"] else (),
        rule=f"confirmed where the 95% interval is above {TARGET:g}%, contradicted where it is below, open where it "
        f"holds {TARGET:g}%; {BOTH}",
        note=f"settled: {found.reading.name(size)}; FedBuff read {ENDS[found.end]}",
        short=f"Generalized reaches {TARGET:g}%",
        parts=TWO_WAYS,
        brief=_stroked(f"{row['accuracy']:.1f}% ({_range(row, 'accuracy', '')})" for row in (part, last)),
    )


def _reading(name: str, one: Standing) -> Claim:
    best = [one.best[contestant.name] for contestant in PAPER]
    return claim(
        f"reading: {name}",
        numbers([contestant.paper for contestant in PAPER], 3, "%"),
        numbers([each.accuracy for each in best], 3, "%"),
        error="-",
        note=f"{one.distance:.1f} points away in all; FedBuff read {ENDS[one.end]}; rates "
        + _stroked(map(_rate, best)),
        short=CSV_ONLY,
    )


def _rate(best: Best) -> str:
    return f"{best.rate:.3g}{EDGES[best.edge]}"


def _known(*rows: Row) -> bool:
    return all(row["difference_low"] == row["difference_low"] for row in rows)


def _error(row: Row) -> float:
    """Return the standard error of a level."""
    return float(row["deviation"]) / sqrt(row["seeds"])


def _or_least(value: float) -> float:
    """Return the number, or minus infinity if a run diverged and there is none."""
    return value if value == value else -inf


def _range(row: Row, key: str = "difference", sign: str = "+") -> str:
    return f"{row[f'{key}_low']:{sign}.1f} to {row[f'{key}_high']:{sign}.1f}"


def _with_range(row: Row) -> str:
    return f"{row['difference']:+.1f} ({_range(row)})"


def _stroked(parts: Iterable[str]) -> str:
    """Return parts separated by slashes."""
    return " / ".join(parts)
