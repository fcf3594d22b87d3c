"""Observation: what exact theory promises for a run, and what its trace shows, side by side.

Theory is asked twice: for the fleet fitted to the trace, with service times and links as the trace shows them, and for
the fleet that the run was given, if it is known. The first says whether the network behaves as theory says; the second
also whether the fleet was as fast as it was said to be.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sojourn.dispatching import QUEUED
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.frozen import Frozen
from sojourn.plan import Plan
from sojourn.scenario import Dispatcher, Scenario
from sojourn.tabular import Tabular
from sojourn.timing.exact.analysis import Analysis
from sojourn.timing.expected import expected, reach
from sojourn.timing.fit.ends import Scene
from sojourn.timing.fit.from_trace import Fit, fit_observed
from sojourn.timing.fit.observed import PIECE, Observing, facts_of, pieces_of
from sojourn.timing.observe.links import with_downlinks
from sojourn.timing.observe.periods import Period, Periods
from sojourn.timing.observe.tally import Tally, Tallying
from sojourn.trace import Trace

FEW = 0.98  # with fewer than this part of C in flight a note says so
SEVERAL = "the theory was asked about the first of {} plans, and about mean speeds; see each plan below"
LEAVING = "clients came and went, which the theory does not model"


class Figure(NamedTuple):
    """One figure of a run: promised and observed."""

    figure: str
    """What it is: throughput, share, staleness."""
    group: str
    """The group that it belongs to; all = the whole fleet."""
    given: float
    """As promised for the fleet that the run was given; NaN = it is not known."""
    fitted: float
    """As promised for the fleet fitted to the trace."""
    observed: float
    """As observed."""
    error: float
    """Standard error of what was observed; NaN = too few updates."""

    @property
    def z(self) -> float:
        """By how many standard errors the observed value exceeds the one promised for the fitted fleet."""
        return (self.observed - self.fitted) / self.error if self.error > 0 else np.nan


@dataclass(frozen=True, eq=False, repr=False)
class Observation(Frozen, Tabular):
    """What theory promises for a run, and what its trace shows. Times are in seconds; shares are those of groups."""

    fit: Fit
    """The fleet fitted to the trace, without its downlinks."""
    promised: Analysis
    """Exact analysis of the fitted fleet, with uplinks and downlinks as the trace shows them."""
    given: Analysis | None
    """Exact analysis of the fleet that the run was given; None = it is not known."""
    tally: Tally
    """What was observed."""
    in_flight: float
    """Tasks in flight, on average over time."""
    dispatcher: str
    """The dispatcher of the run."""
    notes: tuple[str, ...] = ()
    """What a reader of the numbers should know, one sentence each."""
    periods: tuple[Period, ...] = ()
    """What each plan promised and what was observed under it, if the plan of a live run changed."""

    @property
    def fleet(self) -> Fleet:
        """The fitted fleet, with its links."""
        return self.promised.fleet

    @property
    def plan(self) -> Plan:
        """The plan of the run."""
        return self.promised.plan

    def figures(self) -> Iterator[Figure]:
        """Yield throughput, shares and staleness, promised and observed."""
        seen, stale, count = self.tally, self.promised.staleness(), self.fleet.count
        before = self.given.staleness() if self.given is not None else np.full(count.size, np.nan)
        share = count * self.given.share if self.given is not None else before
        flow, whole = seen.throughput, seen.mean_staleness
        told = np.nan if self.given is None else self.given.throughput
        yield Figure("throughput", "all", told, self.promised.throughput, float(flow.value), float(flow.error))
        by_group = (
            ("share", share, count * self.promised.share, seen.share),
            ("staleness", before, stale, seen.staleness),
        )
        for name, given, fitted, found in by_group:
            columns = (given, fitted, found.value, found.error)
            for group, *values in zip(self.fleet.name, *(column.tolist() for column in columns), strict=True):
                yield Figure(name, group, *values)
        tasks = self.plan.concurrency - 1.0
        told = np.nan if self.given is None else tasks
        yield Figure("staleness", "all", told, tasks, float(whole.value), float(whole.error))

    def _title(self) -> str:
        flow = self.tally.throughput
        return (
            f"Observation of {self.fleet.clients:,} clients and {self.plan.concurrency:,} tasks: {flow} updates per "
            f"unit of time, {self.promised.throughput:.6g} promised"
        )

    def _table(self) -> dict[str, Any]:
        return {
            key: list(column) for key, column in zip(Figure._fields, zip(*self.figures(), strict=True), strict=True)
        }


class Watch:
    """Collects what an observation needs from the pieces of a trace, each of which is read once.

    Memory grows with the clients and the tasks in flight, and not with the trace.
    """

    def __init__(self, metadata: Mapping[str, Any], fleet: Fleet | None = None, warmup: int | None = None) -> None:
        self._metadata, self._fleet = metadata, fleet
        self._fit, self._tally = Observing(fleet, fleet is not None), Tallying(fleet, warmup)
        self._periods = Periods(metadata, fleet)

    def add(self, piece: Trace) -> None:
        """Add the next rows of the trace."""
        self._fit.add(piece)
        self._tally.add(piece)
        self._periods.add(piece)

    def observation(
        self, plan: Plan | None = None, scenario: Scenario | None = None, given: Fleet | None = None
    ) -> Observation:
        """Compare what was collected with theory; the arguments are those of `observation`."""
        metadata, scene, shown = self._metadata, Scene.of(self._metadata), self._fit.done()
        found = fit_observed(shown, self._fleet)
        plan = plan if plan is not None else _plan(found.fleet, metadata.get("concurrency"))
        scenario = scenario or scenario_of(scene)
        fitted, flying = found.fleet, float(plan.concurrency)
        if scene.dispatcher in QUEUED:
            fitted, flying = with_downlinks(found.fleet, shown, plan.concurrency)
        promised = expected(fitted, plan, scenario)
        seen, periods = self._tally.done(fitted.groups), self._periods.done(fitted.groups)
        notes = [*reach(promised, scene.dispatcher, scenario.server_rate)]
        if flying < FEW * plan.concurrency:
            notes.append(f"only {flying:.4g} of {plan.concurrency} tasks were in flight on average")
        if scenario.availability or metadata.get("leave"):
            notes.append(LEAVING)
        lost = sum(int(seen.fates[fate].sum()) for fate in ("lost", "dropped", "refused"))
        if lost:
            notes.append(f"{lost:,} tasks were lost, dropped or refused, which the theory does not model")
        if periods:
            notes.append(SEVERAL.format(len(periods)))
        return Observation(
            fit=found,
            promised=promised,
            given=None if given is None else expected(given, replace(plan, fleet_hash=None), scenario),
            tally=seen,
            in_flight=flying,
            dispatcher=scene.dispatcher,
            notes=(*notes, *found.notes),
            periods=periods,
        )


def observation(
    trace: Trace | str | Path,
    fleet: Fleet | None = None,
    plan: Plan | None = None,
    scenario: Scenario | None = None,
    given: Fleet | None = None,
    warmup: int | None = None,
) -> Observation:
    """Compare a trace with theory; its file is read once.

    - `fleet`: the groups of the clients; None = each client is a group
    - `plan`: the plan of the run; None = uniform, with the concurrency of the trace
    - `scenario`: the rest of its timing; None = as the trace says
    - `given`: the fleet that the run was given, if it is known
    - `warmup`: updates at the beginning that are not counted; None = chosen by their staleness
    """
    watch = Watch(facts_of(trace), fleet, warmup)
    for piece in pieces_of(trace, PIECE):
        watch.add(piece)
    return watch.observation(plan, scenario, given)


def _plan(fleet: Fleet, concurrency: Any) -> Plan:
    if not isinstance(concurrency, int) or concurrency < 1:
        raise InvalidInput("the trace does not say how many tasks were in flight; give its plan (--plan)")
    return Plan.uniform(fleet, concurrency)


def scenario_of(scene: Scene) -> Scenario:
    """Return the scenario that a trace describes; of a dispatcher without exact theory only the name is known."""
    name = scene.dispatcher if scene.dispatcher in QUEUED else "routed"
    rate = inf if scene.server_rate is None else scene.server_rate
    return Scenario(Dispatcher(name), max(1, scene.local_steps), scene.one_draw, rate)
