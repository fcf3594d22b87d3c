"""The policies that are trained in every cell, under the same decay to zero at the end of the budget.

c is the correction: updates are weighted by (share of updates)^-c, with mean one. `finisher` = one task per client, and
a client that is done gets the next one; `idle` = fewer tasks, given to clients without one.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np
from world import Cell, fleet_of

from sojourn import Fleet, Plan, goal, make_plan
from sojourn.constants import WORKED_EXAMPLE
from sojourn.planning.policy import SCHEDULE, Policy

ROBUST, ROOT, UNIFORM, BOUND = "finisher, c = 1/2", "root of speed", "AsyncSGD", "the bound's plan"
SIX = ("finisher, c = 0", ROBUST, "finisher, c = 1", ROOT, UNIFORM, "FedBuff 10")
GENERAL = "generalized-asyncsgd"
SAME = {ROOT: UNIFORM, "speed, no weights": UNIFORM, "finisher, c = 0": ROBUST, "finisher, c = 1": ROBUST}
"""If all clients are equal these policies are the same, and only the second of each pair is trained."""


def policies(cell: Cell) -> dict[str, Policy]:
    """Return the policies of a cell by name; six of them on CIFAR-10."""
    made = {one.name: one for one in made_for(cell.fleet_name, cell.time)}
    if cell.work.data == "cifar10":
        return {name: made[name] for name in SIX}
    if bool(np.ptp(cell.fleet.rate) == 0):
        return {name: one for name, one in made.items() if name not in SAME}
    return made


def trained_as(cell: Cell, name: str) -> str:
    """Return the policy that is trained in place of another in this cell."""
    return name if name in policies(cell) else SAME[name]


@lru_cache(maxsize=64)
def made_for(fleet_name: str, time: float) -> tuple[Policy, ...]:
    """Return all policies for a fleet and a time."""
    return tuple(_made(fleet_of(fleet_name), time))


def _made(fleet: Fleet, time: float) -> Iterator[Policy]:
    n = fleet.clients
    pure = _plan(Plan.uniform(fleet, n, cap=1))
    yield Policy("finisher, c = 0", replace(pure, correction=0.0), GENERAL)
    yield Policy(ROBUST, replace(pure, correction=0.5), GENERAL)
    yield Policy("finisher, c = 1", replace(pure, correction=1.0), GENERAL)
    for tasks in (n // 2, n // 4):
        yield Policy(f"idle C = {tasks}, c = 1/2", _plan(Plan.uniform(fleet, tasks, cap=1), 0.5), GENERAL)
    yield Policy("cap 2, c = 1/2", _plan(Plan.uniform(fleet, n, cap=2), 0.5), GENERAL)
    yield Policy(ROOT, _plan(Plan.weighted(fleet, np.sqrt(fleet.rate), n), 1.0), GENERAL)
    yield Policy("speed, no weights", _plan(Plan.weighted(fleet, fleet.rate, n), 0.0), GENERAL)
    yield Policy(UNIFORM, _plan(Plan.uniform(fleet, n)), "asyncsgd")
    yield Policy("AsyncSGD C = 30", _plan(Plan.uniform(fleet, 30)), "asyncsgd")
    yield Policy("FedBuff 10", _plan(Plan.uniform(fleet, n)), "fedbuff(size=10)", "idle")
    yield Policy("FedBuff 3, c = 1/2", replace(pure, correction=0.5, buffer=3), "fedbuff(size=3, dispatch=routed)")
    yield Policy("CA2FL 10", replace(pure, correction=None), "ca2fl:CA2FL(size=10)")
    yield Policy("delay-adaptive", _plan(Plan.uniform(fleet, n)), "asyncsgd(assignment=pure, steps=adaptive)", "pure")
    bound = make_plan(fleet, goal(time=time, constants=WORKED_EXAMPLE)).plan
    yield Policy(BOUND, _plan(replace(bound, step_size=None, promises={})), GENERAL)
    constant = replace(pure, correction=0.0, schedule="constant")
    yield Policy("finisher, c = 0, constant", constant, GENERAL)
    yield Policy("AsyncSGD, constant", replace(Plan.uniform(fleet, n), schedule="constant"), "asyncsgd")


def _plan(plan: Plan, correction: float | None = None) -> Plan:
    return replace(plan, correction=correction, schedule=SCHEDULE)


def buffer_of(policy: Policy) -> int:
    """Return the number of updates per server step."""
    _, found, rest = policy.algorithm.partition("size=")
    return int(rest.split(",")[0].rstrip(")")) if found else 1
