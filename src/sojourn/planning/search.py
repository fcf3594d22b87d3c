"""The search: which policy ends lowest, by the model of training.

Looked at, in stages: who may hold how many tasks and how many are in flight, whom to favour by a power of speed, the
correction (0, 1/2, 1); then for the best of them a buffer (1, 3, 10) and smaller steps for stale updates; then tasks in
between, and free weights for each speed group. The decay is fixed by rule, because the model does not see that it pays.
Where policies tie within what the model can tell, the simplest wins.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite, sqrt

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.landscape import Landscape
from sojourn.plan import Plan
from sojourn.planning.bound.communication import energy_of_task
from sojourn.planning.policy import CORRECTION, SCHEDULE, Policy, Wishes, scenario_of
from sojourn.planning.twin import Predicted, predict
from sojourn.timing.expected import expected

CORRECTIONS = (0.5, 0.0, 1.0)
BUFFERS = (1, 3, 10)
POWERS = (0.0, 0.5, 1.0)
FRACTIONS = (1.0, 0.5, 0.25, 0.1)  # of one task per client
KEPT = 3  # candidates that go on to the next stage
MOST_GROUPS = 3  # up to so many groups get free weights
TIE = 0.5  # losses within this ratio are a tie: the model makes differences larger than training does
FLOOR = 1e-3  # of the first loss: what is predicted below it is a tie, since training has a floor of its own
TRACES = 3
TRANSFER = 2.0  # a real problem's best step size over the model's (docs/twin.md)
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Choice:
    """A point of the search."""

    tasks: int
    """Tasks in flight."""
    cap: int | None = 1
    """Most tasks that a client may hold."""
    weights: tuple[float, ...] = ()
    """Weight of each group; empty = all alike."""
    correction: float = CORRECTION
    """Exponent of an update's weight."""
    buffer: int = 1
    """Updates that make a step."""
    adaptive: bool = False
    """Whether stale updates take smaller steps."""

    def policy(self, fleet: Fleet) -> Policy:
        """As a policy of this fleet."""
        weights = np.array(self.weights) if self.weights else np.ones(fleet.groups)
        plan = replace(
            Plan.weighted(fleet, weights, self.tasks, cap=self.cap),
            correction=self.correction,
            buffer=self.buffer if self.buffer > 1 else None,
            adaptive=True if self.adaptive else None,
            schedule=SCHEDULE,
        )
        return Policy(self.said(fleet), plan)

    def said(self, fleet: Fleet) -> str:
        """In words."""
        whom = {1: "nobody waits", None: "queues"}.get(self.cap, f"at most {self.cap} each")
        parts = [whom, f"C = {self.tasks:,}", f"correction {self.correction:g}"]
        parts += ["weighted"] if self.weights and len(set(self.weights)) > 1 else []
        parts += [f"buffer {self.buffer}"] if self.buffer > 1 else []
        parts += ["adaptive"] if self.adaptive else []
        return ", ".join(parts)

    def departures(self, fleet: Fleet) -> tuple[int, float]:
        """How far it is from the robust policy: in how many ways, and by how many tasks."""
        ways = (
            self.tasks != fleet.clients,
            self.cap != 1,
            bool(self.weights) and len(set(self.weights)) > 1,
            self.correction != CORRECTION,
            self.buffer > 1,
            self.adaptive,
        )
        return sum(ways), abs(np.log(self.tasks / fleet.clients))


@dataclass(frozen=True)
class Aim:
    """What is asked of a policy, and what it must keep."""

    worst: float = 0.0
    """Weight of the worst speed group against the mean: 0 = the mean alone, 1 = the worst alone."""
    most_bytes: float = inf
    """Most bytes that a client may send and receive in the time."""
    model_bytes: float = 0.0
    """Bytes of a model, one way."""
    wishes: Wishes = field(default_factory=Wishes)
    """What is decided already."""

    @property
    def asks(self) -> bool:
        """Whether it takes the model of training to say what keeps it."""
        return self.worst > 0 or isfinite(self.most_bytes)

    def value(self, found: Predicted) -> float:
        """Of a prediction: the lower the better."""
        return (1 - self.worst) * found.loss + self.worst * found.worst

    def allows(self, fleet: Fleet, policy: Policy, time: float) -> bool:
        """Whether a policy keeps the limits."""
        if policy.plan.concurrency > (self.wishes.most_tasks or inf):
            return False
        if isfinite(self.wishes.most_staleness) or isfinite(self.most_bytes):
            seen = expected(fleet, policy.plan, scenario_of(policy))
            if float(seen.staleness().max()) > self.wishes.most_staleness:
                return False
            return 2 * self.model_bytes * float(seen.share.max()) * seen.throughput * time <= self.most_bytes
        return True


@dataclass(frozen=True, eq=False)
class Searched:
    """What was found."""

    choice: Choice
    """The one that is taken."""
    predicted: Predicted
    """What is expected of it."""
    best: Predicted
    """The lowest of all, which may be less simple."""
    tied: tuple[Predicted, ...]
    """Others that the model cannot tell from the best."""
    tried: tuple[Predicted, ...]
    """All that were looked at, the lowest first."""


def search(
    fleet: Fleet,
    time: float,
    landscape: Landscape,
    aim: Aim | None = None,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Searched:
    """The policy of the least predicted loss at the end of the time, or the simplest of those that tie with it.

    >>> found = search(Fleet.of(fast=(9, 8.0), slow=(9, 1.0)), 50.0, Landscape.generic())
    >>> found.choice.cap
    1
    """
    looked = _Looked(fleet, time, landscape, aim or Aim(), seed, progress)
    looked.at(_timings(fleet, looked.aim.wishes))
    looked.at(_servers(looked.leading(KEPT)))
    looked.at(_between(fleet, looked.leading(1), looked.aim.wishes))
    looked.at(_free_weights(fleet, looked.leading(1), looked.aim.wishes))
    return looked.taken()


class _Looked:
    """Choices that were looked at, with what is expected of them."""

    def __init__(
        self, fleet: Fleet, time: float, landscape: Landscape, aim: Aim, seed: int, progress: Progress | None
    ) -> None:
        self.fleet, self.time, self.landscape, self.aim, self.seed = fleet, time, landscape, aim, seed
        self.progress, self.found = progress, dict[Choice, Predicted]()
        self.stage = 0

    def at(self, choices: Iterable[Choice]) -> None:
        """Look at those that are new and allowed."""
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

    def value(self, choice: Choice) -> float:
        value = self.aim.value(self.found[choice])
        return value if isfinite(value) else inf

    def leading(self, many: int) -> list[Choice]:
        """The lowest so far."""
        if not self.found:
            raise InvalidInput(
                "no policy keeps the limits: even few tasks are too stale, or send too many bytes; allow more"
            )
        return sorted(self.found, key=self.value)[:many]

    def taken(self) -> Searched:
        """The simplest of those that tie with the lowest."""
        order = sorted(self.found, key=self.value)
        best = order[0]
        ties = [one for one in order if self._ties(one, best)]
        taken = min(ties, key=lambda one: (one.departures(self.fleet), self.value(one)))
        others = tuple(self.found[one] for one in ties if one != taken)
        tried = tuple(self.found[one] for one in order)
        return Searched(taken, self.found[taken], self.found[best], others, tried)

    def _ties(self, one: Choice, best: Choice) -> bool:
        """Whether the model cannot tell two policies apart: by its own error, or by the scatter of its traces."""
        spread = [self.found[each].error for each in (one, best)]
        noise = 2 * sqrt(sum(value**2 for value in spread if isfinite(value)))
        return self.value(one) <= max(self.value(best) * (1 + TIE) + noise, FLOOR * self.landscape.loss)


def _timings(fleet: Fleet, wishes: Wishes) -> Iterable[Choice]:
    """Who holds how many tasks, and whom to favour, each with every correction."""
    n = fleet.clients
    tasks = [wishes.concurrency] if wishes.concurrency else sorted({max(1, round(n * part)) for part in FRACTIONS})
    corrections = CORRECTIONS if wishes.correction is None else (wishes.correction,)
    for many in tasks:
        most = min(many, n)
        for power in POWERS if most < n else (0.0,):
            weights = _by_speed(fleet, power)
            yield from (Choice(most, 1, weights, one) for one in corrections)
    for many in [wishes.concurrency] if wishes.concurrency else [n]:
        yield from (Choice(min(many, 2 * n), 2, (), one) for one in corrections)
        for power in POWERS:
            yield from (Choice(many, None, _by_speed(fleet, power), one) for one in corrections)


def _by_speed(fleet: Fleet, power: float) -> tuple[float, ...]:
    if power == 0 or np.ptp(fleet.rate) == 0:
        return ()
    weights = (fleet.rate / fleet.rate.max()) ** power
    return tuple(weights.tolist())


def _servers(leading: Sequence[Choice]) -> Iterable[Choice]:
    """What the server may do with the updates of the best timings."""
    for one in leading:
        for buffer in BUFFERS:
            for adaptive in (False, True):
                yield replace(one, buffer=buffer, adaptive=adaptive)


def _between(fleet: Fleet, leading: Sequence[Choice], wishes: Wishes) -> Iterable[Choice]:
    """Numbers of tasks around the best."""
    if wishes.concurrency:
        return
    for one in leading:
        for factor in (0.7, 1.4):
            many = max(1, round(one.tasks * factor))
            if one.cap is None or many <= one.cap * fleet.clients:
                yield replace(one, tasks=many)


def _free_weights(fleet: Fleet, leading: Sequence[Choice], wishes: Wishes) -> Iterable[Choice]:
    """Weights of single groups, twice and half of what they are."""
    for one in leading:
        full = one.cap is not None and one.tasks >= one.cap * fleet.clients
        if full or not 1 < fleet.groups <= MOST_GROUPS:
            continue
        weights = np.array(one.weights or (1.0,) * fleet.groups)
        for group in range(fleet.groups):
            for factor in (0.5, 2.0):
                moved = weights.copy()
                moved[group] *= factor
                yield replace(one, weights=tuple((moved / moved.max()).tolist()))


def energy(fleet: Fleet, policy: Policy, time: float) -> float:
    """Energy of a policy within a time: tasks of every group times what one takes; NaN = powers are not stated."""
    seen = expected(fleet, policy.plan, scenario_of(policy))
    return float((fleet.count * seen.share * energy_of_task(fleet)).sum() * seen.throughput * time)
