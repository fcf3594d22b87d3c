"""Choices: the points of the search for a policy, and the requirements on a policy."""

from dataclasses import dataclass, field, replace
from math import inf, isfinite, isinf

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import MOST_TASKS, Plan
from sojourn.planning.bound.communication import energy_of_task
from sojourn.planning.policy import CORRECTION, SCHEDULE, Policy, Wishes, scenario_of
from sojourn.planning.twin import Predicted
from sojourn.timing.expected import expected

Held = int | float | None | tuple[float | None, ...]


@dataclass(frozen=True)
class Choice:
    """A point of the search."""

    tasks: int
    """Tasks in flight."""
    cap: Held = 1
    """Most tasks that a client may hold, one number or one per group; None = any number."""
    weights: tuple[float, ...] = ()
    """Sampling weight of each group; empty = all the same."""
    correction: float = CORRECTION
    """Exponent of an update's weight."""
    buffer: int = 1
    """Number of updates per server step."""
    adaptive: bool = False
    """Whether stale updates take smaller steps."""

    def policy(self, fleet: Fleet) -> Policy:
        """Return the choice as a policy for this fleet."""
        weights = np.array(self.weights) if self.weights else np.ones(fleet.groups)
        plan = replace(
            Plan.weighted(fleet, weights, self.tasks, cap=self.cap),  # normalises the weights
            correction=self.correction,
            buffer=self.buffer if self.buffer > 1 else None,
            adaptive=True if self.adaptive else None,
            schedule=SCHEDULE,
        )
        return Policy(self.said(fleet), plan)

    def said(self, fleet: Fleet) -> str:
        """Describe the choice in words."""
        parts = [self._whom(fleet), f"C = {self.tasks:,}", f"correction {self.correction:g}"]
        parts += ["weighted"] if self.weights and len(set(self.weights)) > 1 else []
        parts += [f"buffer {self.buffer}"] if self.buffer > 1 else []
        parts += ["adaptive"] if self.adaptive else []
        return ", ".join(parts)

    def _whom(self, fleet: Fleet) -> str:
        if self.cap is None or self.cap == 1:
            return "queues" if self.cap is None else "nobody waits"
        several = isinstance(self.cap, tuple)
        each = ("any" if one is None else f"{one:g}" for one in _caps(fleet, self.cap)[: None if several else 1])
        return f"at most {'/'.join(each)} each"

    def departures(self, fleet: Fleet) -> tuple[int, float]:
        """Return how far the choice is from the robust policy: in how many respects, and by how many tasks."""
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
    """What a policy should minimise, and the limits that it must keep."""

    worst: float = 0.0
    """Weight of the worst speed group against the mean: 0 = only the mean, 1 = only the worst group."""
    most_bytes: float = inf
    """Most bytes that a client may send and receive in the time."""
    model_bytes: float = 0.0
    """Size of a model in bytes, one way."""
    wishes: Wishes = field(default_factory=Wishes)
    """What the user has decided already."""

    def __post_init__(self) -> None:
        if not 0 <= self.worst <= 1:
            raise InvalidInput(f"worst must be a weight from 0 (the mean) to 1 (the worst group), got {self.worst}")
        if not self.most_bytes > 0:
            raise InvalidInput(f"most_bytes must be positive, got {self.most_bytes:g}; leave it out for no limit")
        if isfinite(self.most_bytes) and not (isfinite(self.model_bytes) and self.model_bytes > 0):
            raise InvalidInput(
                f"a limit of {self.most_bytes:g} bytes needs the bytes of a model, got {self.model_bytes:g}; "
                "give model_bytes"
            )

    @property
    def asks(self) -> bool:
        """Whether the model of training is needed to check the requirements."""
        return self.worst > 0 or isfinite(self.most_bytes)

    def value(self, found: Predicted) -> float:
        """Return the value of a prediction; lower is better."""
        return (1 - self.worst) * found.loss + self.worst * found.worst

    def allows(self, fleet: Fleet, policy: Policy, time: float) -> bool:
        """Whether a policy keeps the limits."""
        if policy.plan.concurrency > (self.wishes.most_tasks or inf):
            return False
        if isfinite(self.wishes.most_staleness) or isfinite(self.most_bytes):
            seen = expected(fleet, policy.plan, scenario_of(policy))
            if float(seen.staleness().max()) > self.wishes.most_staleness:
                return False
            if isfinite(self.most_bytes):
                return 2 * self.model_bytes * float(seen.share.max()) * seen.throughput * time <= self.most_bytes
        return True

    def said(self) -> str:
        """Describe the limits in words."""
        most_tasks, most_staleness = self.wishes.most_tasks, self.wishes.most_staleness
        parts = [] if most_tasks is None else [f"at most {most_tasks:,} tasks in flight"]
        parts += [f"a staleness of at most {most_staleness:g}"] if isfinite(most_staleness) else []
        parts += [f"at most {self.most_bytes:g} bytes per client"] if isfinite(self.most_bytes) else []
        return ", ".join(parts)


def held_of(wishes: Wishes) -> Held:
    """Return the cap that the user set, one number if it is the same for all; 1 if none is set."""
    cap = wishes.held
    if cap is None or isinstance(cap, int | float):
        return None if cap is None or isinf(cap) else cap
    each = tuple(None if one is None or isinf(one) else float(one) for one in cap)
    return each[0] if len(set(each)) == 1 else each


def _caps(fleet: Fleet, cap: Held) -> tuple[float | None, ...]:
    return cap if isinstance(cap, tuple) else (cap,) * fleet.groups


def room_of(fleet: Fleet, cap: Held) -> int:
    """Return the most tasks that may be in flight under a cap."""
    each = np.array([np.inf if one is None else one for one in _caps(fleet, cap)])
    return int(min(float((fleet.count * each).sum()), MOST_TASKS))


def energy(fleet: Fleet, policy: Policy, time: float) -> float:
    """Return the energy in joules of a policy within a time; NaN = the fleet does not state its powers."""
    seen = expected(fleet, policy.plan, scenario_of(policy))
    return float((fleet.count * seen.share * energy_of_task(fleet)).sum() * seen.throughput * time)
