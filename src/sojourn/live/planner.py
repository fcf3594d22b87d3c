"""Planner: the plan of a live run, worked out again for the fleet as it is believed to be now.

What the user has decided stays decided. A sampling in words (`speed^0.5`) is worked out for the new speeds; tasks in
flight, cap and correction stay as they were said. A plan file, or weights for groups by name, are kept client by
client. What is left open is the robust policy's: one task per client, to whoever is free. With a calibration the model
of training chooses among policies for the time that is left. Whoever decides, promises and shares are those of the new
speeds.

Buffer, step size, its schedule and smaller steps for stale updates stay as they were at the beginning.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sojourn.correction import correction_of, mean_factor
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.landscape import Landscape
from sojourn.learning.run.build import Built
from sojourn.learning.run.config import TrainConfig
from sojourn.live.believed import Believed, Told, believed, filled
from sojourn.live.chooser import InForce
from sojourn.live.speeds import Means
from sojourn.plan import Plan
from sojourn.plan_text import by_power, plan_of
from sojourn.planning.policy import Wishes, robust
from sojourn.timing.exact.analysis import Analysis
from sojourn.timing.expected import expected
from sojourn.timing.shares import as_dispatched
from sojourn.types import Flags, Floats, Integers

FEW_GROUPS = 8  # up to so many groups of the fleet file are kept apart


@dataclass(frozen=True)
class Said:
    """What the user has said of the policy; None = nothing."""

    sampling: str | None = None
    """Whom to sample, in words."""
    concurrency: int | None = None
    """Tasks in flight."""
    cap: str | None = None
    """Most tasks that a client may hold, in words."""
    correction: float | None = None
    """Exponent of an update's weight."""
    kept: bool = False
    """Whether there is a plan file, or weights or caps of groups by name."""
    nothing: bool = False
    """Whether everything is left open."""

    @classmethod
    def of(cls, config: TrainConfig, nothing: bool = False) -> "Said":
        """Return what a run says; `nothing` = what it says comes from our own advice."""
        if nothing:
            return cls(nothing=True)
        kept = config.plan is not None or not by_power(config.sampling) or "=" in (config.cap or "")
        return cls(config.sampling, config.concurrency, config.cap, config.correction, kept)


@dataclass(frozen=True)
class Found:
    """A plan for the fleet as it is believed to be, client by client, with its promises."""

    plan: Plan
    """The plan, for the groups of the believed fleet."""
    fleet: Fleet
    """The believed fleet."""
    label: Integers
    """Group of each client in it."""
    force: InForce
    """What the plan says of every client."""
    correction: float
    """Exponent of an update's weight."""
    mean_factor: float
    """Mean of (q/s)^c over updates."""
    promises: dict[str, Any]
    """Throughput; share and staleness of each group of the run's fleet; for the clients present."""
    means: Means
    """The means of all clients that it was made for."""


class Planner:
    """Works out plans for one run."""

    def __init__(self, built: Built, told: Told, said: Said, landscape: Landscape | None = None) -> None:
        self.built, self.told, self.said, self.landscape = built, told, said, landscape
        self.scenario = replace(built.scenario, local_steps=1)  # times here are those of whole tasks
        plan = built.setting.plan
        self._given = np.repeat(plan.sampling, plan.count), np.repeat(plan.cap, plan.count)
        if landscape is not None and (said.kept or said.sampling is not None):
            raise InvalidInput(
                "a calibration lets the planner choose whom to sample, but the run names a plan or a sampling; leave "
                "out one of them"
            )

    def first(self) -> dict[str, Any]:
        """Return what the plan of the beginning promises for the fleet that was given."""
        if not self.told.known:
            return {"throughput": None, "share": None, "staleness": None}
        plan = self.built.setting.plan
        exact = expected(self.built.setting.fleet, replace(plan, fleet_hash=None), self.built.scenario)
        return {
            "throughput": exact.throughput,
            "share": tuple((plan.count * exact.share).tolist()),
            "staleness": tuple(exact.staleness().tolist()),
        }

    def find(self, means: Means, ages: Floats, present: Flags, left: float) -> Found:
        """Return the plan for these means; `left` = seconds that the run still has."""
        means = filled(means, self.told, ages)
        fleet = believed(means, self._apart())
        plan = self._decided(fleet, left)
        plan, _ = self.built.algorithm.timing(fleet.fleet, plan, self.built.setting.local)
        plan = replace(as_dispatched(plan, self.scenario), fleet_hash=fleet.fleet.hash)
        exact = expected(fleet.fleet, plan, self.scenario)
        share = exact.share[fleet.label]
        correction = correction_of(self.built.algorithm, plan)
        force = InForce(plan.sampling[fleet.label], plan.cap[fleet.label], share, plan.concurrency)
        promises = self._promises(fleet, plan, exact, present)
        told = {"throughput": exact.throughput, "staleness": exact.staleness().tolist(), "share": exact.share.tolist()}
        return Found(
            plan=replace(plan, promises={**told, "queue": exact.queue.tolist()}),
            fleet=fleet.fleet,
            label=fleet.label,
            force=force,
            correction=correction,
            mean_factor=mean_factor(correction, self.built.setting.weights, share),
            promises=promises,
            means=means,
        )

    def _apart(self) -> Integers:
        """Return numbers that differ for clients of different groups in the fleet, if there are few, and where a plan
        that is kept treats clients differently.
        """
        group = self.told.group if int(self.told.group.max()) < FEW_GROUPS else np.zeros_like(self.told.group)
        kept = self._given if self.said.kept else ()
        _, number = np.unique(np.array([group, *kept]).T, axis=0, return_inverse=True)
        return np.asarray(number.reshape(-1))

    def _decided(self, now: Believed, left: float) -> Plan:
        """Return the plan: what was said, and what the planner chooses for the rest."""
        said, given = self.said, self.built.setting.plan
        fixed = {"step_size": given.step_size, "buffer": given.buffer, "adaptive": given.adaptive}
        if said.kept:
            first = np.unique(now.label, return_index=True)[1]
            sampling, cap = (one[first] for one in self._given)
            kept = Plan(now.fleet.name, now.fleet.count, sampling, given.concurrency, cap=cap)
            return replace(kept, correction=given.correction, schedule=given.schedule, **fixed)  # type: ignore[arg-type]
        if self.landscape is not None:
            found = self._advised(now.fleet, left)
        elif said.nothing:
            found = robust(now.fleet, Wishes(cap=1))  # clients fetch one task at a time, as they began
        else:
            found = plan_of(now.fleet, said.sampling, None, said.concurrency, said.cap, said.correction)
        return replace(found, schedule=given.schedule, **fixed)  # type: ignore[arg-type]

    def _advised(self, fleet: Fleet, left: float) -> Plan:
        """Return what the model of training ranks first, with what was said."""
        from sojourn.planning.make_plan import advice_for  # loads much, which clients do without
        from sojourn.planning.search import Aim

        said = self.said
        cap: Any = "open" if said.nothing else None if said.cap in (None, "none") else int(str(said.cap))
        wishes = Wishes(said.concurrency, cap, said.correction)
        return advice_for(fleet, time=left, landscape=self.landscape, aim=Aim(wishes=wishes)).plan

    def _promises(self, now: Believed, plan: Plan, exact: Analysis, present: Flags) -> dict[str, Any]:
        """Return the promises for the clients that are there, by the groups of the run's fleet."""
        here = np.bincount(now.label[present], minlength=now.fleet.groups)
        place = np.arange(now.fleet.groups)
        if 0 < present.sum() < present.size:
            some = np.flatnonzero(here)
            place[some] = np.arange(some.size)
            exact = self._of_some(now.fleet, plan, some, here[some])
        share = np.where(present, exact.share[np.minimum(place[now.label], exact.share.size - 1)], 0.0)
        stale = exact.staleness()[np.minimum(place[now.label], exact.share.size - 1)]
        groups = self.built.setting.fleet.groups
        sums = np.bincount(self.told.group, share, groups)
        with np.errstate(invalid="ignore"):
            each = np.bincount(self.told.group, share * stale, groups) / sums
        staleness = tuple(float(one) if np.isfinite(one) else None for one in each)
        return {"throughput": exact.throughput, "share": tuple(sums.tolist()), "staleness": staleness}

    def _of_some(self, fleet: Fleet, plan: Plan, some: Integers, count: Integers) -> Analysis:
        """Return the exact analysis if only so many clients of these groups are there."""
        names = tuple(fleet.name[one] for one in some)
        links = {key: getattr(fleet, key)[some] for key in ("uplink_rate", "downlink_rate")}
        part = Fleet(names, count, fleet.rate[some], **links)
        cap = plan.cap[some]
        tasks = int(min(plan.concurrency, (count * cap).sum()))
        return expected(part, Plan.weighted(part, plan.sampling[some], tasks, cap=cap), self.scenario)
