"""Make a landscape from what was measured at points of a training.

sigma^2 and G^2 (means over the clients) are fitted as slope * (loss - lowest) + floor, with neither negative, by
weighted least squares to the points, and to the lowest loss that was reached, where they are measured too. The weight
of a point depends on its interval and on the relative scatter of the points around the line, which is chosen so large
that it explains the misfit (Paule and Mandel), because a network is not a quadratic. The intervals come from refits to
values redrawn with these errors.

Curvatures are means over the points. Beyond the leading ones they continue as a power law whose sum over all parameters
gives the measured trace; the twin takes the first 40. (Putting the whole trace into 40 directions would make the
problem too easy.)

The first model is left out if two other points remain: its spectrum is flat, its noise is small, and training leaves it
soon.
"""

from collections.abc import Sequence
from math import isfinite
from statistics import NormalDist
from typing import NamedTuple, TypeVar

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.landscape import DIRECTIONS, Landscape
from sojourn.measured import LowestMeasured, Measured, PointMeasured
from sojourn.types import Floats

Point = TypeVar("Point")
DRAWS = 2000
FAR = 1e60  # no measured number is this large
STEEPEST = 4.0  # largest power of a tail, where little or nothing of the trace is left for it


class Line(NamedTuple):
    """value = slope * (loss - lowest) + floor."""

    slope: Measured
    """Per unit of loss."""
    floor: Measured
    """At the lowest loss."""


def settled(points: Sequence[Point]) -> Sequence[Point]:
    """Return the points that count: all but the first model, if two others remain."""
    return points[1:] if len(points) > 2 else points


def fit_line(above: Floats, values: Sequence[Measured], confidence: float) -> Line:
    """Fit how values fall with the loss above its lowest value."""
    seen = np.array([one.value for one in values])
    if not seen.any() and not any(one.high for one in values):
        return Line(Measured(0.0, 0.0, 0.0), Measured(0.0, 0.0, 0.0))
    wide = NormalDist().inv_cdf((1 + confidence) / 2)
    errors = np.array([max(one.high - one.value, one.value - one.low) for one in values]) / wide
    least = max(1e-9 * max(seen.max(), errors.max()), 1e-100)
    variance = _scattered(above, seen, np.square(np.clip(errors, least, 1e120)))
    slope, floor = _lines(above, seen[None], 1 / variance)
    drawn = slope[0] * above + floor[0] + np.sqrt(variance) * np.random.default_rng(0).normal(size=(DRAWS, seen.size))
    ends = [(1 - confidence) / 2, (1 + confidence) / 2]
    found = zip((slope, floor), _lines(above, drawn, 1 / variance), strict=True)
    slopes, floors = (_around(float(value[0]), np.quantile(many, ends)) for value, many in found)
    return Line(slopes, floors)


def _around(value: float, ends: Floats) -> Measured:
    return Measured(value, min(value, float(ends[0])), max(value, float(ends[1])))


def _lines(above: Floats, rows: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return slope and floor of each row, none negative: the full line, or the better of the two lines without one of
    them.
    """
    total, first, second = weights.sum(), weights @ above, weights @ above**2
    y, xy = rows @ weights, rows @ (weights * above)
    lonely = np.maximum(0.0, xy / second) if second > 0 else np.zeros(len(rows))
    level = np.maximum(0.0, y / total)
    spread = total * second - first**2
    if spread <= 1e-12 * total * second:  # all points have the same loss: slope and floor cannot be told apart
        return (lonely, np.zeros(len(rows))) if second > 0 else (lonely, level)
    slope, floor = (total * xy - first * y) / spread, (second * y - first * xy) / spread
    return (
        np.where(slope < 0, 0.0, np.where(floor < 0, lonely, slope)),
        np.where(slope < 0, level, np.where(floor < 0, 0.0, floor)),
    )


def _scattered(above: Floats, seen: Floats, measured: Floats) -> Floats:
    """Return the variances of the points: the measured ones plus a common relative scatter that explains the rest."""

    def misfit(scatter: float) -> tuple[float, Floats]:
        variance = measured
        for _ in range(8):  # the scatter is relative to the line, the line depends on the weights
            slope, floor = _lines(above, seen[None], 1 / variance)
            line = slope[0] * above + floor[0]
            variance = measured + (scatter * line) ** 2
        return float((np.square(seen - line) / variance).sum()), variance

    freedom = seen.size - 2
    low, high = 0.0, 4.0
    if freedom < 1 or misfit(low)[0] <= freedom:
        return measured
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (middle, high) if misfit(middle)[0] > freedom else (low, middle)
    return misfit(high)[1]


def fit_spectrum(points: Sequence[PointMeasured], parameters: int) -> Floats:
    """Return the curvatures of at most 40 directions, in falling order."""
    many = min(len(one.eigenvalues) for one in points)
    lead: Floats = np.mean([one.eigenvalues[:many] for one in points], axis=0)
    lead = lead[lead > 1e-6 * max(lead[0], 1e-300)][:DIRECTIONS]
    rest = min(DIRECTIONS, parameters) - lead.size
    if rest <= 0 or lead.size == 0:
        return lead
    traces = [one.trace.value for one in points if one.trace is not None]
    if traces:
        power = _power_of(lead.size, parameters, float(np.mean(traces) - lead.sum()) / lead[-1])
    else:
        power = _slope_of(lead)
    return np.concatenate([lead, lead[-1] * (np.arange(lead.size + 1, lead.size + rest + 1) / lead.size) ** -power])


def _power_of(last: int, parameters: int, left: float) -> float:
    """Return the power of a tail from `last` to all parameters whose sum is what is left of the trace, as far as
    possible.
    """
    low, high = 0.0, STEEPEST
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _tail(last, parameters, middle) > left else (low, middle)
    return high


def _tail(last: int, parameters: int, power: float) -> float:
    """Return the sum of (j / last)^-power over j from last + 1 to parameters; beyond ten thousand as an integral."""
    near = min(parameters, 10_000)
    total = float(((np.arange(last + 1, near + 1) / last) ** -power).sum())
    if parameters > near:
        ends = (np.array([near, parameters]) + 0.5) / last
        area = np.log(ends) if abs(power - 1) < 1e-9 else ends ** (1 - power) / (1 - power)
        total += last * float(area[1] - area[0])
    return total


def _slope_of(lead: Floats) -> float:
    """Return the power of the leading curvatures, for when no trace was measured; 1 if they are too few to tell."""
    if lead.size < 3:
        return 1.0
    return float(np.clip(-np.polyfit(np.log(np.arange(1, lead.size + 1)), np.log(lead), 1)[0], 0.0, STEEPEST))


def measured_landscape(
    points: Sequence[PointMeasured],
    gap: Measured,
    lowest: LowestMeasured | None,
    between: Measured,
    confidence: float,
    parameters: int,
) -> Landscape:
    """Make a Landscape from points of a training, the first loss minus the lowest, and what only one speed group knows.

    If the lowest loss was not measured (a sample of the examples cannot tell it), it is taken to be zero, where that is
    possible.
    """
    _check(points, gap, lowest, confidence)
    kept, first = settled(points), points[0].loss.value
    if lowest is None and isfinite(gap.high):
        gap = Measured(first, min(gap.low, first), max(gap.high, first))
    least = max(0.0, first - gap.value)
    rows: list[PointMeasured | LowestMeasured] = [*kept, *([lowest] if lowest is not None else [])]
    above = np.array([max(0.0, one.loss.value - least) for one in kept] + [0.0] * (lowest is not None))
    noise = fit_line(above, [one.sigma2_mean for one in rows], confidence)
    apart = fit_line(above, [one.G2_mean for one in rows], confidence)
    found = {"loss": gap, "noise": noise.slope, "noise_floor": noise.floor}
    found |= {"heterogeneity": apart.slope, "heterogeneity_floor": apart.floor, "between": between}
    ends = {key: (one.low, one.high) for key, one in found.items()}
    lead = [(one.eigenvalues[0] - one.residuals[0], one.eigenvalues[0] + one.residuals[0]) for one in kept]
    ends["curvature"] = _range(lead)
    traces = [(one.trace.low, one.trace.high) for one in kept if one.trace is not None]
    if traces:
        ends["trace"] = _range(traces)
    values = {key: one.value for key, one in found.items()}
    curvature = tuple(fit_spectrum(kept, parameters).tolist())
    return Landscape(curvature, **values, lowest=least, source="measured", intervals=ends)


def _check(points: Sequence[PointMeasured], gap: Measured, lowest: LowestMeasured | None, confidence: float) -> None:
    """Refuse impossible numbers, since a file may hold anything."""
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must lie between 0 and 1, got {confidence}; measure again")
    rows: list[PointMeasured | LowestMeasured] = [*points, *([lowest] if lowest is not None else [])]
    sizes = [end for one in rows for end in (*one.sigma2_mean, *one.G2_mean)]
    plain = [one.loss.value for one in rows] + [gap.value, gap.low]
    plain += [size for one in points for size in (*one.eigenvalues, *one.residuals, *(one.trace or ()))]
    plain += [value for one in rows for value in (one.sigma2_mean.value, one.G2_mean.value)]
    if not all(abs(one) < FAR for one in plain) or not all(one >= 0 for one in sizes):
        raise InvalidInput(
            "a landscape needs finite numbers and no negative noise; measure again with sojourn calibrate"
        )


def _range(ends: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the lowest lower end and the highest upper end: points differ by more than the
    uncertainty of one point.
    """
    return min(low for low, _ in ends), max(high for _, high in ends)
