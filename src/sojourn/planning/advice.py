"""Advice: a plan, compared with other policies in the same time, in a table and in sentences."""

from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.durations import seconds, shown
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan, fleet_of
from sojourn.planning.policy import CORRECTION, Policy, Wishes, robust, scenario_of, usual
from sojourn.scenario import Scenario
from sojourn.shown import whole
from sojourn.tabular import Tabular
from sojourn.timing.exact.analysis import Analysis
from sojourn.timing.expected import expected
from sojourn.timing.simulate.memory import ENOUGH, settling_steps
from sojourn.types import Floats

NAME = "robust: nobody waits"
EXPONENTIAL_ONLY = (
    "Warning: a client may hold several tasks, so these figures assume exponential service times with the same means; "
    "for the laws of this fleet they are off by some percent: sojourn simulate says by how much."
)
HALF = (
    "Correction 1/2 for how often a client's updates arrive keeps slow clients in the model without the noise of full "
    "weights, and the step size falls to zero at the budget because training ends there."
)
MORE = 1.05  # a policy with more updates than this many times another's has noticeably more
ALIKE = 1.5  # up to this ratio of speeds clients count as about equally fast


@dataclass(frozen=True, eq=False)
class Row:
    """What a policy achieves within a budget."""

    policy: Policy
    """The policy."""
    updates: float
    """Number of updates received within the budget."""
    steps: float
    """Number of changes of the server's model; fewer than the updates if these are collected."""
    staleness: float
    """Mean staleness over all updates, in updates."""
    slowest: float
    """Mean staleness of the stalest clients."""
    idle: float
    """Mean number of clients without work."""
    waiting: float
    """Mean number of tasks that wait in queues."""
    loss: float | None = None
    """Expected final loss; None = the model of training was not used."""
    settled: float = 0.0
    """About when a run that starts with all clients idle reaches these long-run means."""

    def facts(self) -> dict[str, Any]:
        """Return the values by key, as in JSON."""
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
    """A plan, compared with other policies in the same time; it can be passed wherever a plan is expected."""

    fleet: Fleet
    """The fleet."""
    time: float
    """The time budget, in seconds or in the fleet's unit of time."""
    plan: Plan
    """The advised plan, with its promises."""
    rows: tuple[Row, ...]
    """The policies side by side, the advised one first."""
    why: tuple[str, ...] = ()
    """Sentences on why this plan is advised, and what would change that."""

    def save(self, path: str | Path, made_by: str | None = None) -> None:
        """Write the plan as JSON; among its promises are the other policies and the reasons. `made_by` is kept too."""
        told = {"policies": [row.facts() for row in self.rows], "why": list(self.why)}
        replace(self.plan, promises={**self.plan.promises, **told}).save(path, made_by)

    def facts(self) -> dict[str, Any]:
        """Return the plan's keys, its promises, the other policies and the reasons."""
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
        return f"{self.plan._title()}: {whole(self.rows[0].updates)} updates in {shown(self.time)}"

    def _table(self) -> dict[str, list[Any]]:
        keys = ["updates", "steps", "staleness", "slowest", "idle", "waiting"]
        keys += ["loss"] if any(row.loss is not None for row in self.rows) else []
        return {"policy": [row.policy.name for row in self.rows]} | {
            key: [getattr(row, key) for row in self.rows] for key in keys
        }


def advise(fleet: Fleet, time: float | str, wishes: Wishes | None = None) -> Advice:
    """Return the robust policy for a fleet and a time, compared with the usual ones.

    >>> found = advise(Fleet.of(fast=(90, 8.0), slow=(10, 1.0)), time=1000)
    >>> found.plan.concurrency, found.plan.one_each, found.plan.correction
    (100, True, 0.5)
    >>> round(found.rows[0].updates)
    730000
    """
    fleet, time = fleet_of(fleet), budget(time)
    mine = robust_policy(fleet, wishes)
    chosen = mine.plan
    rows = (row_of(fleet, mine, time), *(row_of(fleet, one, time) for one in usual(fleet, time)))
    found = Advice(fleet, time, promised(fleet, chosen, time), rows)
    return replace(found, why=tuple(reasons(found)))


def robust_policy(fleet: Fleet, wishes: Wishes | None = None) -> Policy:
    """Return the robust policy with its name, which says how many tasks a client may hold."""
    plan = robust(fleet, wishes)
    most = f"at most {plan.cap.max():g} each" if plan.capped else "any number each"
    return Policy(NAME if plan.one_each else f"robust: {most}", plan)


def budget(time: float | str) -> float:
    """Return a time as a positive number of seconds."""
    found = seconds(time)
    if not (isfinite(found) and found > 0):
        raise InvalidInput(f"time must be positive and finite, got {time}; write for example 3600 or 1h")
    return found


def row_of(fleet: Fleet, policy: Policy, time: float, loss: float | None = None) -> Row:
    """Return what theory predicts for a policy: exact for exponential service, and for any law if nobody waits."""
    return row_from(fleet, policy, expected(fleet, policy.plan, scenario_of(policy)), time, loss)


def row_from(fleet: Fleet, policy: Policy, found: Analysis, time: float, loss: float | None = None) -> Row:
    """Return the same from an analysis that is at hand."""
    plan, updates = policy.plan, found.throughput * time
    return Row(
        policy=policy,
        updates=updates,
        steps=updates / policy.gathered,
        staleness=float(plan.concurrency - 1),
        slowest=float(found.staleness().max()),
        idle=float((fleet.count * (1 - found.utilisation).round(12)).sum()),
        waiting=float((fleet.count * (found.queue - found.utilisation).clip(0).round(12)).sum()),
        loss=loss,
        settled=_settled(found),
    )


def _settled(exact: Analysis) -> float:
    """Return about when a run has forgotten that it started with all clients idle: its queues settle, its tasks age."""
    queues = 0.0 if exact.plan.capped else settling_steps(exact, "even")
    return (queues + float(exact.staleness().max())) / exact.throughput


def promised(fleet: Fleet, plan: Plan, time: float) -> Plan:
    """Return the plan with the predictions of theory."""
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
    """Return sentences on why the robust policy is advised, and what would change that."""
    said = [*scarce(advice), *_assumed(advice), *_gain(advice), *early(advice)]
    if advice.plan.correction == CORRECTION and advice.fleet.clients > 1:
        said.append(HALF)
    return [
        *said,
        *_otherwise(advice.fleet),
        "The step size is left open, because it depends on your model and data: sojourn tune finds it.",
    ]


def scarce(advice: Advice) -> list[str]:
    """Return a warning if the time is too short for one update per client."""
    updates = advice.rows[0].updates
    if updates >= advice.fleet.clients:
        return []
    return [
        f"Warning: about {whole(updates)} updates are expected in {shown(advice.time)}, fewer than one per client: "
        "allow more time."
    ]


def _assumed(advice: Advice) -> list[str]:
    """Return a warning if theory assumes other service laws than the fleet's."""
    found = expected(advice.fleet, advice.plan, Scenario())
    return [] if found.exact or found.exact_for_any_law else [EXPONENTIAL_ONLY]


def early(advice: Advice) -> list[str]:
    """Return a note if the time is so short that its start, with all clients idle, matters."""
    settled = max(row.settled for row in advice.rows)
    if advice.time >= ENOUGH * settled:
        return []
    return [
        "Updates and staleness are long-run means: a run starts with all clients idle, so at first, until about "
        f"{shown(settled)}, its updates are fresher than this, and more of them arrive where tasks wait."
    ]


def _gain(advice: Advice) -> list[str]:
    """Return a sentence on how many updates the policy brings in; nothing for a single task."""
    plan, first = advice.plan, advice.rows[0]
    if plan.concurrency == 1:
        return []
    if advice.fleet.link_time.any():
        return _links(advice)
    routed = next(row for row in advice.rows if row.policy.algorithm == "asyncsgd")
    times = f"{first.updates / routed.updates:.3g}"
    how = "at most one task per client, given to whoever is free," if plan.one_each else "this policy"
    gain = (
        ""
        if times == "1"
        else f": {how} brings in {times} times as many updates as drawing among all clients with "
        f"{routed.policy.plan.concurrency:,} tasks"
    )
    return [
        f"With {plan.concurrency:,} tasks in flight the mean staleness is {_updates(plan.concurrency - 1)} whoever "
        f"gets them, so tasks that wait in queues only waste time{gain}."
    ]


def _links(advice: Advice) -> list[str]:
    """Return sentences on what links mean for how many tasks a client holds."""
    fleet, plan, first = advice.fleet, advice.plan, advice.rows[0]
    travel = f"{100 * _on_links(fleet, np.asarray(plan.promises['share'])):.2g}%"
    said = [
        f"Tasks are on links for {travel} of the time that they need without waiting, and with "
        f"{plan.concurrency:,} in flight the mean staleness is {_updates(plan.concurrency - 1)} whoever gets them."
    ]
    one = robust(fleet, Wishes(cap=1))
    if plan.concurrency > one.concurrency and not plan.one_each:
        times = first.updates / (expected(fleet, one, Scenario()).throughput * advice.time)
        said.append(
            f"A client with a single task would be idle while it travels: this policy brings in {times:.3g} times as "
            "many updates as one task per client."
        )
    if max(row.updates for row in advice.rows) > first.updates * MORE:
        said.append("More tasks would bring in more updates, but ever fewer for each task, and staler ones.")
    return said


def _on_links(fleet: Fleet, share: Floats) -> float:
    """Return the part of the tasks' time that they travel, if none waits; `share` is each client's of the updates."""
    part = fleet.count * share
    return float((part * fleet.link_time).sum() / (part * (fleet.link_time + 1 / fleet.rate)).sum())


def _updates(many: int) -> str:
    return f"{many:,} update{'s' * (many != 1)}"


def _otherwise(fleet: Fleet) -> list[str]:
    """Return sentences on what would change for another fleet or other data."""
    if fleet.clients == 1:
        return ["The fleet is a single client, so the correction does not matter."]
    spread = float(fleet.rate.max() / fleet.rate.min())
    if spread <= ALIKE:
        said = ["All clients are about equally fast, so the correction hardly matters."]
    else:
        said = [
            f"The fastest clients are {spread:.3g} times as fast as the slowest. If slow clients hold data that the "
            "others lack, keep a correction of 1/2 or more; if all hold the same kind of data, 0 is a little better."
        ]
    return [
        *said,
        "On a long budget, where the loss reaches its noise, or where energy counts, fewer tasks can give a lower "
        "loss: "
        "sojourn calibrate measures what is needed to decide that for your model.",
    ]
