"""Successive halving: all candidates are tried briefly, the best of them longer, a few to the end.

A rung is a share of the budget. The caller decides what is tried and how it is judged; a lower score is better.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from math import ceil
from typing import TypeVar

Candidate = TypeVar("Candidate", bound=Hashable)

RUNGS = (1 / 9, 1 / 3, 1.0)
"""Shares of the budget; docs/tune.md has the measurements behind them."""
KEPT = 1 / 3
"""Share of the candidates that go on to the next rung."""
LEAST = 2  # at least so many go on: the winner is then compared with others at every length


def halve(
    candidates: Sequence[Candidate],
    rungs: Sequence[float],
    judge: Callable[[Sequence[Candidate], float], Mapping[Candidate, float] | None],
    kept: float = KEPT,
) -> dict[Candidate, float] | None:
    """The scores of the candidates that reached the last rung; None = not all scores are known yet.

    >>> halve([1, 2, 3, 4, 5, 6, 7], [0.5, 1.0], lambda left, rung: {one: abs(one - 3.2) for one in left})
    {3: 0.20000000000000018, 4: 0.7999999999999998, 2: 1.2000000000000002}
    """
    left = list(candidates)
    for rung in rungs[:-1]:
        found = judge(left, rung)
        if found is None:
            return None
        left = sorted(left, key=found.__getitem__)[: max(LEAST, ceil(kept * len(left) - 1e-9))]
    found = judge(left, rungs[-1])
    return None if found is None else {one: found[one] for one in left}
