"""Draw a state exactly from the stationary law of a capped network: how many tasks each client holds.

The clients are independent with their tilted laws, given that they hold C tasks together (see `held`). The clients that
vary most, as many as fit into a table of moderate size, are set aside. The others are drawn independently, and the draw
is accepted with the probability that those set aside hold the rest, divided by the largest such probability. Then those
are drawn one by one, each from its law given what is left for it and the ones after it.
"""

import numpy as np
from scipy.signal import lfilter
from scipy.special import gammaln

from sojourn.compiled import compiled
from sojourn.timing.exact.capped import CappedNetwork
from sojourn.timing.exact.held import NONE, Tilted
from sojourn.types import Floats, Integers

_TABLE = 4_000_000  # most numbers in the table


def draw_state(network: CappedNetwork, rng: np.random.Generator) -> Integers:
    """Draw from the stationary law how many tasks each client holds, wherever they are.

    >>> from sojourn.fleet import Fleet
    >>> from sojourn.timing.exact.capped import capped_network
    >>> network = capped_network(Fleet.of(fast=(3, 8.0), slow=(2, 1.0)), [1.0, 1.0], 4, cap=[1, 2])
    >>> int(draw_state(network, np.random.default_rng(1)).sum())
    4
    """
    tilted, tasks = network.circle.tilted, network.concurrency
    group = network.fleet.group_of_client
    order = np.argsort(-_variances(tilted)[group], kind="stable")
    width = np.minimum(np.cumsum(network.cap[group][order]), tasks) + 1
    kept = max(1, int(np.searchsorted(width * np.arange(1, width.size + 1), _TABLE, side="right")))
    late, early = order[:kept], np.sort(order[kept:])
    laws = [_law(tilted, int(g), tasks) for g in group[late]]
    table = _table(tilted, group[late], laws, int(width[kept - 1]))
    held = np.zeros(group.size, dtype=np.int64)
    while True:
        held[early] = _independent(tilted, group[early], rng)
        rest = tasks - int(held[early].sum())
        if 0 <= rest < table.shape[1] and rng.random() * table[0].max() < table[0, rest]:
            break
    first = np.cumsum([0, *(law.size for law in laws)])
    held[late] = _one_by_one(table, np.concatenate(laws), first, rest, rng.random(kept))
    return held


@compiled
def _variances(t: Tilted) -> Floats:
    """Return the variance of the tilted law of one client of each group."""
    result = np.zeros(t.cap.size)
    for i in range(t.cap.size):
        if t.cap[i] == NONE:
            result[i] = t.ratio[i] / (1.0 - t.ratio[i]) ** 2 + t.linked[i]
        mean = 0.0
        for k in range(t.cap[i] + 1):
            mean += k * t.prob[t.first[i] + k]
        for k in range(t.cap[i] + 1):
            result[i] += (k - mean) ** 2 * t.prob[t.first[i] + k]
    return result


def _law(t: Tilted, group: int, tasks: int) -> Floats:
    """Return the tilted probabilities of 0, 1, ... tasks, up to C."""
    cap, first = int(t.cap[group]), int(t.first[group])
    if cap != NONE:
        return t.prob[first : first + cap + 1]
    return _geometric(t, group, _poisson(float(t.linked[group]), tasks))


def _poisson(mean: float, most: int) -> Floats:
    number = np.arange(most + 1)
    if mean == 0:
        return np.asarray(number == 0, dtype=np.float64)
    return np.asarray(np.exp(number * np.log(mean) - mean - gammaln(number + 1)))


def _geometric(t: Tilted, group: int, others: Floats) -> Floats:
    """Return the law of the sum of the others and a geometric queue."""
    ratio = float(t.ratio[group])
    return np.asarray(lfilter([1 - ratio], [1.0, -ratio], others))


def _table(t: Tilted, groups: Integers, laws: list[Floats], width: int) -> Floats:
    """Return a table whose row k is the law of what client k and those after it hold together; the last row is for
    nobody.
    """
    table = np.zeros((groups.size + 1, width))
    table[-1, 0] = 1.0
    for k in range(groups.size - 1, -1, -1):
        group = int(groups[k])
        if t.cap[group] != NONE:
            table[k] = _sum(table[k + 1], laws[k])
        else:
            poisson = _poisson(float(t.linked[group]), width - 1)
            table[k] = _geometric(t, group, _sum(table[k + 1], poisson[: int(np.flatnonzero(poisson).max()) + 1]))
    return table


@compiled
def _sum(others: Floats, law: Floats) -> Floats:
    """Return the law of a sum, cut to the size of the first."""
    result = np.zeros(others.size)
    for k in range(law.size):
        for s in range(others.size - k):
            result[s + k] += law[k] * others[s]
    return result


def _independent(t: Tilted, groups: Integers, rng: np.random.Generator) -> Integers:
    held = np.zeros(groups.size, dtype=np.int64)
    free = t.cap[groups] == NONE
    if free.any():
        of = groups[free]
        held[free] = rng.geometric(1 - t.ratio[of]) - 1 + rng.poisson(t.linked[of])
    held[~free] = _inverse(t, groups[~free], rng.random(int((~free).sum())))
    return held


@compiled
def _inverse(t: Tilted, groups: Integers, unit: Floats) -> Integers:
    held = np.zeros(groups.size, dtype=np.int64)
    for i in range(groups.size):
        first, cap, left = t.first[groups[i]], t.cap[groups[i]], unit[i]
        while held[i] < cap and left >= t.prob[first + held[i]]:
            left -= t.prob[first + held[i]]
            held[i] += 1
    return held


@compiled
def _one_by_one(table: Floats, laws: Floats, first: Integers, rest: int, unit: Floats) -> Integers:
    held = np.zeros(unit.size, dtype=np.int64)
    for k in range(unit.size):
        left = unit[k] * table[k, rest]
        chosen = 0
        for number in range(min(rest, first[k + 1] - first[k] - 1) + 1):
            weight = laws[first[k] + number] * table[k + 1, rest - number]
            if weight > 0.0:
                chosen = number  # the last possible number, if rounding left something over
            left -= weight
            if left < 0.0:
                break
        held[k] = chosen
        rest -= chosen
    return held
