"""Advice: a plan, and what other policies would come to in the same time, side by side and in sentences."""

from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

from sojourn.durations import seconds, shown
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan, fleet_of
from sojourn.planning.policy import CORRECTION, Policy, Wishes, robust, scenario_of, usual
from sojourn.scenario import Scenario
from sojourn.tabular import Tabular
from sojourn.timing.expected import expected

NAME = "robust: nobody waits"
HALF = (
    "Half a correction for how often a client's updates come keeps slow clients in the model without the noise of full "
    "weights, and the step size falls to zero at the budget because training ends there."
)
ALIKE = 1.5  # up to this ratio of speeds clients count as about as fast


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
    loss: float | None = None
    """Expected loss at the end; None = the model of training was not asked."""

    def facts(self) -> dict[str, Any]:
        """By key, as JSON has them."""
        plan = self.policy.plan
        keys = ("updates", "steps", "staleness", "slowest", "idle", "waiting", "loss")
        return {
            "policy": self.policy.name,
            "algorithm": self.policy.algorithm,
            "concurrency": plan.concurrency,
            **{key: getattr(self, key) for key in keys},
        }


@dataclass(frozen=True, eq=False, repr=False)
class Advice(Tabular):
    """A plan, and what others would come to in the same time; it can be handed on wherever a plan is wanted."""

    fleet: Fleet
    """The fleet."""
    time: float
    """The budget, in seconds or whatever the fleet's unit of time is."""
    plan: Plan
    """What is advised, with its promises."""
    rows: tuple[Row, ...]
    """The policies side by side, the advised one first."""
    why: tuple[str, ...] = ()
    """Why this one, and what would change it, as sentences."""

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON."""
        self.plan.save(path)

    def facts(self) -> dict[str, Any]:
        """The plan's keys, its promises, the policies beside it and the reasons."""
        plan = self.plan
        return {
            "sampling": dict(zip(plan.name, plan.sampling.tolist(), strict=True)),
            "concurrency": plan.concurrency,
            **plan._policy(),
            "step_size": plan.step_size,
            "time": self.time,
            "promises": dict(plan.promises),
            "policies": [row.facts() for row in self.rows],
            "why": list(self.why),
        }

    def _title(self) -> str:
        return f"{self.plan._title()}: {self.rows[0].updates:.4g} updates in {shown(self.time)}"

    def _table(self) -> dict[str, list[Any]]:
        keys = ["updates", "steps", "staleness", "slowest", "idle", "waiting"]
        keys += ["loss"] if any(row.loss is not None for row in self.rows) else []
        return {"policy": [row.policy.name for row in self.rows]} | {
            key: [getattr(row, key) for row in self.rows] for key in keys
        }


def advise(fleet: Fleet, time: float | str, wishes: Wishes | None = None) -> Advice:
    """The robust policy for a fleet and a time, with the usual ones beside it.

    >>> found = advise(Fleet.of(fast=(90, 8.0), slow=(10, 1.0)), time=1000)
    >>> found.plan.concurrency, found.plan.one_each, found.plan.correction
    (100, True, 0.5)
    >>> round(found.rows[0].updates)
    730000
    """
    fleet, time = fleet_of(fleet), budget(time)
    chosen = robust(fleet, wishes)
    mine = Policy(NAME, chosen)
    rows = (row_of(fleet, mine, time), *(row_of(fleet, one, time) for one in usual(fleet, time)))
    found = Advice(fleet, time, promised(fleet, chosen, time), rows)
    return replace(found, why=tuple(reasons(found)))


def budget(time: float | str) -> float:
    """A time as a positive number of seconds."""
    found = seconds(time)
    if not (isfinite(found) and found > 0):
        raise InvalidInput(f"time must be positive and finite, got {time}; write for example 3600 or 1h")
    return found


def row_of(fleet: Fleet, policy: Policy, time: float, loss: float | None = None) -> Row:
    """What theory says of a policy: exact for exponential service, and for any law where nobody waits."""
    plan = policy.plan
    found = expected(fleet, plan, scenario_of(policy))
    updates = found.throughput * time
    return Row(
        policy=policy,
        updates=updates,
        steps=updates / policy.gathered,
        staleness=float(plan.concurrency - 1),
        slowest=float(found.staleness().max()),
        idle=float((fleet.count * (1 - found.utilisation).round(12)).sum()),
        waiting=float((fleet.count * (found.queue - found.utilisation).clip(0).round(12)).sum()),
        loss=loss,
    )


def promised(fleet: Fleet, plan: Plan, time: float) -> Plan:
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
    return replace(plan, promises={**plan.promises, **promises})


def reasons(advice: Advice) -> list[str]:
    """Why the robust policy, and what would change it."""
    plan, first = advice.plan, advice.rows[0]
    routed = next(row for row in advice.rows if row.policy.algorithm == "asyncsgd")
    how = "at most one task per client, given to whoever is free," if plan.one_each else "this policy"
    said = [
        f"With {plan.concurrency:,} tasks in flight the mean staleness is {plan.concurrency - 1:,} updates whatever "
        f"one does, so tasks that wait in queues only waste time: {how} brings in {first.updates / routed.updates:.3g} "
        f"times as many updates as drawing among all clients with {routed.policy.plan.concurrency:,} tasks.",
    ]
    if plan.correction == CORRECTION:
        said.append(HALF)
    return [
        *said,
        *_otherwise(advice.fleet),
        "The step size is left open, because it depends on your model and data: sojourn tune finds it.",
    ]


def _otherwise(fleet: Fleet) -> list[str]:
    """What would be changed, were the fleet or the data otherwise."""
    spread = float(fleet.rate.max() / fleet.rate.min())
    if spread <= ALIKE:
        said = ["All clients are about equally fast, so the correction hardly matters."]
    else:
        said = [
            f"The fastest clients are {spread:.3g} times as fast as the slowest. If slow clients hold data that the "
            "others lack, take correction 1; if all clients hold the same kind of data, correction 0 is faster."
        ]
    return [
        *said,
        "On a long budget, where the loss gets down to its noise, or where energy counts, fewer tasks can end lower: "
        "sojourn calibrate measures what it takes to decide that for your model.",
    ]
