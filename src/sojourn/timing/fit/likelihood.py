r"""Likelihood of a law's shape when every block of durations has its own unknown rate.

A block is a client, or a group of equal clients. Its rate is integrated out (flat in log rate, by Laplace's method), so
that the likelihood is that of the proportions between the durations. Dividing each client's durations by their mean
instead would make an exponential law look more regular than it is when clients are seen only a few times.

    y   log(rate * duration)         u   log rate of a block
    l_b(u) = \sum_{finished} log f(y) + \sum_{running} log S(y),   f the density of y
    L = \sum_b l_b(u_b) + log(2 pi / -l_b''(u_b)) / 2,             u_b the best u
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import exp, log, pi

import numpy as np
from scipy.optimize import minimize_scalar

from sojourn.errors import InvalidInput
from sojourn.laws.kind import law_class
from sojourn.laws.law import EXPONENTIAL, Law
from sojourn.types import Flags, Floats, Integers

IMPOSSIBLE = (
    -1e6
)  # in place of the logarithm of zero, so that a search can leave rates at which a duration is impossible

FITTED = ("gamma", "weibull", "lognormal", "hyperexponential")
"""Families that compete if the user names no law."""


@dataclass(frozen=True)
class Sample:
    """Durations in blocks, scaled so that each block has a rate of about one."""

    value: Floats
    """Durations, finished or cut off."""
    room: Floats
    """Time from each start to the end of the record; a longer duration could not be seen to finish."""
    finished: Flags
    """Whether it finished within the record."""
    block: Integers
    """Block of each duration."""
    count: Floats
    """Finished durations of each block, at least one."""
    scale: Floats
    """Factor by which the durations of each block were multiplied."""

    @classmethod
    def of(cls, value: Floats, room: Floats, finished: Flags, block: Integers) -> "Sample":
        """Number the blocks, leave out those without a finished duration above zero, and scale."""
        seen = np.isin(block, np.unique(block[finished & (value > 0)]))
        value, room, finished, block = value[seen], room[seen], finished[seen], block[seen]
        block = np.unique(block, return_inverse=True)[1].astype(np.int64)
        count = np.bincount(block, finished).astype(np.float64)
        scale = count / np.bincount(block, value)
        rate = scale[block]
        least = value.min(initial=np.inf, where=value > 0) / 2  # a coarse clock shows zeros
        return cls(np.maximum(value, least) * rate, room * rate, finished, block, count, scale)

    def thinned(self, most: int) -> "Sample":
        """Return about `most` durations: the first ones (their order is random) of every block or of some blocks."""
        if self.value.size <= most:
            return self
        blocks = self.count.size
        each = max(20, most // blocks)
        order = np.argsort(self.block, kind="stable")
        block = self.block[order]
        rank = np.arange(block.size) - np.searchsorted(block, block, side="left")
        every = max(1, round(int((rank < each).sum()) / most))
        picked = order[(rank < each) & (block % every == 0)]
        return Sample.of(self.value[picked], self.room[picked], self.finished[picked], self.block[picked])

    @property
    def size(self) -> int:
        """Number of finished durations."""
        return int(self.count.sum())

    @property
    def freedom(self) -> int:
        """Number of finished durations minus the number of rates fitted to them."""
        return self.size - self.count.size

    def variation(self) -> tuple[float, float]:
        """Return the squared coefficient of variation of the finished durations, alone and with one more as long as the
        longest.
        """
        if self.freedom < 1:
            return 0.0, 0.0
        mean = np.bincount(self.block[self.finished], self.value[self.finished]) / self.count
        ratio = self.value / mean[self.block]
        squares, more = ((ratio[self.finished] - 1) ** 2).sum(), (ratio.max() - 1) ** 2
        return float(squares / self.freedom), float((squares + more) / self.freedom)


@dataclass(frozen=True)
class Fitted:
    """A law with its likelihood and the best log rate of each block."""

    law: Law
    likelihood: float
    log_rate: Floats
    curve: Floats
    """Information of each block on its log rate."""
    error: float = 0.0
    """Standard error of the logarithm of the parameter (hyperexponential: of scv - 1); 0 = not fitted."""

    @property
    def place(self) -> float:
        """The logarithm of the parameter (hyperexponential: of scv - 1)."""
        return _log_parameter(self.law)


def of_law(law: Law, sample: Sample) -> Fitted:
    """Return the likelihood of a law that is fully given."""
    if not law.smooth:
        total = np.bincount(sample.block[sample.finished], sample.value[sample.finished])
        return Fitted(law, -np.inf, np.log(sample.count / total), sample.count)
    by_block, u = _by_block(law, sample)
    width = 1 / np.sqrt(sample.count * law.kind.information())
    h = 0.2 * width
    for _ in range(60):
        low, middle, high = by_block(u - h), by_block(u), by_block(u + h)
        curve = np.maximum((2 * middle - low - high) / h**2, 0.2 / width**2)
        step = np.clip((high - low) / (2 * h) / curve, -1.0, 1.0)
        if (np.abs(step) < 0.02 * width).all():
            break
        u = u + step
    return Fitted(law, float((middle + 0.5 * np.log(2 * pi / curve)).sum()), u, curve)


def of_family(name: str, sample: Sample, near: Law | None = None) -> Fitted:
    """Return the most likely law of a family; `near` restricts the search to its neighbourhood."""
    if name == "exponential":
        return of_law(EXPONENTIAL, sample)
    low, high = family_range(name)
    if near is not None:
        low, high = max(low, _log_parameter(near) - 1), min(high, _log_parameter(near) + 1)

    def value(t: float) -> float:
        return of_law(_law(name, t), sample).likelihood

    options = {"xatol": 1e-3 if near is None else 1e-2}
    found = float(minimize_scalar(lambda t: -value(t), bounds=(low, high), method="bounded", options=options).x)
    best = of_law(_law(name, found), sample)
    if near is not None:
        return best
    curve = (2 * best.likelihood - value(found - 0.1) - value(found + 0.1)) / 0.1**2
    return replace(best, error=min(1.0, max(curve, 1e-9) ** -0.5))


def nearby(law: Law, shift: float) -> Law:
    """Return the law of the same family whose log parameter is larger by `shift`."""
    return law if shift == 0 else _law(law.name, _log_parameter(law) + shift)


def family_range(name: str) -> tuple[float, float]:
    """Return the range of the logarithm of a family's parameter minus its origin."""
    family = law_class(name)
    if family.searched is None:
        raise InvalidInput(
            f"law {name} has no range in which its parameter can be fitted; give the law with its parameters, "
            f"or define searched = (least, most) in {family.__name__}"
        )
    low, high = family.searched
    return log(low), log(high)


def _log_parameter(law: Law) -> float:
    return log((law.parameter or 1.0) - law.kind.origin)


def _law(name: str, t: float) -> Law:
    return Law(name, exp(t) + law_class(name).origin)


def _by_block(law: Law, sample: Sample) -> tuple[Callable[[Floats], Floats], Floats]:
    """Return the log-likelihood of each block as a function of its log rate, and a log rate to begin with."""
    done, size = sample.finished, sample.count.size
    still = sample.block[~done]
    age = sample.value[~done]
    finished, begin = law.kind.likelihood_by_block(np.log(sample.value[done]), sample.block[done], sample.count)

    def value(u: Floats) -> Floats:
        result = finished(u)
        if still.size:
            lasting = law.log_survival(age * np.exp(u)[still])
            result = result + np.bincount(still, np.where(np.isneginf(lasting), IMPOSSIBLE, lasting), size)
        return result

    return value, begin
