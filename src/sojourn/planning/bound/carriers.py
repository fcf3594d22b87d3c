"""Which clients carry the tasks if staleness is limited: starting points for the search.

C - 1 other tasks are always somewhere. Under a cap on staleness some clients carry as many of them as the cap allows,
and the others see few; every choice of carriers is a separate valley. An open network with throughput Lambda tells
roughly where that valley lies: client i's staleness is Lambda / (mu_i - Lambda p_i) + d_i, with d_i from links and
server, so that a cap s lets it have p_i <= mu_i / Lambda - 1 / (s - d_i). Carriers get that much; the others share the
rest by their weights, as far as the cap allows. The exact network then tells which choices are best.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sojourn.planning.bound.family import ByLabel
from sojourn.planning.bound.objective import NetworkObjective, client_weights
from sojourn.planning.bound.problem import Problem, judged
from sojourn.types import Flags, Floats

ALL = 6  # up to this many bands every choice is tried
BANDS = 24  # most bands of neighbouring speeds that carry or do not
CLIMBS = 4  # choices that are improved band by band, if not all are tried
LEVELS = (0.01, 0.04, 0.08, 0.25, 0.42, 0.58, 0.75, 0.92)  # levels of the throughput that are tried with each choice
LEAST = 1e-9  # probability of a client, before the floor


class Start(NamedTuple):
    """The starting point of a choice."""

    merit: float
    """Its value."""
    free: Floats
    """Free numbers."""


def carrying(problem: Problem, concurrency: int, many: int) -> list[Floats]:
    """Return free numbers of the best choices of carriers; an empty list for a family that cannot choose."""
    if not isinstance(problem.family, ByLabel) or problem.family.size == 1:
        return []
    return _Choices(problem, problem.family, concurrency).best(many)


class _Choices:
    """The choices of carriers tried so far, by bands of speed; with few labels each is its own band."""

    def __init__(self, problem: Problem, family: ByLabel, concurrency: int) -> None:
        self._problem, self._family, self._concurrency = problem, family, concurrency
        fleet, objective = problem.fleet, problem.objective
        self._count = fleet.count.astype(np.float64)
        self._weights, self._server_rate = np.ones(fleet.groups), np.inf
        if isinstance(objective, NetworkObjective):
            self._weights = client_weights(fleet, objective.weights)
            self._server_rate = objective.server_rate or np.inf
        speed = family.nearest(np.log(fleet.rate), self._count)
        self._bands = min(family.size, BANDS)
        band = np.argsort(np.argsort(speed, kind="stable")) * self._bands // family.size
        self._band = band[family.label]
        self._known: dict[bytes, Start] = {}

    def best(self, many: int) -> list[Floats]:
        """Return the free numbers of the best choices."""
        for choice in self._choices():
            self._start(choice)
        if self._bands > ALL:
            for key in self._order()[:CLIMBS]:
                self._climb(np.frombuffer(key, dtype=np.bool_))
        return [self._known[key].free for key in self._order()[:many]]

    def _order(self) -> list[bytes]:
        found = [key for key, start in self._known.items() if np.isfinite(start.merit)]
        return sorted(found, key=lambda key: self._known[key].merit)

    def _choices(self) -> Iterator[Flags]:
        """Yield all choices; or each band alone, all bands but one, the slowest, the fastest."""
        if self._bands <= ALL:
            for number in range(1, 2**self._bands):
                yield np.array([number >> band & 1 for band in range(self._bands)], dtype=np.bool_)
            return
        bands = np.arange(self._bands)
        for band in bands:
            for choice in (bands == band, bands <= band):
                yield choice
                yield ~choice

    def _climb(self, choice: Flags) -> None:
        """Change one band at a time as long as that improves the value."""
        merit = self._start(choice).merit
        while True:
            tried = [choice ^ one for one in np.eye(choice.size, dtype=np.bool_)]
            merits = [self._start(one).merit for one in tried]
            if min(merits) >= merit:
                return
            choice, merit = tried[int(np.argmin(merits))], min(merits)

    def _start(self, choice: Flags) -> Start:
        key = choice.tobytes()
        if key not in self._known:
            tried = (self._judged(p) for p in self._samplings(choice[self._band]))
            self._known[key] = min(tried, key=lambda one: one.merit, default=Start(np.inf, np.zeros(0)))
        return self._known[key]

    def _judged(self, p: Floats) -> Start:
        above = np.maximum(p / (self._count * p).sum() - self._problem.floor, LEAST)
        free = self._family.nearest(np.log(above), self._count)
        return Start(judged(self._problem, self._concurrency, free).merit, free)

    def _samplings(self, carriers: Flags) -> Iterator[Floats]:
        """Yield samplings with these carriers, from nothing for the others to the most that the cap allows them."""
        if not carriers.any():
            return
        low, high = self._throughput(carriers), self._throughput(np.ones_like(carriers))
        if carriers.all() or not low < high:
            yield self._most(high)
            return
        for level in LEVELS:
            most = self._most(low * (high / low) ** level)
            rest = 1 - float((self._count * most)[carriers].sum())
            yield np.where(carriers, most, self._shared(most, ~carriers, max(rest, LEAST)))

    def _throughput(self, carriers: Flags) -> float:
        """Return the throughput at which the most that the cap allows these clients is everything."""
        high = float((self._count * self._problem.fleet.rate).sum())
        low = 1e-12 * high
        for _ in range(60):
            middle = float(np.sqrt(low * high))
            enough = (self._count * self._most(middle))[carriers].sum() >= 1
            low, high = (middle, high) if enough else (low, middle)
        return low

    def _most(self, throughput: float) -> Floats:
        """Return the largest probability that the cap allows each client."""
        busy = min(throughput / self._server_rate, 1 - LEAST)
        fleet = self._problem.fleet
        room = self._problem.most_staleness - throughput * fleet.link_time - busy / (1 - busy)
        return np.maximum(fleet.rate / throughput - 1 / np.maximum(room, LEAST), LEAST)

    def _shared(self, most: Floats, others: Flags, rest: float) -> Floats:
        """Share the rest among the others by their weights, with nobody above the most."""
        full = np.where(others, most / self._weights, np.inf)
        order = np.argsort(full)[: int(others.sum())]
        mass = (self._count * self._weights)[order]
        used = np.cumsum(mass * full[order]) - mass * full[order]  # by those who have the most, if these come first
        level = (rest - used) / (mass.sum() - np.cumsum(mass) + mass)  # and the share of all that come after
        within = np.flatnonzero(level <= full[order])
        return np.asarray(np.minimum(level[within[0] if within.size else -1] * self._weights, most))
