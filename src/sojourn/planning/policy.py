"""Policies, by name: the robust policy, which needs no data, and the usual ones to compare it with.

The robust policy keeps one task per client and gives the next task to whoever is free, so that no task waits and no
client is idle. Updates are weighted by correction 1/2, and the step size falls linearly to zero at the end of the
budget. Its throughput, shares and staleness follow exactly from mean durations, for any service law. The step size
comes from tuning or calibration, since the theory does not give it.

With links a client is idle while its only task travels. There it may hold two or three tasks, as long as each task more
brings in at least half of the updates that it would if it never waited.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import MOST_TASKS, Cap, Plan, check_concurrency
from sojourn.scenario import Dispatcher, Scenario
from sojourn.timing.expected import expected

CORRECTION = 0.5
SCHEDULE = "linear(end=budget)"
BUFFER = 10
MOST_HELD = 3  # tasks per client, where tasks travel long
PAYS = 0.5  # of the updates that tasks would bring in if none of them waited
OBJECTIVE = "loss in the time given"
FAST_GROUPS = 20  # up to this many groups the bound's plan has a probability for each


@dataclass(frozen=True, eq=False)
class Policy:
    """A way to run a federation: a plan, an algorithm and a dispatcher, with a name."""

    name: str
    """Its name."""
    plan: Plan
    """The plan: sampling, tasks in flight, cap, weights of updates."""
    algorithm: str = "generalized-asyncsgd"
    """The algorithm that applies the updates."""
    dispatcher: str = "routed"
    """The dispatcher, if the plan does not decide who gets the next task."""

    @property
    def gathered(self) -> int:
        """Number of updates per server step."""
        if self.plan.buffer is not None:
            return self.plan.buffer
        head, _, tail = self.algorithm.partition("size=")
        return int(tail.partition(",")[0].rstrip(") ")) if head.startswith("fedbuff") and tail else 1


@dataclass(frozen=True)
class Wishes:
    """What the user has decided already; None = the planner chooses."""

    concurrency: int | None = None
    """Tasks in flight."""
    cap: Cap | Literal["open"] = "open"
    """Most tasks that a client may hold; None = any number, "open" = the planner chooses."""
    correction: float | None = None
    """Exponent of an update's weight."""
    most_tasks: int | None = None
    """Most tasks in flight."""
    most_staleness: float = np.inf
    """Largest mean staleness that any client may have."""

    def __post_init__(self) -> None:
        for name in ("concurrency", "most_tasks"):
            if getattr(self, name) is not None:
                check_concurrency(getattr(self, name), name)
        if not self.most_staleness >= 0:
            raise InvalidInput(f"most_staleness must not be negative, got {self.most_staleness:g}; 0 = no staleness")

    @property
    def held(self) -> Cap:
        """Most tasks that a client may hold: one, unless the user set something else."""
        return 1 if isinstance(self.cap, str) else self.cap


def robust(fleet: Fleet, wishes: Wishes | None = None) -> Plan:
    """Return the robust policy: one task per client, given to whoever is free, correction 1/2, a step size that falls
    to zero. Where tasks travel long, a client may hold two or three, so that it works while others are on their way.

    >>> plan = robust(Fleet.of(fast=(90, 8.0), slow=(10, 1.0)))
    >>> plan.concurrency, plan.one_each, plan.correction, plan.schedule
    (100, True, 0.5, 'linear(end=budget)')
    >>> far = replace(Fleet.of(all=(10, 1.0)), uplink_rate=[2.0], downlink_rate=[2.0])
    >>> robust(far).concurrency
    20
    """
    wishes = wishes or Wishes()
    plan = _holding(fleet, wishes, 1)
    if not (fleet.link_time.any() and isinstance(wishes.cap, str) and wishes.concurrency is None):
        return plan
    for each in range(2, min(MOST_HELD, MOST_TASKS // fleet.clients) + 1):
        more = _holding(fleet, wishes, each)
        if not _pays(fleet, plan, more):
            break
        plan = more
    return plan


def _holding(fleet: Fleet, wishes: Wishes, each: int) -> Plan:
    """Return the robust policy with so many tasks per client, or as many as the limits allow."""
    correction = CORRECTION if wishes.correction is None else wishes.correction
    decided = {"correction": correction, "schedule": SCHEDULE, "objective": OBJECTIVE}
    room = each * fleet.clients
    tasks = wishes.concurrency or min(room, wishes.most_tasks or room)
    if wishes.most_tasks is not None and tasks > wishes.most_tasks:
        raise InvalidInput(f"concurrency must not exceed most_tasks, {wishes.most_tasks:,}, got {tasks:,}; drop one")

    def with_tasks(tasks: int) -> Plan:
        held = wishes.held if each == 1 else each
        return replace(Plan.uniform(fleet, tasks, cap=held), **decided)  # type: ignore[arg-type]

    if np.isinf(wishes.most_staleness):
        return with_tasks(tasks)
    return with_tasks(_within(fleet, with_tasks, tasks, wishes))


def _pays(fleet: Fleet, plan: Plan, more: Plan) -> bool:
    """Whether more tasks bring in at least half as many more updates, in proportion."""
    before, after = (expected(fleet, one, Scenario()).throughput for one in (plan, more))
    gained, added = after / before - 1, more.concurrency / plan.concurrency - 1
    return added > 0 and gained >= PAYS * added


def _within(fleet: Fleet, with_tasks: Callable[[int], Plan], tasks: int, wishes: Wishes) -> int:
    """Return the most tasks with which no client exceeds the staleness limit; staleness rises with the tasks."""

    def stale(many: int) -> float:
        return float(expected(fleet, with_tasks(many), Scenario()).staleness().max())

    if stale(tasks) <= wishes.most_staleness:
        return tasks
    if wishes.concurrency is not None:
        raise InvalidInput(
            f"with {tasks:,} tasks in flight the stalest client has a mean staleness of {stale(tasks):.4g}, above the "
            f"limit of {wishes.most_staleness:g}; leave out the number of tasks, or raise the limit"
        )
    low, high = 1, tasks
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if stale(middle) <= wishes.most_staleness else (low, middle)
    return low


def usual(fleet: Fleet, time: float) -> Iterator[Policy]:
    """Yield policies that are usual or published, to compare the robust policy with."""
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
    """Return the plan with the least bound after this time, with the constants of the paper's worked example."""
    from sojourn.planning.bound.goal import goal
    from sojourn.planning.bound.search import make_plan

    search = make_plan(fleet, goal(time=time), search="simplex" if fleet.groups <= FAST_GROUPS else "power")
    return replace(search.plan, step_size=None, schedule=SCHEDULE)


def scenario_of(policy: Policy) -> Scenario:
    """Return the scenario in which a policy is simulated."""
    return Scenario(Dispatcher(policy.dispatcher))
