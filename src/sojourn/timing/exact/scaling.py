"""The paper's limit regimes for two and three clusters; each value is labelled as exact, limit or bound.

Symbols: theta_i = p_i / mu_i; the n_s slow clients have the largest load and saturate; the n_f near ones (the fast
cluster of two, the medium one of three) are close to it: c = (C + 1)(theta_s / theta_f - 1).

Given the near queues, the slow clients share the rest in (rest)^(n_s - 1) ways. As C grows with c fixed, the near
clients' total s, in units of 1/(theta_s/theta_f - 1), therefore gets the density s^(n_f-1) e^-s (c - s)^(n_s-1) on
(0, c), and

    E[X_f] (theta_s/theta_f - 1) -> c/(n_f+n_s) 1F1(n_f+1; n_f+n_s+1; -c) / 1F1(n_f; n_f+n_s; -c).

The paper has Gamma(c) = P(n_f + 2, c) / P(n_f + 1, c) there, P the regularised lower incomplete gamma function: it
drops the slow factor and counts one client too many; both tend to 1 for large c. Its delay bound is lambda/mu_i
(E[X_i] + 1) with lambda the sum of the rates; with three clusters it takes the fast queues as empty and counts the fast
clients' rates with P(X_f > 0), which is then not a bound any more. The closed forms that it prints set Gamma = 1 and
drop the "+1".
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc, hyp1f1

from sojourn.errors import InvalidInput
from sojourn.timing.exact.analysis import Analysis
from sojourn.types import Floats


@dataclass(frozen=True, eq=False)
class Regime:
    """Values of the limit regime and exact values for one client of each group, in the fleet's order."""

    gamma_paper: float
    """Gamma(c) of the paper."""
    gamma_limit: float
    """The true limit of the scaled near queue."""
    queue_paper: Floats
    """Mean queue by the paper's limit."""
    queue_limit: Floats
    """Mean queue by the limit law (limit)."""
    queue_exact: Floats
    """Mean queue of the network itself (exact)."""
    staleness_printed: Floats
    """The closed form printed in the paper: Gamma = 1, without the +1; NaN where it would be negative."""
    staleness_paper: Floats
    """The paper's delay bound with its own limit and lambda (a bound only for two clusters deep in saturation)."""
    staleness_bound: Floats
    """sum of all rates / mu_i (E_{C-1}[X_i] + 1): the bound behind it, valid for any C (bound, inclusive count)."""
    staleness_exact: Floats
    """Mean staleness, conditional reading, strictly between (exact; the inclusive count is one more)."""
    throughput_paper: float
    """The throughput lambda as the paper counts it."""
    throughput_exact: float
    """Lambda(C) (exact)."""


def gamma_paper(near: int, c: float) -> float:
    """Return Gamma(c) = P(near + 2, c) / P(near + 1, c), as the paper has it.

    >>> round(gamma_paper(5, 200.2), 6)
    1.0
    >>> round(gamma_paper(1, 1.0), 6)
    0.303894
    """
    _check(near, 1, c)
    below = gammainc(near + 1, c)
    if below > 1e-200:
        return float(gammainc(near + 2, c) / below)
    # P(k, x) = x^k e^-x / Gamma(k + 1) 1F1(1; k + 1; x): the small factors cancel in the ratio
    return float(c / (near + 2) * hyp1f1(1, near + 3, c) / hyp1f1(1, near + 2, c))


def gamma_limit(near: int, slow: int, c: float) -> float:
    """Return the limit of the near clients' mean queue times theta_s/theta_f - 1.

    >>> round(gamma_limit(1, 1, 1.0), 6)
    0.418023
    """
    _check(near, slow, c)
    total = near + slow
    if c < 300 and total < 300:
        return float(c / total * hyp1f1(near + 1, total + 1, -c) / hyp1f1(near, total, -c))
    # integrate the density around its peak, where it is all but Gaussian
    peak = ((near + slow + c - 2) - math.sqrt((near + slow + c - 2) ** 2 - 4 * (near - 1) * c)) / 2
    reach = 40 * math.sqrt(near) + 60
    node, weight = np.polynomial.legendre.leggauss(4000)
    low, high = max(0.0, peak - reach), min(c, peak + reach)
    s = low + (high - low) * (node + 1) / 2
    logs = (near - 1) * np.log(s) - s + (slow - 1) * np.log1p(-s / c)
    density = weight * np.exp(logs - logs.max())
    return float((s * density).sum() / density.sum() / near)


def _check(near: int, slow: int, c: float) -> None:
    if not (c > 0 and near >= 1 and slow >= 1):
        raise InvalidInput(f"Gamma needs c > 0 and at least one client in each cluster, got c={c}, {near} and {slow}")


def regime(analysis: Analysis) -> Regime:
    """Return the paper's limit regime of a fleet with two or three groups of different loads, with the exact values.

    `analysis` is the result of `analyze` for the fleet and plan. Raises an error for other fleets.
    """
    fleet, plan = analysis.fleet, analysis.plan
    load = plan.sampling / fleet.rate
    order = np.argsort(load)
    if fleet.groups not in (2, 3) or len({float(value) for value in load}) < fleet.groups:
        raise InvalidInput(
            f"the limit regimes need 2 or 3 groups with different loads p/rate, got {fleet.groups} groups "
            f"with loads {np.array2string(load[:4], precision=4)}; the exact values hold for any fleet"
        )
    if np.isfinite(plan.cap).any():
        raise InvalidInput(
            "the limit regimes are those of clients that may hold any number of tasks, this plan has a cap; "
            "leave the cap out, or the limits"
        )
    if analysis.network.delay > 0:
        raise InvalidInput(
            "the limit regimes do not model links, this fleet has some; the exact values hold for any fleet"
        )
    if np.isfinite(analysis.server_rate):
        raise InvalidInput(
            f"the limit regimes are those of a server that applies updates in no time, got {analysis.server_rate:g} "
            "updates per unit of time; leave the server's rate out, or the limits"
        )
    near, slow = int(order[-2]), int(order[-1])
    excess = float(load[slow] / load[near] - 1)
    tasks = plan.concurrency + 1
    papers = gamma_paper(int(fleet.count[near]), tasks * excess)
    limit = gamma_limit(int(fleet.count[near]), int(fleet.count[slow]), tasks * excess)
    busy = np.ones(fleet.groups)
    if fleet.groups == 3:
        busy[order[0]] = analysis.utilisation[order[0]]
    flow = float((fleet.count * fleet.rate * busy).sum())
    queue_paper = _queues(analysis, near, slow, papers / excess, tasks)
    printed = _queues(analysis, near, slow, 1 / excess, plan.concurrency)
    if fleet.groups == 3:
        printed[order[0]] = 1.0  # the one printed form that keeps its +1
    return Regime(
        gamma_paper=papers,
        gamma_limit=limit,
        queue_paper=queue_paper,
        queue_limit=_queues(analysis, near, slow, limit / excess, tasks),
        queue_exact=analysis.queue,
        staleness_printed=flow / fleet.rate * printed,
        staleness_paper=flow / fleet.rate * (queue_paper + 1),
        staleness_bound=(fleet.count * fleet.rate).sum() / fleet.rate * (analysis.network.queue_before + 1),
        staleness_exact=analysis.staleness(),
        throughput_paper=flow,
        throughput_exact=analysis.throughput,
    )


def _queues(analysis: Analysis, near: int, slow: int, near_queue: float, tasks: float) -> Floats:
    """Return queues: near clients hold `near_queue` each, slow ones share the rest (NaN if
    negative), others are empty.
    """
    count = analysis.fleet.count
    queues = np.zeros(analysis.fleet.groups)
    queues[near] = near_queue
    rest = tasks - count[near] * near_queue
    queues[slow] = rest / count[slow] if rest >= 0 else np.nan
    return queues
