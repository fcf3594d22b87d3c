"""Each client's share of all updates, as believed when a task is sent; the correction divides by it.

It is exact where the network is solved: p for routed tasks, times the probability that an update is not lost on its
way; the capped network's share under a cap (for any laws if no client holds two tasks); and for tasks that stay with
their clients, what each completes. Elsewhere (a cap of two with laws other than exponential, a busy server or clients
that come and go under a cap, tasks that are lost when their client leaves) it is estimated during the run: updates
received from the client divided by all received, both with a prior of one update per client, spread as in a large
network that nothing disturbs.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from sojourn.availability import Availability, of_groups
from sojourn.fleet import Fleet
from sojourn.laws.law import EXPONENTIAL
from sojourn.plan import Plan
from sojourn.scenario import Scenario
from sojourn.timing.exact.capped import CappedNetwork, capped_network
from sojourn.timing.exact.held import Factors
from sojourn.types import Floats, Integers

KNOWN = {True: "exact", False: "estimated"}


def as_dispatched(plan: Plan, scenario: Scenario) -> Plan:
    """Return the plan with the cap that the dispatcher implies: 1 for `idle`."""
    if scenario.dispatcher.name != "idle" or plan.one_each:
        return plan
    return Plan(
        plan.name,
        plan.count,
        plan.sampling,
        plan.concurrency,
        plan.step_size,
        fleet_hash=plan.fleet_hash,
        cap=np.ones(len(plan.name)),
    )


def as_served(fleet: Fleet, scenario: Scenario) -> Fleet:
    """Return the fleet with rates of whole tasks: a task of K local steps takes K service times."""
    steps = 1 if scenario.one_draw else scenario.local_steps
    return fleet if steps == 1 else fleet.with_rates(fleet.rate / steps)


def solvable(fleet: Fleet, plan: Plan, scenario: Scenario) -> bool:
    """Whether the capped network is exact for this run."""
    if np.isfinite(scenario.server_rate) or scenario.availability:
        return False
    one_service = scenario.local_steps == 1 or scenario.one_draw
    return all(
        one_service and law == EXPONENTIAL for law, cap in zip(fleet.law, plan.cap.tolist(), strict=True) if cap > 1
    )


def solved(fleet: Fleet, plan: Plan, scenario: Scenario) -> CappedNetwork:
    """Return the capped network of a run; it is cached, because every replication needs it."""
    served = as_served(fleet, scenario)
    numbers = (served.count, served.rate, served.link_time, plan.sampling, plan.cap)
    return _solved(plan.concurrency, *(array.tobytes() for array in numbers))


@lru_cache(maxsize=4)
def _solved(concurrency: int, *numbers: bytes) -> CappedNetwork:
    count = np.frombuffer(numbers[0], np.int64)
    rate, link, weights, cap = (np.frombuffer(text) for text in numbers[1:])
    with np.errstate(divide="ignore"):
        fleet = Fleet(tuple(map(str, range(count.size))), count, rate, uplink_rate=np.asarray(1 / link))
    return capped_network(fleet, weights, concurrency, cap)


@dataclass(frozen=True)
class Shares:
    """The shares of one run, computed on demand."""

    fleet: Fleet
    plan: Plan
    """As dispatched."""
    scenario: Scenario
    queues: Integers
    """Number of tasks at each client at the beginning."""

    @cached_property
    def exact(self) -> bool:
        """Whether the shares are exact; otherwise they are where an estimate starts."""
        name = self.scenario.dispatcher.name
        if name == "pure":
            alone = np.isinf(self.scenario.server_rate) and not self.scenario.availability
            return bool(alone and (self.queues.max() <= 1 or not self.fleet.link_time.any()))
        if name == "shuffled" or not self.plan.capped:
            return not any(item.name != "always" and item.leave == "lose" for item in self._presence)
        return solvable(self.fleet, self.plan, self.scenario)

    @cached_property
    def _presence(self) -> list[Availability]:
        """What is said about each group's clients; empty = nothing about any."""
        given = self.scenario.availability
        return of_groups(self.fleet, given) if given else []

    @cached_property
    def by_group(self) -> Floats:
        """Return the share of one client of each group."""
        name = self.scenario.dispatcher.name
        if name == "shuffled":
            return self._of_those_that_arrive(np.full(self.fleet.groups, 1 / self.fleet.clients))
        if name == "pure":
            return self._of_those_with_tasks()
        if not self.plan.capped:
            return self._of_those_that_arrive(self.plan.sampling)
        if self.exact:
            return solved(self.fleet, self.plan, self.scenario).share
        return self._of_a_large_network()

    def _of_those_that_arrive(self, sent: Floats) -> Floats:
        """Return the shares if so many tasks are sent to each client, and some updates are lost on their way."""
        if len({item.loss for item in self._presence}) <= 1:
            return sent
        arrive = sent * (1 - np.array([item.loss for item in self._presence]))
        return np.asarray(arrive / (self.fleet.count * arrive).sum())

    def _of_those_with_tasks(self) -> Floats:
        """Return the shares if every client with a task always works on it."""
        served = as_served(self.fleet, self.scenario)
        pace = 1 / (1 / served.rate + served.link_time)
        busy = np.bincount(self.fleet.group_of_client, self.queues > 0, self.fleet.groups)
        return np.asarray(pace / (busy * pace).sum())

    def _of_a_large_network(self) -> Floats:
        """Return w times the probability of having room, for independent clients that hold C tasks on average."""
        load = self.plan.sampling * (1 / as_served(self.fleet, self.scenario).rate + self.fleet.link_time)
        ratio = tilted(load, self.fleet.count, self.plan)
        cap = np.minimum(self.plan.cap, self.plan.concurrency)
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            power, even = ratio**cap, np.isclose(ratio, 1.0)
            room = np.where(even, cap / (cap + 1), (1 - power) / (1 - power * ratio))
        entries = self.plan.sampling * np.where(np.isfinite(room), np.maximum(room, 1e-12), 1 / ratio)
        return np.asarray(entries / (self.fleet.count * entries).sum())


def exact_shares(fleet: Fleet, plan: Plan, scenario: Scenario) -> Floats | None:
    """Return the share of one client of each group if it is known exactly before the run; None = it
    must be estimated.
    """
    dispatcher = scenario.dispatcher
    if not dispatcher.queued or dispatcher.own is not None:
        return None
    if dispatcher.name == "pure" and plan.concurrency < fleet.clients:
        return None  # the start decides which clients have the tasks
    everyone = np.ones(fleet.clients, dtype=np.int64)
    found = Shares(fleet, as_dispatched(plan, scenario), scenario, everyone)
    alone = dispatcher.name != "pure" or plan.concurrency == fleet.clients or not fleet.link_time.any()
    return found.by_group if found.exact and alone else None


def tilted(load: Floats, count: Integers, plan: Plan) -> Floats:
    """Return ratios of independent truncated geometric queues, proportional to the loads, that hold
    C tasks on average.
    """
    cap = np.minimum(plan.cap, plan.concurrency).astype(np.int64)
    factors = Factors.of(load / load.max(), np.ones(load.size), np.zeros(load.size), count, cap)
    return np.asarray(load / load.max() * np.exp(factors.saddle(plan.concurrency)[0]))
