"""Find the step size of a policy, in the same way for all policies.

Steps lie on a grid of factor two. Three around the start are tried on one seed; the grid grows while its best lies at
an edge. The best and its neighbours are then tried on the other seeds, until the best of the means has both neighbours
behind it. So a policy costs about nine trials where a grid of seven on two seeds costs fourteen, and no best lies at
an edge. With one trial seed the first part is everything.
"""

from collections.abc import Generator, Mapping
from math import fsum, isfinite

from policies import buffer_of, policies
from runs import Request, Row
from world import Cell

Asked = Generator[list[Request], Mapping[tuple[str, str, str, int], Row], float]
LEAST, MOST = -9, 9


def step_at(cell: Cell, place: int, buffer: int = 1) -> float:
    """Return the step size at a place of the grid; with a buffer the grid begins higher, since a step is a mean of
    many.
    """
    factor = 1
    while factor * 2 <= buffer:
        factor *= 2
    return float(f"{cell.work.start * factor * 2.0**place:.6g}")


def tuned(cell: Cell, policy: str) -> Asked:
    """Yield trials, receive their rows, and return the step size."""
    made = policies(cell)[policy]
    buffer = buffer_of(made)
    seeds, scores = cell.work.trial_seeds, dict[tuple[int, int], float]()

    def ask(places: list[int], which: tuple[int, ...]) -> Generator[list[Request], Mapping[object, Row], None]:
        wanted = {
            (place, seed): Request(cell, policy, "trial", step_at(cell, place, buffer), seed, made)
            for place in places
            for seed in which
            if (place, seed) not in scores
        }
        if wanted:
            rows = yield list(wanted.values())
            scores.update({one: float(rows[request.key]["loss"]) for one, request in wanted.items()})

    def best(which: tuple[int, ...]) -> int:
        places = {place for place, _ in scores if all((place, seed) in scores for seed in which)}
        return min(places, key=lambda one: (_mean([scores[one, seed] for seed in which]), one))

    yield from ask([-1, 0, 1], seeds[:1])
    for _ in range(cell.work.extensions):
        here = best(seeds[:1])
        beside = [one for one in (here - 1, here + 1) if (one, seeds[0]) not in scores and LEAST <= one <= MOST]
        if not beside:
            break
        yield from ask(beside, seeds[:1])
    here, before = best(seeds[:1]), None
    while here != before and len(seeds) > 1:
        yield from ask([one for one in (here - 1, here, here + 1) if LEAST <= one <= MOST], seeds)
        before, here = here, best(seeds)
    return step_at(cell, here, buffer)


def trained(cell: Cell, policy: str) -> Asked:
    """Tune, and then yield the final runs."""
    step = yield from tuned(cell.tuned_in, policy)
    made = policies(cell)[policy]
    yield [Request(cell, policy, "final", step, seed, made) for seed in cell.work.seeds]
    return step


def guessed(cell: Cell, policy: str, step: float) -> Asked:
    """Yield the final runs at a step size that was not tuned."""
    made = policies(cell)[policy]
    yield [Request(cell, policy, "guess", step, seed, made) for seed in cell.work.seeds]
    return step


def _mean(values: list[float]) -> float:
    return fsum(values) / len(values) if all(isfinite(one) for one in values) else float("inf")
