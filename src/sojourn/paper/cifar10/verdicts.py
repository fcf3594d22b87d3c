"""What the table of CIFAR-10 says: levels of the methods, their paired differences on every axis, and claims of these.

A run is read in two ways: its last model, as the paper does, and its mean over the last part of the way, by which rates
were chosen; the second swings less, so orders are judged by it. On an axis two methods are compared where the shortest
of their runs ends; between evaluations accuracies are interpolated.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import nan, sqrt
from typing import Any

import numpy as np

from sojourn.paper.cifar10.readings import PAPER
from sojourn.paper.cifar10.settled import ENDS, Standing
from sojourn.paper.cifar10.size import Size
from sojourn.paper.claim import Claim, claim
from sojourn.paper.tuned import LAST
from sojourn.sweep.axes import at_points, common_end
from sojourn.sweep.found import Found
from sojourn.sweep.interval import Interval, interval

Runs = Mapping[str, Mapping[int, Found]]
"""By method, then by seed."""
TITLES = {"fedbuff": "FedBuff", "asyncsgd": "AsyncSGD", "generalized": "Generalized AsyncSGD"}
PAIRS = (("generalized", "asyncsgd"), ("asyncsgd", "fedbuff"))
AXES = {"received": "update", "time": "unit of time", "version": "server step", "gradients": "gradient"}
LAST_MODEL, LAST_PART = "last model", f"last {LAST:.0%} of the way"
TARGET = 66.0
NEAR = 5.0  # points
SEEDS_OF_THE_PAPER = 10
POINTS = 31  # of the last part
RULE = "the 95% interval of the paired difference lies above zero; partly, too close to call, where it holds zero"


def read(run: Found, measure: str, axis: str, at: float) -> float:
    """Accuracy of a run at a point of an axis, in percent; NaN of one that diverged."""
    if run.diverged:
        return nan
    begin = at if measure == LAST_MODEL else (1 - LAST) * at
    return 100 * float(at_points(run, axis, "accuracy", np.linspace(begin, at, POINTS)).mean())


def levels(runs: Runs, rates: Mapping[str, float]) -> list[dict[str, Any]]:
    """Each method at the end of its runs, read in both ways."""
    rows = []
    for method, mine in runs.items():
        for measure in (LAST_MODEL, LAST_PART):
            values = [read(run, measure, "received", run.last["received"]) for run in mine.values()]
            deviation = float(np.std(values, ddof=1)) if len(values) > 1 else nan
            row = {"method": method, "rate": rates[method], "seeds": len(values), "measure": measure}
            rows.append({**row, "deviation": deviation, **interval(values).named("accuracy")})
    return rows


def differences(runs: Runs, pairs: Sequence[tuple[str, str]] = PAIRS) -> Iterator[dict[str, Any]]:
    """Paired by seed, on every axis, read in both ways."""
    for axis in AXES:
        for one, other in pairs:
            at = common_end([*runs[one].values(), *runs[other].values()], axis)
            for measure in (LAST_MODEL, LAST_PART):
                mine, theirs = ({s: read(r, measure, axis, at) for s, r in runs[name].items()} for name in (one, other))
                apart = interval(mine[seed] - theirs[seed] for seed in mine if seed in theirs)
                row = {"axis": axis, "at": at, "method": one, "less": other, "measure": measure}
                yield {**row, **apart.named("difference")}


def of_the_table(size: Size, runs: Runs, found: Standing, rates: Mapping[str, float]) -> list[Claim]:
    """Orders first, then levels."""
    apart = {(row["axis"], row["method"], row["measure"]): row for row in differences(runs)}
    made = [
        _order(one, other, word, *(apart[axis, one, measure] for measure in (LAST_PART, LAST_MODEL)))
        for axis, word in AXES.items()
        for one, other in PAIRS
        if axis in ("received", "time") or (axis == "version" and other == "fedbuff")  # elsewhere they are the updates
    ]
    level = {(row["method"], row["measure"]): row for row in levels(runs, rates)}
    for one in PAPER:
        rows = [level[one.name, measure] for measure in (LAST_MODEL, LAST_PART)]
        made.append(_level(one.name, one.paper, one.spread, *rows))
    return [*made, _target(size, found, level["generalized", LAST_MODEL], level["generalized", LAST_PART])]


def of_the_readings(size: Size, every: Sequence[Standing]) -> list[Claim]:
    """One claim a reading, the nearest first; of those that differ in where FedBuff is read only the nearer."""
    firsts: dict[str, Standing] = {}
    for one in every:
        firsts.setdefault(one.reading.name(size), one)
    return [_reading(name, one) for name, one in firsts.items()]


def of_users(size: Size, best: Runs, settings: Mapping[str, str]) -> list[Claim]:
    """Each method at its best; differences from AsyncSGD, paired by seed."""
    rows = {row["method"]: row for row in levels(best, dict.fromkeys(best, nan)) if row["measure"] == LAST_PART}
    pairs = [(method, "asyncsgd") for method in best if method != "asyncsgd"]
    apart = {row["method"]: row for row in differences(best, pairs) if (row["axis"], row["measure"]) == AT_TIME}
    return [
        claim(
            f"{method}, tuned for virtual time {size.time:g}",
            "-",
            f"{row['accuracy']:.1f}%",
            error=_error(row),
            note=settings[method] + (f"; {_apart(apart[method], 'AsyncSGD')}" if method in apart else ""),
        )
        for method, row in sorted(rows.items(), key=lambda pair: -pair[1]["accuracy"])
    ]


AT_TIME = ("time", LAST_PART)


def _order(one: str, other: str, word: str, part: Mapping[str, Any], last: Mapping[str, Any]) -> Claim:
    """An order is confirmed, refuted, or too close to call."""
    numbers = {method.name: method.paper for method in PAPER}
    steps = "; a server step of FedBuff takes a buffer of updates" if part["axis"] == "version" else ""
    low, high = part["difference_low"], part["difference_high"]
    return claim(
        f"{TITLES[one]} above {TITLES[other]}, per {word}",
        f"+{numbers[one] - numbers[other]:.1f} points",
        f"{part['difference']:+.1f} points",
        error=f"95%: {low:+.1f} to {high:+.1f}",
        holds=[high > 0, low > 0],
        rule=RULE,
        note=f"at {part['at']:.4g}; by the last model {_interval(last, 'difference')}{steps}",
    )


def _level(method: str, paper: float, spread: float, last: Mapping[str, Any], part: Mapping[str, Any]) -> Claim:
    both = sqrt(float(_error(last)) ** 2 + spread**2 / SEEDS_OF_THE_PAPER)
    return claim(
        f"test accuracy of {TITLES[method]}, last model",
        f"{paper:.2f} ± {spread:.2f}%",
        f"{last['accuracy']:.2f} ± {last['deviation']:.2f}%",
        error=_error(last),
        holds=[abs(last["accuracy"] - paper) <= 2 * both],
        rule="means within two standard errors of their difference; ± is the deviation between seeds",
        note=f"95% interval {last['accuracy_low']:.1f} to {last['accuracy_high']:.1f}; mean over the {LAST_PART} "
        f"{part['accuracy']:.1f} ± {part['deviation']:.1f}%; rate {last['rate']:g}, {last['seeds']} seeds",
    )


def _target(size: Size, found: Standing, last: Mapping[str, Any], part: Mapping[str, Any]) -> Claim:
    return claim(
        "Generalized AsyncSGD reaches the paper's level under the settled reading",
        "66.61%",
        f"{last['accuracy']:.1f}%",
        error=_error(last),
        holds=[last["accuracy"] >= TARGET],
        rule=f"at least {TARGET:g}%",
        note=f"settled: {found.reading.name(size)}; FedBuff read {ENDS[found.buffered]}; over the {LAST_PART} "
        f"{part['accuracy']:.1f}%",
    )


def _reading(name: str, one: Standing) -> Claim:
    if not one.best:
        return claim(f"reading: {name}", "-", "not tried whole", error="-")
    numbers = [(best.accuracy, contestant.paper) for contestant in PAPER for best in [one.best[contestant.name]]]
    rates = " / ".join(f"{one.best[contestant.name].rate:.3g}" for contestant in PAPER)
    return claim(
        f"reading: {name}",
        " / ".join(f"{paper:.1f}" for _, paper in numbers) + "%",
        " / ".join(f"{ours:.1f}" for ours, _ in numbers) + "%",
        error="-",
        holds=[abs(ours - paper) <= NEAR for ours, paper in numbers],
        rule=f"FedBuff / AsyncSGD / Generalized AsyncSGD each within {NEAR:g} points",
        note=f"{one.distance:.1f} points away in all; FedBuff read {ENDS[one.buffered]}; held-out accuracy over the "
        f"{LAST_PART}, best rates {rates}",
    )


def _error(row: Mapping[str, Any]) -> str:
    """Standard error of a level."""
    return f"{row['deviation'] / sqrt(row['seeds']):.1f}"


def _apart(row: Mapping[str, Any], other: str) -> str:
    return f"less {other} {_interval(row, 'difference')}"


def _interval(row: Mapping[str, Any], key: str) -> str:
    found = Interval(row[key], row[f"{key}_low"], row[f"{key}_high"])
    return f"{found.mean:+.1f} ({found.low:+.1f} to {found.high:+.1f})"
