"""How long tasks take, with intervals: of single clients where there are few, of groups where there are many.

What the run itself knows is taken over. A run that does not follow its fleet knows nothing, so the page learns from the
tasks that end: the mean of a client is taken as gamma distributed, with shape n / c^2, where c is the coefficient of
variation of its times; for exponential times this is exact.
"""

from typing import Any

import numpy as np
from scipy.special import gammaincinv

from sojourn.types import Floats
from sojourn.watched import Described, Speeds

FEW_CLIENTS = 24  # up to so many are shown one by one
FLOOR = 0.02  # no mean is believed to be known better than this
LEVEL = 0.95
NORMAL = 1.96  # standard errors on either side


class Learnt:
    """Times of tasks by client, from the tasks that have ended."""

    def __init__(self, clients: int) -> None:
        self._count, self._sum, self._square = (np.zeros(clients) for _ in range(3))

    def add(self, client: Any, times: Floats) -> None:
        """Learn from tasks."""
        known = (times > 0) & (times < np.inf)
        client, times, many = client[known], times[known], self._count.size
        self._count += np.bincount(client, minlength=many)
        self._sum += np.bincount(client, times, many)
        self._square += np.bincount(client, times**2, many)

    @property
    def speeds(self) -> Speeds:
        """What is known of each client; its variation is that of all clients together, relative to their means."""
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = self._sum / self._count
            spread = np.nansum(self._square / mean**2 - self._count)
            shape = self._count / max(spread / max(self._count.sum(), 1.0), FLOOR**2)
        shape = np.minimum(shape, 1 / FLOOR**2)
        if mean.size <= FEW_CLIENTS:
            return Speeds(mean, *interval(mean, shape), self._count)
        with np.errstate(divide="ignore", invalid="ignore"):
            error = NORMAL * mean / np.sqrt(shape)  # nobody sees these intervals, only those of groups
        return Speeds(mean, mean - error, mean + error, self._count)


def interval(mean: Floats, shape: Floats) -> tuple[Floats, Floats]:
    """Return the ends of the 95% intervals of means that are gamma distributed.

    >>> low, high = interval(np.array([1.0]), np.array([20.0]))
    >>> round(float(low[0]), 3), round(float(high[0]), 3)
    (0.674, 1.637)
    """
    rest = (1 - LEVEL) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (np.where(shape > 0, mean * shape / gammaincinv(shape, at), np.nan) for at in (1 - rest, rest))
    return np.asarray(low), np.asarray(high)


def table(found: Speeds, about: Described, names: list[str]) -> list[dict[str, Any]]:
    """Return one row per client, or per group if there are many clients: seconds per task, and what the fleet says."""
    told = np.full(found.mean.size, np.nan) if about.told is None else about.told
    if found.mean.size <= FEW_CLIENTS:
        columns = zip(names, found.mean, found.low, found.high, told, found.tasks, strict=True)
        keys = ("name", "mean", "low", "high", "told", "tasks")
        return [dict(zip(keys, row, strict=True)) for row in columns]
    return [_pooled(found, told, about.group == place, name) for place, name in enumerate(about.groups)]


def _pooled(found: Speeds, told: Floats, mine: Any, name: str) -> dict[str, Any]:
    """Return the mean over the clients of a group, with the interval of this mean."""
    known = mine & np.isfinite(found.mean) & np.isfinite(found.high - found.low)
    row: dict[str, Any] = {"name": name, "mean": np.nan, "low": np.nan, "high": np.nan}
    row |= {"told": float(told[mine].mean()) if mine.any() else np.nan, "tasks": float(found.tasks[mine].sum())}
    if not known.any():
        return row
    mean = float(found.mean[known].mean())
    error = (found.high - found.low)[known] / (2 * NORMAL)  # of each client's mean, about
    shape = mean**2 / max(float((error**2).sum()) / known.sum() ** 2, (FLOOR * mean) ** 2)
    low, high = interval(np.array([mean]), np.array([shape]))
    return row | {"mean": mean, "low": float(low[0]), "high": float(high[0])}
