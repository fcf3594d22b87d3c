"""What not knowing the speeds costs: `python benchmarks/following.py`, a table in Markdown.

A fleet of unknown speeds is run beside the same fleet with known ones, with the same service times of the same tasks.
Who gets a task, what is learnt and what is planned is what a live run uses; only training and messages are left out,
so that a run takes no longer than its decisions.

- throughput at the start, at the end: what the first plan, and the last, bring of the informed plan's, exactly
- updates, seconds until 5%: from when on the plan in force has at least 95% of it, for good
- later by: how much later the run has received all its updates

The plan is worked out again twenty times in the run at the least, as with replan = "10min" in a run of some hours.
"""

import argparse
import heapq
from concurrent.futures import Executor, Future
from math import inf
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from sojourn import Fleet, Plan
from sojourn.learning.run.config import TrainConfig
from sojourn.live.chooser import InForce
from sojourn.live.follower import Follower, Moment
from sojourn.live.planner import Planner, Said
from sojourn.live.run import built_for, chooser_of, told_of
from sojourn.scenario import Scenario
from sojourn.timing.expected import expected

CLOSE, INTERVALS = 0.95, 20
POLICIES: dict[str, dict[str, Any]] = {
    "everyone busy": {"cap": "1"},
    "a quarter of the clients, by speed": {"cap": "1", "sampling": "speed", "quarter": True},
    "queues, by speed": {"sampling": "speed"},
}


def fleets(clients: int) -> dict[str, np.ndarray]:
    """Return the true rates of some fleets."""
    rng = np.random.default_rng(7)
    return {
        "two speeds, 10 to 1": np.where(np.arange(clients) % 2, 0.4, 4.0),
        "all different": 2 * rng.lognormal(-0.5, 1.0, clients),
        "a few stragglers": np.where(np.arange(clients) % 10, 2.0, 0.1),
    }


class AtOnce(Executor):
    """Works out what it is given at once: planning takes no simulated time."""

    def submit(self, work: Any, /, *given: Any, **options: Any) -> Any:
        """Return the result as a future that is done."""
        done: Future[Any] = Future()
        done.set_result(work(*given, **options))
        return done


class Ran(NamedTuple):
    """A run: when each update came, and what the plans in force were."""

    times: list[float]
    plans: list[tuple[int, InForce | None]]
    """Update from which each plan held; None = the first."""
    first: Plan
    reasons: list[str]


def config_of(fleet: str, clients: int, policy: dict[str, Any]) -> TrainConfig:
    """Return the keys of a run; its data hardly matter."""
    words = dict(policy)
    tasks = max(1, clients // 4) if words.pop("quarter", False) else clients
    data = f"quadratic(dimension=1, clients={clients}, examples=1)"
    given = {"data": data, "model": "problem", "partition": "natural", "device": "cpu", "steps": 1}
    return TrainConfig(fleet, concurrency=tasks, **given, **words)


def run(config: TrainConfig, rates: np.ndarray, law: str, updates: int, seed: int, every: float | None = None) -> Ran:
    """Run until so many updates have come, with service times that belong to the tasks; `every` None = never plan."""
    built = built_for(config)
    chooser, told = chooser_of(built), told_of(built)
    follower = None if every is None else Follower(Planner(built, told, Said.of(config)), every, AtOnce())
    tasks, now, times = built.setting.plan.concurrency, 0.0, list[float]()
    plans: list[tuple[int, InForce | None]] = [(0, None)]
    reasons, events = list[str](), list[tuple[float, int, float]]()
    sent, waiting = np.zeros(rates.size, np.int64), np.zeros(rates.size, np.int64)
    present = np.ones(rates.size, np.bool_)

    def begin(client: int) -> None:
        rng = np.random.default_rng((seed, client, int(sent[client])))
        draw = {"exponential": rng.exponential, "lognormal": lambda: rng.lognormal(-0.045, 0.3)}[law]()
        sent[client] += 1
        heapq.heappush(events, (now + draw / rates[client], client, draw / rates[client]))

    def fill(finisher: int | None) -> None:
        while chooser.held.sum() < tasks:
            client = chooser.choose(finisher)
            finisher = None
            if client is None:
                return
            chooser.take(client)
            if chooser.held[client] == 1:
                begin(client)
            else:
                waiting[client] += 1

    for client in range(rates.size):
        chooser.arrive(client)
    fill(None)
    while len(times) < updates:
        now, client, took = heapq.heappop(events)
        times.append(now)
        chooser.release(client, used=True)
        if waiting[client]:
            waiting[client] -= 1
            begin(client)
        if follower is not None:
            follower.note(client, took, 0.0)
            begun = {one: at - last for at, one, last in events}
            ages = np.array([now - begun.get(one, now) for one in range(rates.size)])
            found = follower.look(Moment(now, len(times), present, lambda ages=ages: ages, inf))
            if found is not None:
                chooser.adopt(found[0].force)
                tasks = found[0].force.concurrency
                plans.append((len(times), found[0].force))
                reasons.append(found[1])
        fill(client)
    return Ran(times, plans, built.setting.plan, reasons)


def throughput(rates: np.ndarray, plan: Plan | InForce) -> float:
    """Return the exact throughput of a plan for the true rates; exact for any law under a cap of 1."""
    fleet = Fleet.of_rates(rates)
    one = np.ones(rates.size, np.int64)
    if isinstance(plan, Plan):
        sampling, cap, tasks = np.repeat(plan.sampling, plan.count), np.repeat(plan.cap, plan.count), plan.concurrency
    else:
        sampling, cap, tasks = plan.sampling, plan.cap, plan.concurrency
    made = Plan(fleet.name, one, sampling / sampling.sum(), tasks, cap=cap)
    return float(expected(fleet, made, Scenario()).throughput)


class Cost(NamedTuple):
    """What not knowing the speeds cost, in one run."""

    start: float
    """Throughput of the first plan, as a part of the informed plan's."""
    end: float
    """The same of the last plan."""
    updates: float
    """Updates until it is within 5% for good; inf = never."""
    seconds: float
    """The same in seconds."""
    regret: float
    """Seconds by which all updates came later; the anchor, ATA, calls such a cost regret."""
    lasted: float
    """Seconds that the informed run took."""


def cost(rates: np.ndarray, policy: dict[str, Any], law: str, updates: int, seed: int) -> Cost:
    """Compare a run that learns with one that knows."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "fleet.csv"
        Fleet.of_rates(rates).save(path)
        known = run(config_of(str(path), rates.size, policy), rates, law, updates, seed)
        every = known.times[-1] / INTERVALS
        learns = run(config_of(f"unknown({rates.size})", rates.size, policy), rates, law, updates, seed, every)
    best = throughput(rates, known.first)
    parts = [throughput(rates, learns.first if force is None else force) / best for _, force in learns.plans]
    poor = [number for number, part in enumerate(parts) if part < CLOSE]
    late = 0.0 if not poor else inf if poor[-1] == len(parts) - 1 else float(learns.plans[poor[-1] + 1][0])
    seconds = learns.times[int(late) - 1] if 0 < late < inf else late
    return Cost(parts[0], parts[-1], late, seconds, learns.times[-1] - known.times[-1], known.times[-1])


def main() -> None:
    """Print the table."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--clients", type=int, default=40)
    ask.add_argument("--updates", type=int, default=4000)
    ask.add_argument("--seeds", type=int, default=3)
    given = ask.parse_args()
    print("| fleet | policy | law | at the start | at the end | updates until 5% | seconds | later by | informed run |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, rates in fleets(given.clients).items():
        for policy, words in POLICIES.items():
            for law in ("exponential", "lognormal"):
                each = [cost(rates, words, law, given.updates, seed) for seed in range(given.seeds)]
                start, end, late, seconds, regret, lasted = (median(values) for values in zip(*each, strict=True))
                soon = f"{late:.0f} | {seconds:.3g}" if late < inf else "not reached | "
                told = f"{start:.0%} | {end:.0%} | {soon} | {regret:.3g} s | {lasted:.4g} s"
                print(f"| {name} | {policy} | {law} | {told} |", flush=True)


if __name__ == "__main__":
    main()
