"""The best sampling of a family at a given concurrency, from several starts.

The logarithm of the value is minimised over the free numbers by L-BFGS; where a cap on staleness binds, under that cap.
"""

from collections.abc import Sequence

from sojourn.planning.bound.capped import best_within_cap
from sojourn.planning.bound.descent import descend
from sojourn.planning.bound.problem import MET, Candidate, Problem, judged
from sojourn.types import Floats


def best_sampling(problem: Problem, concurrency: int, starts: Sequence[Floats], thorough: bool = False) -> Candidate:
    """The best of the descents from these starts, or of the few that there are to choose among.

    A cap that binds makes more valleys; `thorough` looks for these too.
    """
    if problem.only:
        return min((judged(problem, concurrency, free) for free in problem.only), key=lambda one: one.order)
    found = [judged(problem, concurrency, descend(problem, concurrency, start)) for start in starts]
    found.sort(key=lambda one: one.prediction.value)
    best = found[0]
    if best.excess <= MET or concurrency - 1 > problem.most_staleness * (1 + MET):  # their mean is C - 1 for all p
        return best
    return best_within_cap(problem, concurrency, starts, found, thorough)
