"""Find the best number of tasks in flight: first a ladder, then a bracket; each rung starts from its neighbour's
result.

In every case seen the value over C falls to one valley and rises again. The ladder continues for some rungs after a
rise, so that a shallow rise does not stop it, and the neighbours of the result are checked.
"""

from collections.abc import Callable
from math import isfinite

RISES = 3  # rungs above the best one, in a row, that end the ladder
GOLDEN = 0.381966


def best_concurrency(value: Callable[[int], float], most: int, first: int = 1) -> int:
    """Return the C in 1..most with the least value; `value` is called once for each C."""
    known: dict[int, float] = {}

    def ask(tasks: int) -> float:
        if tasks not in known:
            known[tasks] = value(tasks)
        return known[tasks]

    low, high = _ladder(ask, most, first)
    _narrow(ask, low, high)
    best = _least(known)
    while True:
        for near in (best - 2, best - 1, best + 1, best + 2):
            if 1 <= near <= most:
                ask(near)
        if _least(known) == best:
            return best
        best = _least(known)


def _least(known: dict[int, float]) -> int:
    return min(known, key=lambda tasks: (known[tasks], tasks))


def _ladder(ask: Callable[[int], float], most: int, first: int) -> tuple[int, int]:
    """Double and halve from `first` until the value has risen for some rungs; return the rungs around the least."""
    first = min(first, most)
    rungs = {first: ask(first)}
    for up in (True, False):
        at, risen = first, 0
        while risen < RISES:
            at = min(2 * at, most) if up else at // 2
            if at < 1 or at in rungs:
                break
            rungs[at] = ask(at)
            risen = 0 if rungs[at] <= min(rungs.values()) and isfinite(rungs[at]) else risen + 1
            if not isfinite(rungs[at]) and not isfinite(min(rungs.values())) and not up:
                risen = 0  # nothing feasible yet: try fewer tasks
    order = sorted(rungs)
    place = order.index(_least(rungs))
    return order[max(place - 1, 0)], order[min(place + 1, len(order) - 1)]


def _narrow(ask: Callable[[int], float], low: int, high: int) -> None:
    """Search the whole numbers between two rungs by golden section."""
    while high - low > 3:
        step = max(1, round(GOLDEN * (high - low)))
        left, right = low + step, high - step
        if left >= right:
            left, right = low + (high - low) // 2, low + (high - low) // 2 + 1
        if ask(left) <= ask(right):
            high = right
        else:
            low = left
    for tasks in range(low + 1, high):
        ask(tasks)
