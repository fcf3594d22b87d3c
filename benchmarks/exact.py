"""Compare exact solutions: ours with LINE, contour with mean value analysis, capped with routed."""

from collections.abc import Callable, Sequence
from time import thread_time

import line_peer
import numpy as np
from figure import Figure
from numpy.typing import NDArray

from sojourn import Fleet
from sojourn.timing.exact.capped import capped_network
from sojourn.timing.exact.jackson import ClosedNetwork, Solver

Solve = Callable[[], NDArray[np.float64]]
POPULATION = 10_000


def against_line(rounds: int) -> list[Figure]:
    """Time the mean queues of 1000 different clients; ours comes first."""
    load = np.linspace(0.5, 1.5, 1000) / 1000
    ours, theirs = Figure("sojourn, ClosedNetwork.solve", []), Figure(line_peer.NAME, [], 30.0)
    return _compare(rounds, (ours, _solve(load, None)), (theirs, lambda: line_peer.queues(load, POPULATION)))


def contour_against_mva(rounds: int) -> list[Figure]:
    """Time the mean queues of 100 000 different clients; the contour comes first."""
    load = np.random.default_rng(1).lognormal(sigma=0.5, size=100_000) / 100_000
    contour, mva = Figure("sojourn, contour", []), Figure("sojourn, mean value analysis", [], 2.0)
    return _compare(rounds, (contour, _solve(load, "contour")), (mva, _solve(load, "mva")))


def capped_beside_routed(clients: int, tasks: int, rounds: int, within: float) -> list[Figure]:
    """Time clients with different rates and caps of one and two, and the same clients routed;
    `within` is in seconds.
    """
    fleet = Fleet.of_rates(np.random.default_rng(1).lognormal(size=clients))
    even = np.ones(clients)
    load = even / clients / fleet.rate
    sides: list[tuple[Figure, Callable[[], object]]] = [
        (Figure("sojourn, cap 1", [], within=within), lambda: capped_network(fleet, even, tasks, 1)),
        (Figure("sojourn, cap 2", []), lambda: capped_network(fleet, even, tasks, 2)),
        (Figure("sojourn, routed", []), lambda: ClosedNetwork.solve(load, even, tasks)),
    ]
    solved = capped_network(fleet, even, tasks, 1)
    if not (solved.error <= 1e-10 and abs(solved.share @ solved.staleness / (tasks - 1) - 1) <= 1e-10):
        raise SystemExit("the capped network could not certify its result")
    _time(rounds, sides)
    return [figure for figure, _ in sides]


def _solve(load: NDArray[np.float64], solver: Solver | None) -> Solve:
    return lambda: ClosedNetwork.solve(load, np.ones(load.size), POPULATION, solver=solver).queue


def _compare(rounds: int, *sides: tuple[Figure, Solve]) -> list[Figure]:
    """Time the sides in turns, after checking that their queues are the same."""
    (first, ours), (second, theirs) = sides
    if not np.abs(ours() / theirs() - 1).max() <= 1e-9:
        raise SystemExit(f"{first.name} and {second.name} disagree about the mean queues")
    _time(rounds, sides)
    return [first, second]


def _time(rounds: int, sides: Sequence[tuple[Figure, Callable[[], object]]]) -> None:
    """Time the sides in turns, after a round that is not counted."""
    for turn in range(rounds + 1):
        for figure, solve in sides:
            began = thread_time()
            solve()
            if turn:
                figure.seconds.append(thread_time() - began)
