"""The answer without data: a policy that does well on every fleet tried, and the others beside it.

One task for each client, given to whoever is free, so that nobody waits and nobody is idle; updates weighed by half of
the correction for how often they come; a step size that falls linearly to zero at the end of the budget. Throughput,
shares and staleness of it are exact, for any service law, from mean durations alone. The step size is left to tuning or
calibration: no theory of ours knows it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np

from sojourn.durations import shown
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan, fleet_of
from sojourn.scenario import Dispatcher, Scenario
from sojourn.tabular import Tabular
from sojourn.timing.expected import expected
from sojourn.types import Floats

CORRECTION = 0.5
SCHEDULE = "linear(end=budget)"
BUFFER = 10


@dataclass(frozen=True, eq=False)
class Policy:
    """A way to run a federation, by name."""

    name: str
    """What it is called."""
    plan: Plan
    """Whom, how many, how many each, how they are weighed."""
    algorithm: str
    """What applies the updates."""
    dispatcher: str = "routed"
    """Who gets the next task, where it is not a matter of the plan."""


@dataclass(frozen=True, eq=False)
class Row:
    """What a policy comes to within a budget."""

    policy: Policy
    """The policy."""
    updates: float
    """Updates received within the budget."""
    steps: float
    """Changes of the server's model within it: fewer where updates are gathered."""
    staleness: float
    """Mean over all updates, in updates."""
    slowest: float
    """Mean of the clients that are the stalest."""
    idle: float
    """Clients without work, on average."""
    waiting: float
    """Tasks that wait in queues, on average."""


@dataclass(frozen=True, eq=False, repr=False)
class Advice(Tabular):
    """A plan, and what others would come to in the same time; it can be handed on wherever a plan is wanted."""

    fleet: Fleet
    """The fleet."""
    time: float
    """The budget, in units of the fleet's time."""
    plan: Plan
    """What is advised."""
    rows: tuple[Row, ...]
    """The policies side by side, the advised one first."""

    def _title(self) -> str:
        return f"{self.plan._title()}, {self.rows[0].updates:.4g} updates in {shown(self.time)}"

    def _table(self) -> dict[str, list[Any]]:
        keys = ("updates", "steps", "staleness", "slowest", "idle", "waiting")
        return {"policy": [row.policy.name for row in self.rows]} | {
            key: [getattr(row, key) for row in self.rows] for key in keys
        }


def advise(fleet: Fleet, time: float) -> Advice:
    """The robust policy for a fleet and a time, with the usual ones beside it.

    >>> found = advise(Fleet.of(fast=(90, 8.0), slow=(10, 1.0)), time=1000)
    >>> found.plan.concurrency, found.plan.one_each, found.plan.correction
    (100, True, 0.5)
    >>> round(found.rows[0].updates)
    730000
    """
    fleet = fleet_of(fleet)
    if not (isfinite(time) and time > 0):
        raise InvalidInput(f"time must be positive and finite, got {time}; write for example 3600 or 1h")
    rows = tuple(_row(fleet, one, time) for one in policies(fleet))
    return Advice(fleet, float(time), _promised(fleet, rows[0].policy.plan, time), rows)


def robust(fleet: Fleet) -> Plan:
    """One task for each client, to whoever is free; half a correction; a step size that falls to zero in the end."""
    plan = Plan.uniform(fleet, fleet.clients, cap=1)
    return replace(plan, correction=CORRECTION, schedule=SCHEDULE, objective="robust")


def policies(fleet: Fleet) -> Iterator[Policy]:
    """The robust policy first, then what is usual."""
    n = fleet.clients
    yield Policy("robust: nobody waits", robust(fleet), "generalized-asyncsgd")
    half = replace(Plan.uniform(fleet, max(1, n // 2), cap=1), correction=CORRECTION, schedule=SCHEDULE)
    yield Policy("nobody waits, half as many tasks", half, "generalized-asyncsgd")
    root = Plan.weighted(fleet, np.sqrt(fleet.rate), n)
    yield Policy("routed by the root of speed", root, "generalized-asyncsgd")
    yield Policy("AsyncSGD, uniform", Plan.uniform(fleet, n), "asyncsgd")
    buffered = f"fedbuff(size={min(BUFFER, n)})"
    yield Policy(f"FedBuff, buffer of {min(BUFFER, n)}", Plan.uniform(fleet, n), buffered, "idle")


def _row(fleet: Fleet, policy: Policy, time: float) -> Row:
    plan = policy.plan
    found = expected(fleet, plan, Scenario(Dispatcher(policy.dispatcher)))
    updates = found.throughput * time
    stale: Floats = found.staleness()
    size = int(policy.algorithm.rpartition("=")[2].rstrip(")")) if policy.algorithm.startswith("fedbuff") else 1
    return Row(
        policy=policy,
        updates=updates,
        steps=updates / size,
        staleness=float(plan.concurrency - 1),
        slowest=float(stale.max()),
        idle=float((fleet.count * (1 - found.utilisation)).sum()),
        waiting=float((fleet.count * (found.queue - found.utilisation)).sum()),
    )


def _promised(fleet: Fleet, plan: Plan, time: float) -> Plan:
    """The plan with what theory says of it."""
    found = expected(fleet, plan, Scenario())
    promises = {
        "throughput": found.throughput,
        "steps": found.throughput * time,
        "time": time,
        "staleness": found.staleness().tolist(),
        "queue": found.queue.tolist(),
        "share": found.share.tolist(),
    }
    return replace(plan, promises=promises)


def reasons(advice: Advice) -> list[str]:
    """Why this policy, and what would change it, as sentences."""
    fleet, first = advice.fleet, advice.rows[0]
    routed = next(row for row in advice.rows if row.policy.name.startswith("AsyncSGD"))
    more = first.updates / routed.updates
    said = [
        f"Mean staleness is {first.staleness:.4g} updates with {advice.plan.concurrency:,} tasks whatever one does, so "
        f"that tasks that wait only waste time: with one task for each client, given to whoever is free, {more:.2g} "
        "times as many updates come in as where clients are drawn blindly.",
        "Half a correction for how often clients come keeps the slow ones in without the noise of full weights; the "
        "step size falls to zero at the end, because that is where the budget ends.",
    ]
    spread = float(fleet.rate.max() / fleet.rate.min())
    if spread > 1.5:
        said.append(
            f"Speeds differ by a factor of {spread:.3g}. If slow clients hold data that others lack, take correction "
            "1; if all hold the same, correction 0 is a little faster."
        )
    else:
        said.append("All clients are about as fast: the correction hardly matters here.")
    said.append(
        "With a long budget, in which the loss comes down to the noise, fewer tasks make a better end; so they do "
        "where energy counts. sojourn compare tells for your model."
    )
    said.append("The step size is not chosen: sojourn compare --step-sizes, or a calibrated plan, does that.")
    return said
