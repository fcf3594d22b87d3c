r"""Find groups of devices that are about equally fast, from their mean durations.

    y_i, n_i   log of a device's mean duration, and how many tasks it is the mean of
    c_i        squared coefficient of variation of its durations, shrunk towards that of all devices
    s          spread of speeds inside a group
    k_i        1 / (s^2 + c_i / n_i): the mean is gamma distributed with this shape about that of its group

A fleet of K groups is a mixture with K means, K shares and one spread, fitted by EM. The number of groups, at most 8,
is the smallest whose BIC, -2 log-likelihood + 2 K log(devices), lies within 6 of the least. The spread is one of a few
values and at most 20%, so that a fleet with a continuous range of speeds is cut into pieces and not taken for one
group. Devices with few tasks do not define the groups; they join the one that explains them best.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from sojourn.cut import PIECES, cut
from sojourn.errors import InvalidInput
from sojourn.types import Floats, Integers

SPREADS = (0.01, 0.02, 0.05, 0.1, 0.2)
USUAL = 0.05  # spread used to weight the devices if the number of groups is given
MOST_GROUPS = 8
TELLING = 5  # fewest tasks of a device that defines the groups
MOST_DEVICES = 2_000  # devices that define the groups; all devices join one
CLEAR = 6.0  # difference in BIC that is worth one more group
PRIOR = 20.0  # the variation of all devices counts as much as this many tasks
ROUNDS, STILL = 200, 1e-7  # most rounds of EM, and the gain per device at which it ends


@dataclass(frozen=True)
class SpeedGroups:
    """A group for each device."""

    label: Integers
    """Group of each device, 0 the fastest."""
    criterion: dict[int, float]
    """BIC by number of groups; empty if the number was given."""
    doubt: float = 0.0
    """Expected part of the devices that belong to another group than their own; 0 if the number was given."""

    @property
    def groups(self) -> int:
        """Number of groups."""
        return int(self.label.max()) + 1


def speed_groups(client: Integers, duration: Floats, wanted: int | None = None) -> SpeedGroups:
    """Group the devices `client` (numbered from 0) by their tasks' durations; `wanted` None = as many groups as BIC
    says.
    """
    tasks = np.bincount(client)
    total = np.bincount(client, duration)
    least = duration.min(initial=np.inf, where=duration > 0) / 2
    mean = np.maximum(total / tasks, least if np.isfinite(least) else 1.0)  # a coarse clock shows zeros
    noise = _variation(client, duration, tasks, mean) / tasks
    if wanted is not None:
        most = min(np.unique(mean).size, PIECES)
        if not 1 <= wanted <= most:
            raise InvalidInput(
                f"groups must lie between 1 and {most}, the number of devices that differ, got {wanted}; or write "
                "auto or device"
            )
        return SpeedGroups(cut(np.log(mean), 1 / (USUAL**2 + noise), wanted), {})
    return by_means(np.asarray(tasks, dtype=np.float64), mean, noise)


def by_means(tasks: Floats, mean: Floats, noise: Floats) -> SpeedGroups:
    """Group devices by their mean durations, each of so many tasks, with the squared relative error `noise`.

    >>> by_means(np.full(4, 50.0), np.array([1.0, 4.0, 1.1, 4.2]), np.full(4, 0.02)).label
    array([0, 1, 0, 1])
    """
    telling = np.flatnonzero(tasks >= TELLING)
    if telling.size < 2:
        telling = np.arange(tasks.size)
    telling = np.random.default_rng([0, 5]).permutation(telling)[:MOST_DEVICES]
    y = np.log(mean)
    found = [_mixture(y[telling], noise[telling], groups) for groups in _numbers(y[telling])]
    criterion = {one.groups: one.bic for one in found}
    best = next(one for one in found if one.bic <= min(criterion.values()) + CLEAR)
    label, doubt = best.joined(y, noise)
    return SpeedGroups(_in_order(label, mean), criterion, doubt)


def _variation(client: Integers, duration: Floats, tasks: Integers, mean: Floats) -> Floats:
    """Return the squared coefficient of variation of each device, shrunk towards that of all; 1 if it is unknown."""
    squares = np.bincount(client, (duration / mean[client] - 1) ** 2)
    freedom = tasks.sum() - tasks.size
    shared = squares.sum() / freedom if freedom > 0 else 1.0
    return np.asarray((squares + PRIOR * shared) / (tasks - 1 + PRIOR))


def _numbers(y: Floats) -> range:
    return range(1, min(MOST_GROUPS, np.unique(y).size) + 1)


def _in_order(label: Integers, mean: Floats) -> Integers:
    """Return the labels with empty groups removed, numbered by mean duration."""
    kept, label = np.unique(label, return_inverse=True)
    size = np.bincount(label.reshape(-1))
    slowness = np.bincount(label.reshape(-1), np.log(mean)) / size
    place = np.empty(kept.size, dtype=np.int64)
    place[np.argsort(slowness, kind="stable")] = np.arange(kept.size)
    return np.asarray(place[label.reshape(-1)])


@dataclass(frozen=True)
class _Mixture:
    """Groups as EM found them."""

    location: Floats
    """Log of the mean duration of each group."""
    share: Floats
    spread: float
    likelihood: float
    devices: int

    @property
    def groups(self) -> int:
        return self.location.size

    @property
    def bic(self) -> float:
        return float(-2 * self.likelihood + 2 * self.groups * np.log(self.devices))

    def joined(self, y: Floats, noise: Floats) -> tuple[Integers, float]:
        """Return the group that explains each device best, and the expected part of devices that belong elsewhere."""
        density = _log_density(y, noise, self)
        label = np.argmax(density, axis=1)
        chance = 1 / np.exp(density - density.max(axis=1, keepdims=True)).sum(axis=1)
        return label, float(1 - chance.mean())


def _mixture(y: Floats, noise: Floats, groups: int) -> _Mixture:
    """Return the most likely mixture with this many groups."""
    label = cut(y, 1 / (USUAL**2 + noise), groups)
    return max((_fitted(y, noise, label, groups, spread) for spread in SPREADS), key=lambda one: one.likelihood)


def _fitted(y: Floats, noise: Floats, label: Integers, groups: int, spread: float) -> _Mixture:
    """Run EM from a cut into groups."""
    weight = 1 / (spread**2 + noise)
    member = np.zeros((y.size, groups))
    member[np.arange(y.size), label] = 1.0
    before = -np.inf
    for _ in range(ROUNDS):
        share = np.maximum(member.mean(axis=0), 1e-12)
        mass = np.maximum(weight @ member, 1e-300)
        location = np.log(np.maximum((weight * np.exp(y)) @ member, 1e-300) / mass)
        found = _Mixture(location, share, spread, before, y.size)
        density = _log_density(y, noise, found)
        top = density.max(axis=1, keepdims=True)
        member = np.exp(density - top)
        sums = member.sum(axis=1, keepdims=True)
        member /= sums
        likelihood = float((top + np.log(sums)).sum())
        found = _Mixture(location, share, spread, likelihood, y.size)
        if likelihood - before < STILL * y.size:
            break
        before = likelihood
    return found


def _log_density(y: Floats, noise: Floats, mixture: _Mixture) -> Floats:
    """Return the log density of each device in each group, weighted by the groups' shares."""
    k = (1 / (mixture.spread**2 + noise))[:, None]
    z = y[:, None] - mixture.location
    with np.errstate(over="ignore"):
        return np.asarray(k * np.log(k) - gammaln(k) + k * (z - np.exp(z)) + np.log(mixture.share))
