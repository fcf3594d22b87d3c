"""The laws of `sojourn.laws.law` as distributions: survival, mean beyond an age, draws. All have mean one."""

from math import exp, lgamma, sqrt

import numpy as np
from scipy.special import gammaincc, log_ndtr, ndtr

from sojourn.laws.law import Law
from sojourn.types import Floats

_TINY = 1e-290


def phase(scv: float) -> float:
    """Probability of the short phase of the hyperexponential law with balanced means."""
    return (1 + sqrt((scv - 1) / (scv + 1))) / 2


def log_survival(law: Law, x: Floats) -> Floats:
    """Logarithm of the probability to last longer than `x`.

    >>> log_survival(Law(), np.array([0.0, 2.0]))
    array([-0., -2.])
    """
    value = law.parameter or 1.0
    with np.errstate(divide="ignore"):
        match law.name:
            case "deterministic":
                result = np.where(x < 1 - 1e-9, 0.0, -np.inf)
            case "lognormal":
                result = log_ndtr(-(np.log(x) + value * value / 2) / value)
            case "gamma":
                result = np.log(np.maximum(gammaincc(value, value * x), _TINY))
            case "weibull":
                result = -np.exp(np.minimum(value * (np.log(x) + lgamma(1 + 1 / value)), 700.0))
            case "hyperexponential":
                p = phase(value)
                result = np.logaddexp(np.log(p) - 2 * p * x, np.log1p(-p) - 2 * (1 - p) * x)
            case "empirical":
                known = np.array(law.durations)
                result = np.log(1 - np.searchsorted(known, x, side="right") / known.size)
            case _:
                result = -x
    return np.asarray(result)


def mean_beyond(law: Law, x: Floats) -> Floats:
    """Mean of a duration that is known to last longer than `x`.

    >>> mean_beyond(Law(), np.array([0.0, 2.0]))
    array([1., 3.])
    """
    value = law.parameter or 1.0
    with np.errstate(divide="ignore"):
        match law.name:
            case "deterministic":
                mean = np.ones_like(x)
            case "lognormal":
                z = np.log(x) / value
                mean = _ratio(ndtr(value / 2 - z), ndtr(-value / 2 - z), x)
            case "gamma":
                mean = _ratio(gammaincc(value + 1, value * x), gammaincc(value, value * x), x)
            case "weibull":
                t = np.exp(np.minimum(value * (np.log(x) + lgamma(1 + 1 / value)), 700.0))
                mean = _ratio(gammaincc(1 + 1 / value, t), np.exp(-t), x)
            case "hyperexponential":
                p = phase(value)
                late = np.exp(-2 * (2 * p - 1) * x) * p / (1 - p)  # odds of the short phase, given the age
                mean = x + (late / (2 * p) + 1 / (2 * (1 - p))) / (late + 1)
            case "empirical":
                known = np.array(law.durations)
                above = np.append(np.cumsum(known[::-1])[::-1], 0.0)
                first = np.searchsorted(known, x, side="right")
                mean = np.where(first < known.size, above[first] / np.maximum(known.size - first, 1), x)
            case _:
                mean = 1 + x
    return np.maximum(mean, x)


def _ratio(part: Floats, whole: Floats, otherwise: Floats) -> Floats:
    return np.where(whole > _TINY, part / np.maximum(whole, _TINY), otherwise)


def draw(law: Law, rng: np.random.Generator, size: int) -> Floats:
    """Random durations."""
    value = law.parameter or 1.0
    match law.name:
        case "deterministic":
            return np.ones(size)
        case "lognormal":
            return rng.lognormal(-value * value / 2, value, size)
        case "gamma":
            return rng.gamma(value, 1 / value, size)
        case "weibull":
            return rng.weibull(value, size) / exp(lgamma(1 + 1 / value))
        case "hyperexponential":
            p = phase(value)
            return rng.exponential(size=size) / np.where(rng.random(size) < p, 2 * p, 2 * (1 - p))
        case "empirical":
            return rng.choice(np.array(law.durations), size)
        case _:
            return rng.exponential(size=size)
