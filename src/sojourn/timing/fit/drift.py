r"""Drift: whether rates change from the beginning of a trace to its end.

    t, x    beginning and length of a service;  m its unit's mean beginning
    r       1 - rate x, or 1 - rate E[X | X > x] where the service was not seen to its end: zero on average
    beta    slope of the log rate in time:  sum (t - m) r / sum (t - m)^2

Its variance is the larger of the law's and that of the residuals r. The slopes of all units are averaged with weights
by their variances; each unit is also tested separately, since units may drift in different directions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from sojourn.laws.law import Law
from sojourn.timing.fit.units import Rows
from sojourn.types import Floats

FEWEST = 30  # fewest services of a unit that is tested separately
NOTICED = 0.01  # p-value below which a drift is reported


@dataclass(frozen=True)
class Drift:
    """Changes of rates over a trace, relative to their beginning."""

    change: Floats
    """Change of each unit's rate; NaN = too few services."""
    error: Floats
    """Standard error of the logarithm of 1 + change."""
    overall: float
    """Change of all units together."""
    p_value: float
    """Probability of as large a change if no rate changed; NaN = too few services."""

    @property
    def noticed(self) -> bool:
        """Whether the change is too large to be explained by chance."""
        return bool(self.p_value < NOTICED)

    def of_their_own(self) -> list[int]:
        """Return the units whose own change is too large for chance."""
        chance = self.change.size * _chance(np.log1p(self.change) / self.error)
        return np.flatnonzero(chance < NOTICED).tolist()


@np.errstate(over="ignore", invalid="ignore")  # times beyond all bounds have no drift
def drift_of(rows: Rows, rate: Floats, laws: Sequence[Law], scv: Floats, span: float) -> Drift:
    """Return the drift of each unit's rate over the time `span`, in seconds."""
    units = rate.size
    size = np.bincount(rows.unit, minlength=units)
    middle = np.bincount(rows.unit, rows.began, units) / np.maximum(size, 1)
    off = rows.began - middle[rows.unit]
    rest = _residuals(rows, rate, laws)
    spread = np.bincount(rows.unit, off**2, units)
    judged = (size > 1) & (spread > 0)
    known = np.where(judged, spread, 1.0)
    slope = np.bincount(rows.unit, off * rest, units) / known
    variance = np.maximum(scv * known, np.bincount(rows.unit, (off * rest) ** 2, units)) / known**2
    weight = np.where(judged & (variance > 0), 1 / np.where(variance > 0, variance, 1.0), 0.0)
    alone = judged & (size >= FEWEST)
    change = np.where(alone, np.expm1(span * slope), np.nan)
    error = np.where(alone, span * np.sqrt(variance), np.nan)
    if size[judged].sum() < FEWEST or weight.sum() == 0:
        return Drift(change, error, np.nan, np.nan)
    mean = float(weight @ slope / weight.sum())
    both = [_chance(mean * np.sqrt(weight.sum()))]
    if alone.any():
        both.append(alone.sum() * _chance(slope * np.sqrt(weight))[alone].min())
    return Drift(change, error, float(np.expm1(span * mean)), min(1.0, float(len(both) * min(both))))


def _chance(z: Floats) -> Floats:
    return np.asarray(2 * ndtr(-np.abs(z)))


def _residuals(rows: Rows, rate: Floats, laws: Sequence[Law]) -> Floats:
    x = rate[rows.unit] * rows.value
    open_ended = ~rows.finished
    for law in {id(laws[unit]): laws[unit] for unit in np.unique(rows.unit[open_ended]).tolist()}.values():
        mine = np.array([one is law for one in laws])
        picked = open_ended & mine[rows.unit]
        x[picked] = law.mean_beyond(x[picked])
    return 1 - x


def of_drift(drift: Drift, names: Sequence[str]) -> list[str]:
    """Return a note if rates change."""
    if not drift.noticed:
        return []
    own = drift.of_their_own()
    each = [f"{names[unit]} {drift.change[unit]:+.0%}" for unit in own[:6]]
    more = f" and {len(own) - 6} more" if len(own) > 6 else ""
    who = f"{', '.join(each)}{more}" if own else f"all together {drift.overall:+.0%}"
    return [
        f"rates change from the beginning of the trace to its end, by about {who} (p = {drift.p_value:.1g}), and the "
        "fitted ones lie between; latest = 0.25 (--latest 0.25) fits only the last quarter of the time"
    ]
