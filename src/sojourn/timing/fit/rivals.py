r"""Estimate a rate over all laws that the durations do not rule out: one law alone gives too high a lower end.

Few durations hardly distinguish a law with rare long durations from a law without any, and choosing one law would hide
that. So the families f are weighted by their likelihood, without a penalty, and so are their parameters t:

    P(rate < x) = \sum_f w_f \sum_t w_t G(c x / u),   w_f, w_t  ~  likelihood,   G the gamma law of shape c

where u is the most likely rate under f and t, and c the information on its logarithm. Parameters are taken around the
best one. But if long durations are missing from the data, the best hyperexponential law has none either. So a second
sum replaces it by hyperexponential laws of all squared coefficients of variation up to six, with equal prior weights.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import gammainc

from sojourn.laws.law import Law
from sojourn.timing.fit.likelihood import Fitted, Sample, family_range, nearby, of_law
from sojourn.types import Floats

Weighed = tuple[Floats, Sequence[Fitted]]  # laws with their weights

MOST = 1000  # with more durations than this the remaining doubt about the law does not matter
AWAY = np.arange(-4, 5)  # standard errors away from the best parameter
RARE = np.geomspace(1.1, 6.0, 10)
POINTS = 200


def lower_end(sample: Sample, fits: Sequence[Fitted], tail: float) -> float:
    """Return the rate that the laws together exceed with probability 1 - tail; NaN = the law is certain.

    The sample has one block; `fits` are the best laws of the families that compete.
    """
    if not fits or sample.size > MOST:
        return np.nan
    around = {best.law.name: _around(best, sample) for best in fits}
    sums = [list(around.values())]
    if "hyperexponential" in around and len(around) > 1:
        sums.append([*(one for name, one in around.items() if name != "hyperexponential"), _rare(sample)])
    return float(min(_exceeded(laws, tail) for laws in sums) * sample.scale[0])


def _around(best: Fitted, sample: Sample) -> Weighed:
    """Return a family's laws around the best one, as far as its parameter may vary; their weights sum to its
    likelihood.
    """
    if best.law.parameter is None or best.error == 0:
        return np.array([best.likelihood]), [best]
    low, high = family_range(best.law.name)
    near = [nearby(best.law, float(shift)) for shift in best.error * AWAY if low <= best.place + shift <= high]
    laws = [of_law(law, sample) for law in near]
    likelihood = np.array([one.likelihood for one in laws])
    return likelihood + likelihood.max() - np.logaddexp.reduce(likelihood), laws


def _rare(sample: Sample) -> Weighed:
    """Return hyperexponential laws; their weights sum to their mean likelihood."""
    laws = [of_law(Law("hyperexponential", float(scv)), sample) for scv in RARE]
    return np.array([one.likelihood for one in laws]) - np.log(RARE.size), laws


def _exceeded(families: Sequence[Weighed], tail: float) -> float:
    """Return the rate below which `tail` of the weighted laws' probability lies."""
    merit = np.concatenate([weight for weight, _ in families])
    laws = [one for _, family in families for one in family]
    weight = np.exp(merit - np.logaddexp.reduce(merit))
    rate, shape = np.array([(float(one.log_rate[0]), float(one.curve[0])) for one in laws]).T
    grid = np.linspace((rate - 6 / np.sqrt(shape)).min(), rate.max(), POINTS)
    below = weight @ gammainc(shape[:, None], shape[:, None] * np.exp(grid - rate[:, None]))
    return float(np.exp(np.interp(tail, below, grid)))
