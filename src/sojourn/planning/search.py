"""Search for the policy with the lowest final loss, by the model of training.

The search has stages. First: the cap, the number of tasks in flight, the power of speed by which to favour clients, and
the correction (0, 1/2, 1). Then, for the best of them: a buffer (1, 3, 10) and smaller steps for stale updates. Then
numbers of tasks in between, and free weights for each speed group. The decay is fixed by a rule, because the model does
not see its benefit. If policies tie within the accuracy of the model, the simplest wins.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, sqrt

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.landscape import Landscape
from sojourn.planning.choices import Aim, Choice, energy, held_of, room_of
from sojourn.planning.policy import Wishes
from sojourn.planning.twin import Predicted, predict

CORRECTIONS = (0.5, 0.0, 1.0)
BUFFERS = (1, 3, 10)
POWERS = (0.0, 0.5, 1.0)
FRACTIONS = (1.0, 0.5, 0.25, 0.1)  # of one task per client
KEPT = 3  # candidates that enter the next stage
MOST_GROUPS = 3  # up to this many groups get free weights
TIE = 0.5  # losses within this ratio are a tie: differences in the model are larger than in training
FLOOR = 1e-3  # predictions below this part of the first loss are a tie, since training has a floor
TRACES = 3
TRANSFER = 1.23  # a real problem's best step size divided by the model's, with measured constants (docs/twin.md)
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Searched:
    """The result of a search."""

    choice: Choice
    """The chosen point."""
    predicted: Predicted
    """The prediction for it."""
    best: Predicted
    """The policy with the lowest loss, which may be less simple."""
    tied: tuple[Predicted, ...]
    """Other policies that the model cannot distinguish from the best."""
    tried: tuple[Predicted, ...]
    """All policies tried, the lowest loss first."""
    choices: tuple[Choice, ...]
    """The points of these policies."""


def search(
    fleet: Fleet,
    time: float,
    landscape: Landscape,
    aim: Aim | None = None,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Searched:
    """Return the policy with the lowest predicted final loss, or the simplest of those that tie with it.

    >>> found = search(Fleet.of(fast=(9, 8.0), slow=(9, 1.0)), 50.0, Landscape.generic())
    >>> found.choice.cap
    1
    """
    looked = _Looked(fleet, time, landscape, aim or Aim(), seed, progress)
    looked.at(_timings(fleet, looked.aim.wishes, looked.most_tasks()))
    looked.at(_servers(looked.leading(KEPT)))
    looked.at(_between(fleet, looked.leading(1), looked.aim.wishes))
    looked.at(_free_weights(fleet, looked.leading(1)))
    return looked.taken()


class _Looked:
    """The choices tried so far, with their predictions."""

    def __init__(
        self, fleet: Fleet, time: float, landscape: Landscape, aim: Aim, seed: int, progress: Progress | None
    ) -> None:
        self.fleet, self.time, self.landscape, self.aim, self.seed = fleet, time, landscape, aim, seed
        self.progress, self.found = progress, dict[Choice, Predicted]()
        self.stage = 0

    def at(self, choices: Iterable[Choice]) -> None:
        """Try the choices that are new and allowed."""
        asked = [one for one in dict.fromkeys(choices) if one not in self.found]
        policies = {one: one.policy(self.fleet) for one in asked}
        allowed = [one for one, policy in policies.items() if self.aim.allows(self.fleet, policy, self.time)]
        found = predict(
            self.fleet,
            [policies[one] for one in allowed],
            self.time,
            self.landscape,
            traces=TRACES,
            seed=self.seed,
        )
        self.found.update(zip(allowed, found, strict=True))
        self.stage += 1
        if self.progress is not None:
            self.progress(self.stage, 4)

    def most_tasks(self) -> int:
        """Return the most tasks, up to one per client, that keep the limits if no client is favoured.

        Staleness and bytes rise with the number of tasks, so bisection finds it.
        """

        def kept(tasks: int) -> bool:
            return self.aim.allows(self.fleet, Choice(tasks, wished).policy(self.fleet), self.time)

        wished = held_of(self.aim.wishes)
        room = min(self.fleet.clients, room_of(self.fleet, wished))
        if kept(room):
            return room
        low, high = 1, room
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if kept(middle) else (low, middle)
        return low

    def value(self, choice: Choice) -> float:
        value = self.aim.value(self.found[choice])
        return value if isfinite(value) else inf

    def leading(self, many: int) -> list[Choice]:
        """Return the choices with the lowest loss so far."""
        if not self.found:
            tasks = self.aim.wishes.concurrency
            with_tasks = "" if tasks is None else f" with {tasks:,} tasks in flight"
            raise InvalidInput(f"no policy keeps the limits{with_tasks}: {self.aim.said()}; allow more")
        return sorted(self.found, key=self.value)[:many]

    def taken(self) -> Searched:
        """Return the simplest choice of those that tie with the lowest."""
        order = sorted(self.found, key=self.value)
        best = order[0]
        ties = [one for one in order if self._ties(one, best)]
        taken = min(ties, key=lambda one: (one.departures(self.fleet), self.value(one)))
        others = tuple(self.found[one] for one in ties if one != taken)
        tried = tuple(self.found[one] for one in order)
        return Searched(taken, self.found[taken], self.found[best], others, tried, tuple(order))

    def _ties(self, one: Choice, best: Choice) -> bool:
        """Whether the model cannot distinguish two policies, given its own error and the scatter of its traces."""
        spread = [self.found[each].error for each in (one, best)]
        noise = 2 * sqrt(sum(value**2 for value in spread if isfinite(value)))
        mine, lowest = (self.value(each) - self.landscape.lowest for each in (one, best))
        return mine <= max(lowest * (1 + TIE) + noise, FLOOR * self.landscape.loss)


def _timings(fleet: Fleet, wishes: Wishes, most: int) -> Iterable[Choice]:
    """Yield how many tasks clients may hold, and whom to favour, each with every correction."""
    corrections = CORRECTIONS if wishes.correction is None else (wishes.correction,)
    fewer = sorted({max(1, round(most * part)) for part in FRACTIONS})
    wish = not isinstance(wishes.cap, str)
    for cap in (held_of(wishes),) if wish else (1, 2, None):
        room = room_of(fleet, cap)
        tasks = [wishes.concurrency] if wishes.concurrency else fewer if wish or cap == 1 else [most]
        for many in tasks:
            if many > room and not wish:
                continue  # if the user sets both, the plan raises the error
            for power in POWERS if many < room and cap != 2 else (0.0,):
                yield from (Choice(many, cap, _by_speed(fleet, power), one) for one in corrections)


def _by_speed(fleet: Fleet, power: float) -> tuple[float, ...]:
    if power == 0 or np.ptp(fleet.rate) == 0:
        return ()
    weights = (fleet.rate / fleet.rate.max()) ** power
    return tuple(weights.tolist())


def _servers(leading: Sequence[Choice]) -> Iterable[Choice]:
    """Yield what the server may do with the updates of the best timings."""
    for one in leading:
        for buffer in BUFFERS:
            for adaptive in (False, True):
                yield replace(one, buffer=buffer, adaptive=adaptive)


def _between(fleet: Fleet, leading: Sequence[Choice], wishes: Wishes) -> Iterable[Choice]:
    """Yield numbers of tasks around the best."""
    if wishes.concurrency:
        return
    for one in leading:
        for factor in (0.7, 1.4):
            many = max(1, round(one.tasks * factor))
            if many <= room_of(fleet, one.cap):
                yield replace(one, tasks=many)


def _free_weights(fleet: Fleet, leading: Sequence[Choice]) -> Iterable[Choice]:
    """Yield weights of single groups, doubled and halved."""
    for one in leading:
        full = one.tasks >= room_of(fleet, one.cap)  # every client always has a task, so nobody is drawn
        if full or not 1 < fleet.groups <= MOST_GROUPS:
            continue
        weights = np.array(one.weights or (1.0,) * fleet.groups)
        for group in range(fleet.groups):
            for factor in (0.5, 2.0):
                moved = weights.copy()
                moved[group] *= factor
                yield replace(one, weights=tuple((moved / moved.max()).tolist()))


__all__ = ["Aim", "Choice", "Progress", "Searched", "energy", "search"]
