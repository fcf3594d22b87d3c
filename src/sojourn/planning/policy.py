"""Policies: ways to run a federation, by name. The robust one, which needs no data, and the usual ones beside it.

The robust policy: one task for each client, given to whoever is free, so that nobody waits and nobody is idle; updates
weighed by half of the correction for how often they come; a step size that falls linearly to zero at the end of the
budget. Throughput, shares and staleness of it are exact, for any service law, from mean durations alone. The step size
is left to tuning or calibration: no theory of ours knows it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Cap, Plan
from sojourn.scenario import Dispatcher, Scenario
from sojourn.timing.expected import expected

CORRECTION = 0.5
SCHEDULE = "linear(end=budget)"
BUFFER = 10
OBJECTIVE = "loss in the time given"
FAST_GROUPS = 20  # up to so many groups the bound's plan has a probability for each


@dataclass(frozen=True, eq=False)
class Policy:
    """A way to run a federation, by name."""

    name: str
    """What it is called."""
    plan: Plan
    """Whom, how many, how many each, how they are weighed."""
    algorithm: str = "generalized-asyncsgd"
    """What applies the updates."""
    dispatcher: str = "routed"
    """Who gets the next task, where that is not a matter of the plan."""

    @property
    def gathered(self) -> int:
        """Updates that make one step of the server."""
        if self.plan.buffer is not None:
            return self.plan.buffer
        head, _, tail = self.algorithm.partition("size=")
        return int(tail.partition(",")[0].rstrip(") ")) if head.startswith("fedbuff") and tail else 1


@dataclass(frozen=True)
class Wishes:
    """What whoever asks for a policy has decided already; None = left to the planner."""

    concurrency: int | None = None
    """Tasks in flight."""
    cap: Cap | Literal["open"] = "open"
    """Most tasks that a client may hold; None = any number, "open" = left to the planner."""
    correction: float | None = None
    """Exponent of an update's weight."""
    most_tasks: int | None = None
    """Most tasks in flight."""
    most_staleness: float = np.inf
    """Largest mean staleness of every client."""

    @property
    def held(self) -> Cap:
        """Most tasks that a client may hold: one, unless something else was wished for."""
        return 1 if isinstance(self.cap, str) else self.cap


def robust(fleet: Fleet, wishes: Wishes | None = None) -> Plan:
    """One task for each client, to whoever is free; half a correction; a step size that falls to zero in the end.

    >>> plan = robust(Fleet.of(fast=(90, 8.0), slow=(10, 1.0)))
    >>> plan.concurrency, plan.one_each, plan.correction, plan.schedule
    (100, True, 0.5, 'linear(end=budget)')
    """
    wishes = wishes or Wishes()
    correction = CORRECTION if wishes.correction is None else wishes.correction
    decided = {"correction": correction, "schedule": SCHEDULE, "objective": OBJECTIVE}
    tasks = wishes.concurrency or min(fleet.clients, wishes.most_tasks or fleet.clients)

    def with_tasks(tasks: int) -> Plan:
        return replace(Plan.uniform(fleet, tasks, cap=wishes.held), **decided)  # type: ignore[arg-type]

    if np.isinf(wishes.most_staleness):
        return with_tasks(tasks)
    return with_tasks(_within(fleet, with_tasks, tasks, wishes))


def _within(fleet: Fleet, with_tasks: Callable[[int], Plan], tasks: int, wishes: Wishes) -> int:
    """The most tasks with which nobody is staler than asked: staleness rises with them."""

    def stale(many: int) -> float:
        return float(expected(fleet, with_tasks(many), Scenario()).staleness().max())

    if stale(tasks) <= wishes.most_staleness:
        return tasks
    if wishes.concurrency is not None:
        raise InvalidInput(
            f"with {tasks:,} tasks in flight the stalest client has a mean staleness of {stale(tasks):.4g}, beyond the "
            f"{wishes.most_staleness:g} asked for; leave out the number of tasks, or allow more"
        )
    low, high = 1, tasks
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if stale(middle) <= wishes.most_staleness else (low, middle)
    return low


def usual(fleet: Fleet, time: float) -> Iterator[Policy]:
    """What is usual, or published, beside the robust policy."""
    n = fleet.clients
    if n > 1:
        half = Plan.uniform(fleet, n // 2, cap=1)
        yield Policy("idle clients, n/2 tasks", replace(half, correction=CORRECTION, schedule=SCHEDULE))
    root = Plan.weighted(fleet, np.sqrt(fleet.rate), n)
    yield Policy("routed by root of speed", replace(root, schedule=SCHEDULE))
    yield Policy("AsyncSGD, uniform", replace(Plan.uniform(fleet, n), schedule=SCHEDULE), "asyncsgd")
    size = min(BUFFER, n)
    buffered = replace(Plan.uniform(fleet, n), schedule=SCHEDULE)
    yield Policy(f"FedBuff, buffer of {size}", buffered, f"fedbuff(size={size})", "idle")
    if n > 1:
        yield Policy("the paper's (bound)", bound_plan(fleet, time))


def bound_plan(fleet: Fleet, time: float) -> Plan:
    """The plan with the least bound after this time, with the constants of the paper's worked example."""
    from sojourn.planning.bound.goal import goal
    from sojourn.planning.bound.search import make_plan

    search = make_plan(fleet, goal(time=time), search="simplex" if fleet.groups <= FAST_GROUPS else "power")
    return replace(search.plan, step_size=None, schedule=SCHEDULE)


def scenario_of(policy: Policy) -> Scenario:
    """The scenario in which a policy is simulated."""
    return Scenario(Dispatcher(policy.dispatcher))
