"""Summary: means, distributions and standard errors of a simulated network, in memory that does not grow with steps.

Replications run in parallel on threads. Each has its own random streams, and results are added in the order of the
replications, so that one seed gives the same bits on any number of cores. With fewer than ten replications the standard
errors come from batches (32 in each run). These are right only if a batch is longer than the network's memory; for that
reason the correlation of neighbouring batches is reported.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.interrupts import noted
from sojourn.plan import Plan, plan_for
from sojourn.scenario import Scenario
from sojourn.tabular import Tabular
from sojourn.timing.exact.analysis import analyze
from sojourn.timing.shares import as_dispatched, as_served, solved
from sojourn.timing.simulate import jump_chain
from sojourn.timing.simulate.drive import Stays, stays
from sojourn.timing.simulate.estimate import Estimate, RatioSums, batch_correlation
from sojourn.timing.simulate.runners import Runner, runner
from sojourn.types import Floats

Progress = Callable[[int, int], None]

BATCHES = 32
ENOUGH_REPLICATIONS = 10
MOST_STEPS = 10**15  # the fastest engine would need a year
DETAILED_GROUPS = 64  # fleets with more groups get means only, and one staleness histogram for all
_CALL = 4_000_000  # steps between two reports and checks for Ctrl-C


@dataclass(frozen=True, eq=False, repr=False)
class Summary(Tabular):
    """Estimates from a simulation, by groups, each with its standard error. Times are in seconds."""

    fleet: Fleet
    """The fleet simulated."""
    plan: Plan
    """The plan simulated."""
    steps: int
    """Server steps done, over all replications."""
    replications: int
    """Number of independent runs (after an interruption the last may be incomplete)."""
    start: str
    """Where the tasks were at the beginning."""
    seed: int
    """Seed of all random streams."""
    dispatcher: str
    """The dispatcher, which decided who got the next task."""
    engine: str
    """The engine: `jump chain`, `events`, `rounds` or `periodic`."""
    warmup: int
    """Steps at the beginning of each replication that were not counted."""
    complete: bool
    """False if the simulation was interrupted."""
    error_from: str
    """`replications` or `batches`: where the standard errors come from."""
    batch_correlation: float
    """Largest correlation of neighbouring batches' mean staleness over the groups (NaN with replications)."""
    time: float
    """Simulated time, over all replications."""
    throughput: Estimate
    """Server steps per second."""
    staleness: Estimate
    """Mean staleness of the updates of one client of each group: updates applied strictly between dispatch and
    application.
    """
    queue: Estimate
    """Number of tasks at one client of each group, averaged over time."""
    utilisation: Estimate
    """Fraction of time that a client is busy."""
    sojourn: Estimate
    """Mean time from dispatch to application."""
    waiting: Estimate
    """Mean time in the client's queue before service."""
    arrivals: NDArray[np.int64]
    """Updates applied, by group."""
    lost: NDArray[np.int64]
    """Tasks lost or dropped, by group."""
    oldest: NDArray[np.int64]
    """Largest staleness seen, by group."""
    staleness_bins: NDArray[np.int64]
    """Counts by [group, bin]; one row for all groups together if there are more than 64."""
    queue_tail: Floats
    """Fraction of time that a client has at least k tasks, by [group, k]; empty with more than 64 groups."""

    def _title(self) -> str:
        many = f"{self.steps:,} steps of {self.fleet.clients:,} clients and {self.plan.concurrency:,} tasks"
        return (
            f"Summary of {many}: {self.throughput} updates per unit of time, mean staleness {self.mean_staleness:.6g}"
        )

    def _table(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"name": self.fleet.name, "count": self.fleet.count, "updates": self.arrivals}
        for key in ("staleness", "queue", "utilisation", "sojourn", "waiting"):
            found = getattr(self, key)
            shown |= {key: found.value, f"{key}_error": found.error}
        return shown

    def staleness_quantile(self, q: float) -> Floats:
        """Return the quantile q (from 0 to 1) of the staleness by group: exact below 128, then within 3%."""
        if not 0 < q < 1:
            raise InvalidInput(f"a quantile must lie between 0 and 1, got {q}")
        reached = np.cumsum(self.staleness_bins, axis=1)
        index = (reached < q * reached[:, -1:]).sum(axis=1)
        edges = jump_chain.bin_edges()[np.minimum(index, self.staleness_bins.shape[1] - 1)]
        return np.where(reached[:, -1] > 0, edges, np.nan)

    @property
    def mean_staleness(self) -> float:
        """Mean staleness over all updates; C - 1 in the stationary network."""
        return float((self.staleness.value * self.arrivals)[self.arrivals > 0].sum() / self.arrivals.sum())


def measure(
    fleet: Fleet,
    plan: Plan,
    steps: int,
    *,
    start: str = "stationary",
    seed: int = 0,
    replications: int = 1,
    warmup: int | None = None,
    scenario: Scenario | None = None,
    engine: str = "auto",
    workers: int | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Simulate `replications` runs of `steps` server steps each, and return a Summary.

    - `start`, `seed`, `scenario`, `engine`: as for `simulate`
    - `warmup`: steps that each run does first and that are not counted. A stationary start needs some, because the
      initial tasks carry step 0 and so look younger than they are. By default eight times the largest mean staleness
      (at most `steps`) for a stationary start, and none for the others
    - `workers`: number of threads; by default one per core
    - `progress`: a function that is called with (steps done, steps in all)

    After Ctrl-C the Summary of what was done so far is returned, with `complete` False.

    >>> fleet = Fleet.of(fast=(5, 4.0), slow=(5, 1.0))
    >>> summary = measure(fleet, Plan.uniform(fleet, concurrency=10), steps=20_000, replications=20, seed=1)
    >>> bool(abs(summary.mean_staleness - 9) < 0.05)
    True
    """
    plan = plan_for(fleet, plan)
    steps, seed = check_run(steps, seed, replications, 0 if warmup is None else warmup, workers)
    origin: dict[str, Any] = {"start": start, "seed": seed, "scenario": scenario, "engine": engine}
    used = runner(fleet, plan, **origin).name  # raises an error for an impossible run before any thread starts
    skipped = _warmup(fleet, plan, steps, start, scenario or Scenario()) if warmup is None else warmup
    collector = _Collector(fleet, replications)

    def replicate(index: int) -> "_Replication":
        one = runner(fleet, plan, replication=index, **origin)
        run = _Replication(one, fleet, plan, steps, collector.by_batches)
        for done in run.go(skipped, stop):
            if progress is not None:
                collector.report(index, done, (skipped + steps) * replications, progress)
        return run

    threads = min(replications, workers or os.cpu_count() or 1)
    with ThreadPoolExecutor(threads) as pool, noted(twice=False) as stop:
        left = iter(range(replications))
        ahead: deque[tuple[int, Future[_Replication]]] = deque()
        while True:
            room = 0 if stop.is_set() else 2 * threads + 1 - len(ahead)  # only a few runs ahead
            ahead.extend((index, pool.submit(replicate, index)) for index in islice(left, room))
            if not ahead:
                break
            index, future = ahead.popleft()  # a finished run is added up and dropped
            if stop.is_set() and future.cancel():
                continue
            try:
                collector.add(index, future.result())
            except BaseException:
                stop.set()  # the other runs need not go on
                raise
    dispatcher = (scenario or Scenario()).dispatcher.name
    facts = {"start": start, "seed": seed, "warmup": skipped, "engine": used, "dispatcher": dispatcher}
    facts["complete"] = not stop.is_set()
    return collector.summary(fleet, plan, facts)


def _warmup(fleet: Fleet, plan: Plan, steps: int, start: str, scenario: Scenario) -> int:
    if start != "stationary":
        return 0
    if scenario.dispatcher.name == "pure":
        served = as_served(fleet, scenario)
        pace = 1 / (1 / served.rate + served.link_time)
        stalest = float((fleet.count * pace).sum() / pace.min()) - 1
    elif (held := as_dispatched(plan, scenario)).capped:
        stalest = float(solved(fleet, held, scenario).staleness.max())
    else:
        stalest = float(analyze(fleet, plan).staleness().max())
    return int(min(steps, 8 * (stalest + 1)))


def check_run(
    steps: int, seed: int, replications: int = 1, warmup: int = 0, workers: int | None = None
) -> tuple[int, int]:
    """Raise an error for impossible sizes; return steps and seed as plain integers."""
    rules = (("steps", steps, 1), ("replications", replications, 1), ("seed", seed, 0), ("warmup", warmup, 0))
    for name, value, low in (*rules, ("workers", 1 if workers is None else workers, 1)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < low:
            raise InvalidInput(f"{name} must be a whole number of at least {low}, got {value}")
        if name != "seed" and value > MOST_STEPS:
            raise InvalidInput(f"{name} must be at most {MOST_STEPS:,}, got {value:,}")
    return int(steps), int(seed)


class _Replication:
    """One run: its whole tally, and the units that give the standard errors."""

    def __init__(self, run: Runner, fleet: Fleet, plan: Plan, steps: int, by_batches: bool) -> None:
        detailed = fleet.groups <= DETAILED_GROUPS
        self._shape = (fleet.groups, plan.concurrency + 1 if detailed else 2, fleet.groups if detailed else 1)
        self._run, self._groups = run, fleet.groups
        units = min(BATCHES, steps) if by_batches else 1
        self._ends = np.linspace(0, steps, units + 1).astype(np.int64)[1:]
        self.total = jump_chain.tally(*self._shape)
        self.time = 0.0
        self.lost = np.zeros(fleet.groups, dtype=np.int64)
        self.units: list[tuple[jump_chain.Tally, Stays, float]] = []

    def go(self, warmup: int, stop: Event) -> Iterator[int]:
        """Run to the end or until `stop`, and yield the number of steps done now and then."""
        done = 0
        for number, end in enumerate([warmup, *(warmup + self._ends)]):
            batch, times, lasted = jump_chain.tally(*self._shape), stays(self._groups), 0.0
            begin = done
            while done < end and not stop.is_set():
                lasted += self._run.tally(min(_CALL, int(end) - done), batch, times, stop)
                done = self._run.steps  # rounds are always completed
                yield done
            if number > 0 and done > begin:  # it may be that no time has passed, since equal services end together
                self._fold(batch, times, lasted)
            if done < end:
                return  # interrupted; the unfinished batch counts as far as it went

    def _fold(self, batch: jump_chain.Tally, times: Stays, lasted: float) -> None:
        for name in ("arrivals", "staleness", "task_time", "level_time", "bins"):
            getattr(self.total, name)[...] += getattr(batch, name)
        np.maximum(self.total.oldest, batch.oldest, out=self.total.oldest)
        self.time += lasted
        # the units need only the sums by group: drop the distributions
        small = batch._replace(level_time=batch.level_time[:, 1:2].copy(), bins=batch.bins[:0])
        self.units.append((small, times, lasted))
        self.lost += times.lost


class _Collector:
    """Adds replications in order and turns them into a Summary."""

    def __init__(self, fleet: Fleet, replications: int) -> None:
        self.by_batches = replications < ENOUGH_REPLICATIONS
        self.added = self._next = 0
        self._count = fleet.count
        self._total: jump_chain.Tally | None = None
        self._time = 0.0
        self._flow = RatioSums(1)
        self._stale, self._queue = RatioSums(fleet.groups), RatioSums(fleet.groups)
        self._busy, self._stay, self._wait = RatioSums(fleet.groups), RatioSums(fleet.groups), RatioSums(fleet.groups)
        self._lost = np.zeros(fleet.groups, dtype=np.int64)
        self._series: list[Floats] = []
        self._done: dict[int, int] = {}

    def report(self, index: int, done: int, total: int, progress: Progress) -> None:
        self._done[index] = done
        progress(sum(list(self._done.values())), total)

    def add(self, index: int, replication: _Replication) -> None:
        if index < self._next or not replication.units:  # added before an interruption, or interrupted at once
            return
        self._next = index + 1
        self.added += 1
        for unit, times, lasted in replication.units:
            self._flow.add(unit.arrivals.sum(), lasted)
            self._stale.add(unit.staleness, unit.arrivals)
            self._queue.add(unit.task_time, self._count * lasted)
            self._busy.add(unit.level_time[:, 0], self._count * lasted)
            self._stay.add(times.sojourn, unit.arrivals)
            self._wait.add(times.waiting, unit.arrivals)
        if self.by_batches and self._count.size <= DETAILED_GROUPS:
            with np.errstate(invalid="ignore"):
                self._series.append(np.array([unit.staleness / unit.arrivals for unit, _, _ in replication.units]))
        self._time += replication.time
        self._lost += replication.lost
        if self._total is None:
            self._total = replication.total
            return
        np.maximum(self._total.oldest, replication.total.oldest, out=self._total.oldest)
        for name in ("arrivals", "staleness", "task_time", "level_time", "bins"):
            getattr(self._total, name)[...] += getattr(replication.total, name)

    def summary(self, fleet: Fleet, plan: Plan, facts: dict[str, Any]) -> Summary:
        if self._total is None:
            raise KeyboardInterrupt  # nothing finished: there is nothing to summarise
        flow = self._flow.estimate()
        detailed = fleet.groups <= DETAILED_GROUPS
        with np.errstate(invalid="ignore"):  # if no time has passed there is no fraction of it
            tail = self._total.level_time / (fleet.count * self._time)[:, None]
        tail[:, 0] = 1.0
        return Summary(
            fleet=fleet,
            plan=plan,
            steps=int(self._total.arrivals.sum()),
            replications=self.added,
            **facts,
            error_from="batches" if self.by_batches else "replications",
            batch_correlation=batch_correlation(self._series),
            time=self._time,
            throughput=Estimate(flow.value[0], flow.error[0]),
            staleness=self._stale.estimate(),
            queue=self._queue.estimate(),
            utilisation=self._busy.estimate(),
            sojourn=self._stay.estimate(),
            waiting=self._wait.estimate(),
            arrivals=self._total.arrivals,
            lost=self._lost,
            oldest=self._total.oldest,
            staleness_bins=self._total.bins,
            queue_tail=tail if detailed else np.empty((0, 0)),
        )
