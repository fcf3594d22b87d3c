r"""Rates with their uncertainty: of groups separately, of clients in the light of all clients.

A sum of N durations with mean 1/rate and squared coefficient of variation s is nearly gamma distributed with shape N/s,
which is exact for exponential and gamma laws and close for others. A service that was still running at age c has the
expected length M = E[X | X > c] of its law; it enters as the gamma likelihood with the same first two derivatives in
the rate at the current estimate, for exponential service exactly as the exposure c. Together

    log-likelihood of a rate = shape * log(rate) - exposure * rate,

which is the `Evidence` below. The rates of clients are drawn from a gamma population whose mean and coefficient of
variation are unknown; the fit integrates over these (flat in log mean, flat in the coefficient up to 4) and does not
fix them at their best values, because otherwise the intervals of few clients would be too short.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, stdtrit

from sojourn.laws.law import Law
from sojourn.timing.fit.likelihood import nearby
from sojourn.timing.fit.population import Population, population
from sojourn.types import Floats, Integers

LEAST_SCV = 1e-6
MOST_ROUNDS = 100


@dataclass(frozen=True)
class Rates:
    """Estimates and intervals, one for each unit."""

    rate: Floats
    low: Floats
    high: Floats
    mean: float = np.nan
    """Mean of the population; NaN = not pooled."""
    spread: float = np.nan
    """Coefficient of variation of the population."""


@dataclass(frozen=True)
class Evidence:
    """Finished and running durations of units (clients or groups), with each unit's law."""

    finished: Integers
    total: Floats
    running: Integers
    """Unit of each running duration."""
    age: Floats
    laws: Sequence[Law]
    """Law of each unit; equal laws may be the same object."""
    variation: Floats
    """Squared coefficient of variation of each unit's law."""
    weight: Floats
    """How many running durations each entry stands for."""
    shown: Floats
    """Squared coefficient of variation of the durations themselves."""
    most: Floats
    """The same with one more duration, as long as the longest."""

    @property
    def scv(self) -> Floats:
        """Squared coefficient of variation of each unit's law."""
        return np.maximum(self.variation, LEAST_SCV)

    @property
    def ends(self) -> tuple[Floats, Floats]:
        """Return the same for the lower and the upper end of intervals: at least that of the durations themselves.

        Few durations may lack long ones, but never short ones, so the lower end of a rate allows for one more long one.
        """
        return np.maximum(self.scv, self.most), np.maximum(self.scv, self.shown)

    def at(self, rate: Floats, scv: Floats) -> tuple[Floats, Floats]:
        """Return shape and exposure of each unit's gamma likelihood near the given rates."""
        shape, exposure = self.finished / scv, self.total / scv
        for law, rows in self._by_law:
            unit, many = self.running[rows], self.weight[rows]
            x = rate[unit] * self.age[rows]
            step = 1e-3 if law.smooth else 0.1
            beyond = law.mean_beyond(x)
            bend = (law.mean_beyond(x * np.exp(step)) - law.mean_beyond(x * np.exp(-step))) / (2 * step)
            more = np.clip(1 + bend - beyond, 0.0, 1.0) / scv[unit]
            shape += np.bincount(unit, many * more, shape.size)
            exposure += np.bincount(unit, many * (more + (beyond - 1) / scv[unit]) / rate[unit], shape.size)
        return shape, exposure

    @cached_property
    def _by_law(self) -> list[tuple[Law, Integers]]:
        """Return the laws of the running durations, and the rows of each."""
        number = {id(law): place for place, law in enumerate(self.laws)}
        mine = np.array([number[id(law)] for law in self.laws], dtype=np.int64)[self.running]
        return [(self.laws[place], np.flatnonzero(mine == place)) for place in np.unique(mine).tolist()]


def separate(evidence: Evidence, confidence: float, told: Floats, error: Floats) -> Rates:
    """Estimate every unit separately; those without a finished duration get NaN.

    `told` is the number of durations from which each unit's variation is known (inf = its law is given), `error` the
    standard error of the logarithm of its law's parameter. Few durations widen the interval as in Student's law, and an
    uncertain law makes the expected length of running services uncertain. If the record ends during a service, half a
    finish is added, so that the intervals of a Poisson count have their coverage.
    """
    scv = evidence.scv
    seen = evidence.finished > 0
    rate, shape, exposure = _best(evidence, scv)
    busy = np.bincount(evidence.running, minlength=scv.size) > 0
    doubt = np.zeros(scv.size)
    if (busy & (error > 0)).any():
        up, down = (_best(replace(evidence, laws=_shifted(evidence.laws, sign * error)), scv)[0] for sign in (1, -1))
        doubt = np.log(up / down) / 2
    tail = (1 - confidence) / 2
    wider = (stdtrit(np.maximum(told - 1, 1.0), tail) / stdtrit(np.inf, tail)) ** 2
    ends = []
    for end, variation in enumerate(evidence.ends):
        known = shape * scv / variation
        over = wider + known * doubt**2
        ends.append(_interval((known + 0.5 * busy) / over, exposure * scv / variation / over, confidence)[end])
    low, high = ends
    certain = np.array([law.name == "deterministic" for law in evidence.laws])
    low, high = _sure(rate, low, high, certain)
    return Rates(np.where(seen, rate, np.nan), np.where(seen, low, np.nan), np.where(seen, high, np.nan))


def _best(evidence: Evidence, scv: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the most likely rate of each unit separately (1 for units never seen), with the evidence near it."""
    seen = evidence.finished > 0
    rate = np.where(seen, evidence.finished, 1) / np.where(seen, evidence.total, 1.0)
    for _ in range(MOST_ROUNDS):
        shape, exposure = evidence.at(rate, scv)
        before, rate = rate, np.where(seen, shape, 1.0) / np.where(seen, exposure, 1.0)
        if np.allclose(rate, before, rtol=1e-10, atol=0):
            break
    return rate, shape, exposure


def best_rates(evidence: Evidence) -> Floats:
    """Return the most likely rate of each unit separately."""
    return _best(evidence, evidence.scv)[0]


def _shifted(laws: Sequence[Law], shift: Floats) -> tuple[Law, ...]:
    return tuple(nearby(law, by) for law, by in zip(laws, shift.tolist(), strict=True))


def by_groups(evidence: Evidence, confidence: float, told: Floats, error: Floats, least: Floats) -> Rates:
    """Estimate every group separately, and groups without data in the light of the others.

    `least` is an upper limit for the lower end of each interval; NaN = none.
    """
    own = separate(evidence, confidence, told, error)
    own = replace(own, low=np.fmin(own.low, least))
    unseen = evidence.finished == 0
    if not unseen.any():
        return own
    all_groups = pooled(evidence, confidence)
    return Rates(
        np.where(unseen, all_groups.rate, own.rate),
        np.where(unseen, all_groups.low, own.low),
        np.where(unseen, all_groups.high, own.high),
    )


def _interval(shape: Floats, exposure: Floats, confidence: float) -> tuple[Floats, Floats]:
    tail = (1 - confidence) / 2
    floor, divisor = np.maximum(shape, 1e-300), np.maximum(exposure, 1e-300)
    return gammaincinv(floor, tail) / divisor, gammaincinv(floor, 1 - tail) / divisor


def _sure(rate: Floats, low: Floats, high: Floats, certain: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    return np.where(certain, rate, low), np.where(certain, rate, high)


def pooled(evidence: Evidence, confidence: float) -> Rates:
    """Estimate every unit in the light of all: one seen often keeps its own rate, one never seen
    gets the population's.
    """
    tail = (1 - confidence) / 2
    people, rate, low, high = _in_the_light_of_all(evidence, evidence.scv, tail)
    for_low, for_high = evidence.ends
    if (for_low > evidence.scv).any():
        low = np.minimum(low, _in_the_light_of_all(evidence, for_low, tail)[2])
    if (for_high > evidence.scv).any():
        high = np.maximum(high, _in_the_light_of_all(evidence, for_high, tail)[3])
    certain = np.array([law.name == "deterministic" for law in evidence.laws]) & (evidence.finished > 0)
    own = np.where(certain, evidence.finished / np.where(certain, evidence.total, 1.0), rate)
    return Rates(own, *_sure(own, low, high, certain), people.typical, people.variation)


def _in_the_light_of_all(evidence: Evidence, scv: Floats, tail: float) -> tuple[Population, Floats, Floats, Floats]:
    """Return the population, and the mean and both ends of each unit's rate, if durations vary by `scv`."""
    spent = evidence.weight * evidence.age
    overall = evidence.finished.sum() / (evidence.total.sum() + spent.sum())
    exposed = evidence.total + np.bincount(evidence.running, spent, scv.size)
    rate = (evidence.finished + 1) / (exposed + 1 / overall)
    shape, exposure = evidence.at(rate, scv)
    people = population(shape, exposure)
    return people, *people.posterior(shape, exposure, tail)
