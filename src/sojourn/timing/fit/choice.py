"""Choose a law by its likelihood, with a penalty for each parameter, and test the chosen law.

A law with a parameter is preferred to the exponential law only if its log-likelihood is larger by half of max(4, log n)
(BIC, and more for few durations). The chosen law is tested by the Kolmogorov-Smirnov distance to the durations
(Kaplan and Meier's estimate where some were cut off); its p-value comes from samples of the law that are cut off and
fitted in the same way, so that it accounts for the fitted rates and parameter. The samples are drawn until ten are
farther from their fit than the data (Besag and Clifford), at most 199.
"""

from dataclasses import dataclass, replace
from math import log, nan

import numpy as np
from numpy.typing import NDArray

from sojourn.laws.law import EXPONENTIAL, MOST_DURATIONS, Law
from sojourn.timing.fit.likelihood import FITTED, Fitted, Sample, of_family, of_law
from sojourn.types import Floats

CANDIDATES = ("exponential", *FITTED)
TESTED = 2000  # durations that a test uses: a misfit too small to see at this size does not matter to a queue
SAMPLES = 199
FARTHER = 10
FEWEST_TESTED = 8
FEWEST_FITTED = 5
ENOUGH = 100  # fewest durations for rejecting a law
REFUSED = 0.01
EQUAL = 1e-9
RIVAL = 3.0  # log-likelihood within which another law may be the true one


@dataclass(frozen=True)
class Choice:
    """A law and how well it fits."""

    law: Law
    distance: float = nan
    """Kolmogorov-Smirnov distance between law and durations; NaN = too few."""
    p_value: float = nan
    """Probability of a larger distance if the law were true; NaN = not tested."""
    fits: bool = True
    """False if the durations clearly contradict a law that the user asked for."""
    refused: "Choice | None" = None
    """The best law with a formula, if it did not fit and the empirical law replaced it."""
    likelihood: float = nan
    scv: float = nan
    """Squared coefficient of variation, averaged over the laws that compete; NaN = the law's own."""
    shown: tuple[float, float] = (0.0, 0.0)
    """The same from the durations themselves, and with one more duration as long as the longest; 0
    = the law is given.
    """
    rivals: tuple[Fitted, ...] = ()
    """The best laws of the families that compete; empty if the law is given or certain."""
    error: float = 0.0
    """Standard error of the logarithm of the law's parameter; 0 = not fitted."""


def choose(
    sample: Sample, wanted: Law | str, same: float = EQUAL, most: int = MOST_DURATIONS, among: int = 1
) -> Choice:
    """Return the law of a sample: the law or family `wanted`, or for `auto` the one that explains it best.

    `same` is the relative difference up to which durations count as equal, `most` the most values of an empirical law,
    and `among` the number of samples tested, since among many samples that fit some seem not to.
    """
    if isinstance(wanted, Law):
        return _given(wanted, sample, same, among) if sample.size else Choice(wanted)
    if wanted == "empirical" and sample.size:
        return empirical(sample, most)
    if wanted not in ("auto", "empirical") and sample.freedom >= 1:
        best = of_family(wanted, sample)
        choice = tested(best, sample, fitted=True)
        rivals = () if best.law.parameter is None else (best,)
        return replace(choice, fits=not _refused(choice, sample.size, among), rivals=rivals)
    return _whichever(sample, same, most, among) if sample.freedom >= 1 else Choice(EXPONENTIAL)


def _whichever(sample: Sample, same: float, most: int, among: int) -> Choice:
    if _equal_in_blocks(sample, same):
        return Choice(Law("deterministic"), 0.0, 1.0)
    names = CANDIDATES if sample.freedom >= FEWEST_FITTED else CANDIDATES[:1]
    price = max(4.0, log(sample.size)) / 2
    fits = [of_family(name, sample) for name in names]
    merit = np.array([found.likelihood - price * (found.law.parameter is not None) for found in fits])
    choice = tested(fits[int(np.argmax(merit))], sample, fitted=True)
    shown = sample.variation()
    if _refused(choice, sample.size, among):
        return replace(empirical(sample, most, choice), shown=shown)
    weight = np.where(merit > merit.max() - RIVAL, np.exp(merit - merit.max()), 0.0)
    scv = float(weight @ [found.law.scv for found in fits] / weight.sum())
    return replace(choice, scv=scv, shown=shown, rivals=tuple(fits))


def _given(law: Law, sample: Sample, same: float, among: int) -> Choice:
    found = of_law(law, sample)
    if law.name == "deterministic":
        equal = _equal_in_blocks(sample, same)
        return Choice(law, distance_to(law, sample, found.log_rate), float(equal), equal)
    choice = tested(found, sample, fitted=False)
    return replace(choice, fits=not _refused(choice, sample.size, among))


def _refused(choice: Choice, size: int, among: int) -> bool:
    """Whether to reject a law, by its p-value and by Kolmogorov's bound for the worst of several samples.

    The bound is multiplied by 0.77, because fitted parameters make distances smaller.
    """
    bound = 0.77 * np.sqrt(np.log(2 * among / REFUSED) / (2 * min(size, TESTED)))
    return bool(choice.p_value < REFUSED and size >= ENOUGH and choice.distance > bound)


def _equal_in_blocks(sample: Sample, same: float) -> bool:
    value, block = sample.value[sample.finished], sample.block[sample.finished]
    high, low = np.full(sample.count.size, -np.inf), np.full(sample.count.size, np.inf)
    np.maximum.at(high, block, value)
    np.minimum.at(low, block, value)
    return bool((high - low <= same).all())


def empirical(sample: Sample, most: int, refused: Choice | None = None) -> Choice:
    """Return the law of the durations themselves, with at most `most` of their quantiles."""
    points, mass = product_limit(sample.value, sample.finished)
    level = np.cumsum(mass) / mass.sum()
    size = min(sample.size, most)
    picked = np.minimum(np.searchsorted(level, (np.arange(size) + 0.5) / size), points.size - 1)
    law = Law.empirical(points[picked])
    return Choice(law, distance_to(law, sample, np.zeros(sample.count.size)), refused=refused)


def product_limit(value: Floats, finished: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return Kaplan and Meier's estimate: the finished durations in order, and the probability of each.

    A duration that was cut off passes its share on to the longer ones:

    >>> product_limit(np.array([1.0, 2.0, 3.0, 4.0]), np.array([True, False, True, True]))
    (array([1., 3., 4.]), array([0.25 , 0.375, 0.375]))
    """
    order = np.lexsort((~finished, value))
    done = finished[order]
    at_risk = np.arange(done.size, 0, -1)
    survival = np.cumprod(1 - done / at_risk)
    mass = -np.diff(survival, prepend=1.0)
    return value[order][done], mass[done]


def distance_to(law: Law, sample: Sample, log_rate: Floats) -> float:
    """Return the Kolmogorov-Smirnov distance between a law and the durations, each block at its rate."""
    points, mass = product_limit(sample.value * np.exp(log_rate)[sample.block], sample.finished)
    after = np.cumsum(mass)
    expected = -np.expm1(law.log_survival(points))
    if not law.smooth:  # jumps: compare only after equal values
        last = np.append(np.diff(points) > 0, True)
        return float(np.abs(after - expected)[last].max())
    return float(max(np.abs(after - expected).max(), np.abs(after - mass - expected).max()))


def tested(best: Fitted, sample: Sample, fitted: bool) -> Choice:
    """Return a law with its distance and p-value."""
    law = best.law
    distance = distance_to(law, sample, best.log_rate)
    if sample.freedom < FEWEST_TESTED:
        return Choice(law, distance, nan, likelihood=best.likelihood, error=best.error)
    part = sample.thinned(TESTED)
    mine = _refit(law, part, fitted) if part is not sample else best
    bar = distance_to(mine.law, part, mine.log_rate)
    rng = np.random.default_rng(0)
    farther = 0
    for drawn in range(1, SAMPLES + 1):
        again = _like(part, mine, rng)
        other = _refit(mine.law, again, fitted)
        farther += distance_to(other.law, again, other.log_rate) >= bar
        if farther == FARTHER:
            return Choice(law, distance, FARTHER / drawn, likelihood=best.likelihood, error=best.error)
    return Choice(law, distance, (farther + 1) / (SAMPLES + 1), likelihood=best.likelihood, error=best.error)


def _refit(law: Law, sample: Sample, fitted: bool) -> Fitted:
    return of_family(law.name, sample, near=law) if fitted else of_law(law, sample)


def _like(sample: Sample, fitted: Fitted, rng: np.random.Generator) -> Sample:
    """Return a sample of the fitted law, cut off like the given one."""
    value = fitted.law.draw(rng, sample.value.size) / np.exp(fitted.log_rate)[sample.block]
    return Sample.of(np.minimum(value, sample.room), sample.room, value <= sample.room, sample.block)
