"""Runs of a policy: who sends an update when, from simulated traces that policies of the same timing share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, sqrt
from typing import Any

import numpy as np

from sojourn.correction import client_factors
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.planning.policy import Policy
from sojourn.planning.twin.server import Server
from sojourn.planning.twin.thinning import CLIENTS, FEWER, MANY, Thinned, thinned
from sojourn.planning.twin.updates import Updates
from sojourn.scenario import Dispatcher, Scenario
from sojourn.schedule import Schedule
from sojourn.timing.shares import exact_shares
from sojourn.timing.simulate.record import simulate
from sojourn.trace import Trace
from sojourn.types import Floats, Integers

EXACT = 20_000  # up to this many updates each one is followed
TURNS = 10  # a window of a longer run is at least this many times the tasks in flight
BLOCKS = 8  # blocks of the time
STRETCHES = 8  # most stretches of a block, if the step size falls


@dataclass(frozen=True, eq=False)
class Timing:
    """A fleet under a plan and a dispatcher, perhaps thinned, and its traces up to a time."""

    small: Thinned
    """The fleet and plan that are simulated."""
    scenario: Scenario
    """The scenario."""
    traces: Sequence[Trace]
    """Simulated runs, of the whole time or of its beginning."""

    @cached_property
    def shares(self) -> Floats | None:
        """Each client's share of all updates, if it is known."""
        found = exact_shares(self.small.fleet, self.small.plan, self.scenario)
        return None if found is None else found[self.small.fleet.group_of_client]


@dataclass(frozen=True, eq=False)
class Run:
    """One policy along one trace."""

    updates: Updates
    """The updates within the time, or the first of them."""
    server: Server
    """The rule of the server."""
    small: Thinned
    """The fleet."""
    schedule: Schedule
    """How the step size falls."""
    time: float
    """The budget."""
    number: float
    """Number of updates of the simulated fleet within the time; larger than that of `updates` for a long run."""
    shares: Floats | None = None
    """Each client's share of all updates, if it is known."""
    stretches: int = STRETCHES
    """Most stretches of a block in a long run."""


@dataclass(eq=False)
class Runs:
    """Runs of policies on one fleet within one time; traces are simulated once for each timing."""

    fleet: Fleet
    time: float
    traces: int = 2
    seed: int = 0
    most: int | None = None
    """Most clients to simulate; None = as many as needed."""
    stretches: int = STRETCHES
    """Most stretches of a block in a long run."""
    _timings: dict[Any, Timing] = field(default_factory=dict)

    def of(self, policy: Policy) -> list[Run]:
        """Return the runs of a policy, one per trace."""
        server = Server.parse(policy.algorithm, policy.plan.buffer, policy.plan.adaptive)
        timing = self._timing(policy, server)
        schedule = Schedule.parse(policy.plan.schedule or "constant", time=self.time)
        return [self._run(timing, server, policy.plan, schedule, one) for one in timing.traces]

    def _timing(self, policy: Policy, server: Server) -> Timing:
        plan = policy.plan
        plan.check(self.fleet)
        if server.rule.uniform:
            plan = Plan.uniform(self.fleet, plan.concurrency)
        scenario = Scenario(_dispatcher(policy, server))
        key = (plan.timing_hash, str(scenario.dispatcher))
        if key not in self._timings:
            small = thinned(self.fleet, plan, self._most, server.rule.rounds)
            seeds = range(self.seed, self.seed + self.traces)
            self._timings[key] = Timing(small, scenario, _traces(small, scenario, self.time, seeds))
        return self._timings[key]

    @property
    def _most(self) -> int:
        if self.most is not None:
            return self.most
        each = self.time * float((self.fleet.count * self.fleet.rate).sum()) / self.fleet.clients
        return CLIENTS if each <= MANY else FEWER

    def _run(self, timing: Timing, server: Server, plan: Plan, schedule: Schedule, trace: Trace) -> Run:
        rows = np.flatnonzero(trace.applied)
        rows = rows[np.argsort(trace.applied_step[rows], kind="stable")]
        ended = float(trace.applied_at[rows[-1]])
        number = rows.size * self.time / ended  # for a trace that is shorter than the time
        if ended >= self.time:
            rows = rows[trace.applied_at[rows] <= self.time]
            number = float(rows.size)
        client = trace.client[rows].astype(np.int64)
        sent, many = trace.dispatched_step[rows], timing.small.many
        factor = _factors(timing, server, plan, client, trace.prob[rows])
        updates = Updates(
            client=client,
            sent=sent,
            stale=np.arange(rows.size) - sent,
            time=trace.applied_at[rows],
            counts=timing.small.counts[client] * factor,
            level=schedule.factors(np.arange(rows.size, dtype=np.float64) * many, trace.applied_at[rows]),
            sent_level=schedule.factors(
                np.asarray(sent * many, dtype=np.float64), np.maximum(trace.dispatched_at[rows], 0.0)
            ),
            many=many,
            concurrency=timing.scenario.dispatcher.wait or timing.small.plan.concurrency,
            share=timing.small.share,
        )
        return Run(updates, server, timing.small, schedule, self.time, number, timing.shares, self.stretches)


def _dispatcher(policy: Policy, server: Server) -> Dispatcher:
    """Return the policy's dispatcher, or the one that its algorithm names or needs."""
    given = Dispatcher.parse(policy.dispatcher)
    if server.rule.rounds:
        if given.name not in ("rounds", "routed"):
            raise InvalidInput(f"{server.name} needs dispatcher rounds, got {given.name}; leave it out")
        return given if given.name == "rounds" else Dispatcher("rounds", interaction=server.options["interaction"])
    if not given.queued:
        raise InvalidInput(f"{server.name} needs a dispatcher with queues, got {given.name}; use routed, idle or pure")
    if server.named is None or given.name == server.named:
        return given
    if given.name != "routed":
        raise InvalidInput(
            f"{policy.algorithm} sets the dispatcher {server.named}, but the dispatcher given is {given.name}; "
            "give one of them"
        )
    return Dispatcher(server.named)


def _traces(small: Thinned, scenario: Scenario, time: float, seeds: Sequence[int]) -> list[Trace]:
    """Simulate a trace for each seed, from the stationary start if it is known, otherwise from another one."""

    def begun(start: str) -> list[Trace]:
        return [_trace(small, scenario, start, time, seed) for seed in seeds]

    if not scenario.dispatcher.queued:
        return begun("even")
    try:
        return begun("stationary")
    except InvalidInput:  # it is not known; if anything else is wrong, the next line says so again
        return begun("one-each" if small.plan.concurrency <= small.fleet.clients else "even")


def _trace(small: Thinned, scenario: Scenario, start: str, time: float, seed: int) -> Trace:
    """Simulate until the time, or as far as every update is followed; a block is then longer than a window."""
    most = max(EXACT, BLOCKS * TURNS * small.plan.concurrency)
    likely = time * float((small.fleet.count * small.fleet.rate).sum())
    steps = most if likely > most else min(most, ceil(likely + 6 * sqrt(likely)) + 10)
    trace = simulate(small.fleet, small.plan, steps, start=start, seed=seed, scenario=scenario)
    if float(np.nanmax(trace.applied_at)) < time and steps < most:
        trace = simulate(small.fleet, small.plan, most, start=start, seed=seed, scenario=scenario)
    return trace


def _factors(timing: Timing, server: Server, plan: Plan, client: Integers, prob: Floats) -> Floats:
    """Return how much each update counts, by the correction for how often its client's updates arrive."""
    own = server.rule.correction
    if own is None:
        return np.ones(client.size)
    exponent = own if plan.correction is None or server.rule.uniform else plan.correction
    weights, counts = timing.small.share, timing.small.counts
    if exponent == 0 or not client.size:
        return np.ones(client.size)
    if timing.shares is not None:
        share = timing.shares * counts
        return np.asarray(client_factors(exponent, weights, share / share.sum())[client])
    value: Floats = (weights[client] * counts[client].mean() / (prob * counts[client])) ** exponent
    return value if exponent == 1 else np.asarray(value / (np.cumsum(value) / np.arange(1, value.size + 1)))
