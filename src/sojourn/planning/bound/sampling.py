"""Find the best sampling of a family at a given concurrency, from several starts.

L-BFGS minimises the logarithm of the value over the free numbers, subject to a cap on staleness if that binds. Under a
cap there are many valleys (see `carriers`): the best choices of carriers are starts in addition to the usual ones. For
few groups sequential quadratic programming finds each valley's best, for many an augmented Lagrangian.
"""

from collections.abc import Sequence

import numpy as np

from sojourn.planning.bound import multipliers, sequential
from sojourn.planning.bound.carriers import carrying
from sojourn.planning.bound.problem import MET, Candidate, Problem, descend, judged
from sojourn.types import Floats

FEW = 30  # up to this many groups every group's staleness has its own gradient
CHOICES, FEWER = 20, 3  # choices of carriers that are tried; the latter with more groups
GLANCE = 5  # steps by which starts are judged
KEPT = 6  # starts that are followed to the end
POWERS = (-4.0, -2.0, -1.0, 2.0, 4.0)  # powers of speed that are also tried if carriers cannot be chosen


def best_sampling(problem: Problem, concurrency: int, starts: Sequence[Floats], thorough: bool = False) -> Candidate:
    """Return the best result of descents from these starts, or of the few points to choose among.

    A cap that binds makes more valleys; with `thorough` these are searched too.
    """
    if problem.only:
        return min((judged(problem, concurrency, free) for free in problem.only), key=lambda one: one.order)
    found = [judged(problem, concurrency, descend(problem, concurrency, start)) for start in starts]
    found.sort(key=lambda one: one.prediction.value)
    best = found[0]
    if best.excess <= MET or concurrency - 1 > problem.most_staleness * (1 + MET):  # their mean is C - 1 for all p
        return best
    return best_within_cap(problem, concurrency, starts, found, thorough)


def best_within_cap(
    problem: Problem, concurrency: int, starts: Sequence[Floats], free: Sequence[Candidate], thorough: bool
) -> Candidate:
    """Return the best sampling within the cap; if none was found, the one whose largest staleness is least.

    `free` are the best samplings without the cap. With `thorough`, carriers are always tried.
    """
    begin = list(starts)
    if thorough:
        begin = [free[0].free, *(starts if problem.fleet.groups <= FEW else []), *_more(problem, concurrency)]
    within = _least(problem, concurrency, begin)
    if within.excess > MET and not thorough:
        begin = []
        within = min(within, _least(problem, concurrency, _more(problem, concurrency)), key=lambda one: one.excess)
    if within.excess > MET:
        return within
    known = any(within.free is one for one in begin)
    begin = begin if known else [*begin, within.free]
    ends = [_best(problem, concurrency, one) for one in _promising(problem, concurrency, begin)]
    return min([*free, *ends, within], key=lambda one: one.order)


def _more(problem: Problem, concurrency: int) -> list[Floats]:
    """Return the additional starts under a cap."""
    chosen = carrying(problem, concurrency, CHOICES if problem.fleet.groups <= FEW else FEWER)
    logs, mass = np.log(problem.fleet.rate), problem.fleet.count.astype(np.float64)
    return chosen or [problem.family.nearest(power * logs, mass) for power in POWERS]


def _promising(problem: Problem, concurrency: int, starts: Sequence[Floats]) -> Sequence[Floats]:
    """Return, of many starts, those from which a few steps lead to the best values, and where these lead."""
    if len(starts) <= KEPT or problem.fixed or problem.fleet.groups > FEW:
        return starts
    ends = [sequential.best_in_valley(problem, concurrency, start, GLANCE) for start in starts]
    merits = [judged(problem, concurrency, end).merit for end in ends]
    return [ends[place] for place in np.argsort(merits, kind="stable")[:KEPT]]


def _best(problem: Problem, concurrency: int, start: Floats) -> Candidate:
    """Return the best sampling within the cap in the valley of `start`."""
    if problem.fixed:
        return judged(problem, concurrency, start)
    if problem.fleet.groups > FEW:
        return multipliers.best_in_valley(problem, concurrency, start)
    return judged(problem, concurrency, sequential.best_in_valley(problem, concurrency, start))


def _least(problem: Problem, concurrency: int, starts: Sequence[Floats]) -> Candidate:
    """Return a sampling within the cap from one of these starts; if there is none, the one with the least staleness."""
    found = sorted((judged(problem, concurrency, start) for start in starts), key=lambda one: one.excess)
    way = multipliers if problem.fleet.groups > FEW else sequential
    best = found[0]
    for one in found:
        if best.excess <= MET or problem.fixed:
            break
        reached = judged(problem, concurrency, way.least_staleness(problem, concurrency, one.free))
        best = min(best, reached, key=lambda one: one.excess)
    return best
