"""The paper's limit regimes for two and three clusters, each value labelled as what it is.

Symbols: theta_i = p_i / mu_i; cluster `s` has the largest load and saturates, cluster `f` (two clusters) or `m`
(three) is close to it; c = (C + 1)(theta_s / theta_f - 1);

    Gamma(c) = P(n_f + 2, c) / P(n_f + 1, c),   P the regularised lower incomplete gamma function.

Limits (the paper's corollaries 2 and 3): E[X_f] -> Gamma(c) / (theta_s/theta_f - 1); the saturated clients share the
rest of the C + 1 tasks; with three clusters the fast queues vanish. Delay bound: lambda/mu_i (E[X_i] + 1), where
lambda counts every client as busy (with three clusters the fast ones with probability P(X_f > 0)). The closed forms
printed in the paper set Gamma = 1 and drop the "+1", so that they are not bounds any more.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, hyp1f1

from sojourn.errors import InvalidInput
from sojourn.theory.analysis import Analysis

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Regime:
    """Values for one client of each group, in the fleet's order, named by what they are."""

    gamma: float
    """Gamma(c) of the paper."""
    queue_limit: Floats
    """Limit of the mean queue (limit)."""
    queue_exact: Floats
    """Mean queue of the network itself (exact)."""
    staleness_bound: Floats
    """lambda/mu_i (queue_limit + 1): the proposition's bound on the inclusive count (bound, in the limit)."""
    staleness_printed: Floats
    """The closed form printed in the paper, Gamma = 1 and without the +1 (approximation)."""
    staleness_exact: Floats
    """Mean staleness, conditional reading, strictly between (exact)."""
    throughput_bound: float
    """lambda as the paper counts it (bound)."""
    throughput_exact: float
    """Lambda(C) (exact)."""


def gamma_ratio(near: int, c: float) -> float:
    """Gamma(c) = P(near + 2, c) / P(near + 1, c).

    >>> round(gamma_ratio(5, 200.2), 6)
    1.0
    >>> round(gamma_ratio(1, 1.0), 6)
    0.303874
    """
    if not (c > 0 and near >= 1):
        raise InvalidInput(f"Gamma needs c > 0 and at least one near-saturated client, got c={c}, clients={near}")
    below = gammainc(near + 1, c)
    if below > 1e-200:
        return float(gammainc(near + 2, c) / below)
    # P(k, x) = x^k e^-x / Gamma(k + 1) 1F1(1; k + 1; x): the small factors cancel in the ratio
    return float(c / (near + 2) * hyp1f1(1, near + 3, c) / hyp1f1(1, near + 2, c))


def regime(analysis: Analysis) -> Regime:
    """The limit regime of a fleet with two or three groups of different loads, beside the exact values."""
    fleet, plan = analysis.fleet, analysis.plan
    load = plan.sampling / fleet.rate
    order = np.argsort(load)
    if fleet.groups not in (2, 3) or len({float(value) for value in load}) < fleet.groups:
        raise InvalidInput(
            f"the limit regimes need 2 or 3 groups with different loads p/rate, got {fleet.groups} groups "
            f"with loads {np.array2string(load, precision=4)}; the exact values hold for any fleet"
        )
    near, slow = order[-2], order[-1]
    excess = float(load[slow] / load[near] - 1)
    gamma = gamma_ratio(int(fleet.count[near]), (plan.concurrency + 1) * excess)
    busy = np.ones(fleet.groups)
    if fleet.groups == 3:
        busy[order[0]] = analysis.utilisation[order[0]]
    flow = float((fleet.count * fleet.rate * busy).sum())
    limit = _queues(analysis, near, slow, gamma / excess, plan.concurrency + 1)
    # the printed forms: Gamma = 1, C tasks instead of C + 1, and the "+1" dropped where the queue does not vanish
    printed = _queues(analysis, near, slow, 1 / excess, plan.concurrency)
    if fleet.groups == 3:
        printed[order[0]] = 1.0
    return Regime(
        gamma=gamma,
        queue_limit=limit,
        queue_exact=analysis.queue,
        staleness_bound=flow / fleet.rate * (limit + 1),
        staleness_printed=flow / fleet.rate * printed,
        staleness_exact=analysis.staleness(),
        throughput_bound=flow,
        throughput_exact=analysis.throughput,
    )


def _queues(analysis: Analysis, near: int, slow: int, near_queue: float, tasks: float) -> Floats:
    count = analysis.fleet.count
    queues = np.zeros(analysis.fleet.groups)
    queues[near] = near_queue
    queues[slow] = (tasks - count[near] * near_queue) / count[slow]
    if not math.isfinite(queues[slow]) or queues[slow] < 0:
        raise InvalidInput(
            f"the limit regime needs more tasks than the near-saturated clients hold "
            f"({count[near] * near_queue:.4g}), got concurrency {analysis.plan.concurrency}; use the exact values"
        )
    return queues
