"""The results of runs: means with intervals and paired differences on four axes, and the cost of a target."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, isfinite, nan, sqrt
from statistics import median
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sojourn.bounds import AMOUNT, ANY, Bounds, bounds_of, cut, of_differences
from sojourn.errors import InvalidInput
from sojourn.text import listed
from sojourn.types import Floats

AXES = {
    "time": "virtual time",
    "received": "updates received",
    "version": "server steps",
    "gradients": "gradients computed",
}
COLUMNS = ("accuracy", "test_loss", "client_worst", "client_10", "client_50", "client_90")
LEVEL = 0.95
RISING = ("accuracy", "client_worst", "client_10", "client_50", "client_90")
FALLING = ("test_loss", "train_loss")
POINTS = 101  # points of a curve


class Judged(Protocol):
    """A run that has ended, as far as its statistics need it."""

    @property
    def diverged(self) -> bool:
        """Whether it ended with numbers that are not finite."""

    @property
    def budget(self) -> float | None:
        """Its virtual time; None = it ends with its last evaluation."""

    @property
    def rows(self) -> list[dict[str, float]]:
        """Its metrics, one row per evaluation."""

    @property
    def facts(self) -> dict[str, Any]:
        """The contents of its config.json."""

    def column(self, key: str) -> Floats:
        """A column of the metrics."""


def end_of(run: Judged, axis: str) -> float:
    """The value on an axis where a run ends; inf for a run that diverged, so that it does not shorten the others."""
    if run.diverged:
        return inf
    return float(run.budget if axis == "time" and run.budget is not None else run.rows[-1][axis])


def common_end(runs: Iterable[Judged], axis: str) -> float:
    """The largest value on an axis that all runs reach; NaN if every run diverged."""
    end = min((end_of(run, axis) for run in runs), default=inf)
    return end if end < inf else float("nan")


def at_points(run: Judged, axis: str, key: str, at: Floats) -> Floats:
    """A column of the metrics at points of an axis, by linear interpolation; NaN beyond the end of the run.

    Each algorithm is evaluated at its own points, so the last evaluation before a point would put it at a disadvantage.
    """
    where, values = run.column(axis), run.column(key)
    last = where[-1] if run.diverged else end_of(run, axis)
    return np.where(at <= last, np.interp(at, where, values), np.nan)


class Interval(NamedTuple):
    """A mean and its interval."""

    mean: float
    """The mean over the seeds; NaN if a seed has no value, because the mean of the others would look too good."""
    low: float
    """Lower end; NaN with fewer than two values."""
    high: float
    """Upper end."""

    @property
    def half(self) -> float:
        """Half its width."""
        return (self.high - self.low) / 2

    def named(self, key: str) -> dict[str, float]:
        """The mean and its ends, as columns of a table."""
        return {key: self.mean, f"{key}_low": self.low, f"{key}_high": self.high}


def interval(values: Iterable[float], level: float = LEVEL, within: Bounds = ANY) -> Interval:
    """The mean of independent values, and the interval that covers the true mean with probability `level`.

    It is Student's interval, cut at the bounds `within` which the values lie.

    By hand: 1, 2, 3 have the mean 2 and the standard error 1/sqrt(3); 4.3027 of these are 95% with two degrees of
    freedom.

    >>> [round(value, 4) for value in interval([1.0, 2.0, 3.0])]
    [2.0, -0.4841, 4.4841]
    """
    given = np.asarray(list(values), dtype=np.float64)
    if given.size == 0 or np.isnan(given).any():
        return Interval(nan, nan, nan)
    mean = float(given.mean())
    if given.size == 1:
        return Interval(mean, nan, nan)
    from scipy.special import stdtrit

    reach = float(stdtrit(given.size - 1, (1 + level) / 2)) * float(given.std(ddof=1)) / sqrt(given.size)
    low, high = cut(mean - reach, mean + reach, within)
    return Interval(mean, float(low), float(high))


@dataclass(frozen=True)
class Target:
    """A target, reached at the first evaluation that is at least as good.

    >>> str(Target.parse("accuracy=0.9")), Target.parse("test_loss=0.5").first(np.array([2.0, 0.4, 0.6]))
    ('accuracy=0.9', 1)
    """

    key: str
    """Column of the metrics."""
    value: float
    """Accuracies reach it from below, losses from above."""

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Read `accuracy=0.9`."""
        key, _, value = (word.strip() for word in text.partition("="))
        if key not in (*RISING, *FALLING):
            raise InvalidInput(f"target must be {listed((*RISING, *FALLING))} with a value, got '{text}'")
        try:
            if not isfinite(float(value)):
                raise ValueError
            return cls(key, float(value))
        except ValueError:
            raise InvalidInput(f"target must read like accuracy=0.9, got '{text}'") from None

    def __str__(self) -> str:
        return f"{self.key}={self.value:g}"

    def first(self, values: NDArray[np.float64]) -> int | None:
        """Index of the first value that is good enough; None = there is none."""
        good = values >= self.value if self.key in RISING else values <= self.value
        return int(np.argmax(good)) if good.any() else None


Runs = Mapping[str, Mapping[int, Judged]]
"""Runs by algorithm, then by seed."""


def judged_by(runs: Runs) -> str:
    """The column that runs are judged by: accuracy, or the loss where there are no classes."""
    firsts = [run.rows[0]["accuracy"] for mine in runs.values() for run in mine.values()]
    return "accuracy" if all(value == value for value in firsts) else "test_loss"


def standing(runs: Runs, baseline: str | None, target: Target | None = None) -> list[dict[str, Any]]:
    """One row per algorithm and axis, each at the largest value of the axis that all runs reach."""
    key, every = judged_by(runs), [run for mine in runs.values() for run in mine.values()]
    base = runs.get(str(baseline), {})
    rows = []
    for name, mine in runs.items():
        for axis in AXES:
            at = common_end(every, axis)
            row = {"algorithm": name, "runs": len(mine), "diverged": sum(run.diverged for run in mine.values())}
            row |= {"axis": axis, "at": at, "judged_by": key}
            row |= _values(mine, axis, at, key)
            row |= _difference(mine, base, axis, at, key) if name != baseline else {}
            if target is not None:
                row |= cost_of(mine, base if name != baseline else {}, axis, target)
            rows.append(row)
    return rows


def _at(runs: Mapping[int, Judged], axis: str, at: float, key: str) -> dict[int, float]:
    """The value of each run at a point; NaN for a run that diverged, before or after the point."""
    return {
        seed: nan if run.diverged else float(at_points(run, axis, key, np.array([at]))[0]) for seed, run in runs.items()
    }


def _bounds(runs: Mapping[int, Judged], column: str) -> Bounds:
    """The bounds of a column of the metrics; for losses, the bounds that hold for the losses of all runs."""
    told = [run.facts["config"] for run in runs.values()]
    every = [bounds_of(column, one.get("loss") if isinstance(one, Mapping) else None) for one in told]
    return min(low for low, _ in every), max(high for _, high in every)


def _values(runs: Mapping[int, Judged], axis: str, at: float, key: str) -> dict[str, float]:
    def found(column: str) -> Interval:
        return interval(_at(runs, axis, at, column).values(), within=_bounds(runs, column))

    values: dict[str, float] = found(key).named("mean")
    for column in COLUMNS:
        values |= found(column).named(column)
    return values


def _difference(
    runs: Mapping[int, Judged], base: Mapping[int, Judged], axis: str, at: float, key: str
) -> dict[str, float]:
    mine, theirs = _at(runs, axis, at, key), _at(base, axis, at, key)
    pairs = (mine[seed] - theirs[seed] for seed in mine if seed in theirs)
    return interval(pairs, within=of_differences(_bounds(runs, key))).named("difference")


def to_target(run: Judged, axis: str, target: Target) -> float:
    """What the target cost a run; inf = it was not reached, or the run diverged."""
    if run.diverged:
        return inf
    first = target.first(run.column(target.key))
    return inf if first is None else float(run.rows[first][axis])


def cost_of(runs: Mapping[int, Judged], base: Mapping[int, Judged], axis: str, target: Target) -> dict[str, Any]:
    """What the target cost: a mean only where every run reached it, a median where most did."""
    mine = {seed: to_target(run, axis, target) for seed, run in runs.items()}
    theirs = {seed: to_target(run, axis, target) for seed, run in base.items()}
    reached = sum(cost < inf for cost in mine.values())
    middle = median(mine.values()) if mine else inf
    both = [(mine[seed], theirs[seed]) for seed in mine if seed in theirs]
    return {
        "target": str(target),
        "reached": reached,
        "not_reached": len(mine) - reached,
        **interval((cost if cost < inf else nan for cost in mine.values()), within=AMOUNT).named("to_target"),
        "to_target_median": middle if middle < inf else nan,
        **interval(one - two if max(one, two) < inf else nan for one, two in both).named("to_target_difference"),
    }


def curves(runs: Runs) -> Iterator[dict[str, Any]]:
    """Mean curves of every algorithm on every axis, up to the point that all its runs reach."""
    for name, mine in runs.items():
        for axis in AXES:
            end = common_end(mine.values(), axis)
            if np.isnan(end):
                continue
            at = np.linspace(0.0, end, POINTS)
            found = {key: np.array([at_points(run, axis, key, at) for run in mine.values()]) for key in COLUMNS}
            bounds = {key: _bounds(mine, key) for key in COLUMNS}
            for index, point in enumerate(at):
                row: dict[str, Any] = {"algorithm": name, "axis": axis, "at": float(point), "runs": len(mine)}
                for key, values in found.items():
                    row |= interval(values[:, index], within=bounds[key]).named(key)
                yield row
