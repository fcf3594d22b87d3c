"""Search for the plan with the least objective: sampling, step size and concurrency together."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import MOST_TASKS, Plan, check_concurrency, fleet_of
from sojourn.planning.bound.binning import Binning, binned, into_bins, width
from sojourn.planning.bound.concurrency import best_concurrency
from sojourn.planning.bound.family import ByLabel, ByPower, Family, equal_clients, grid_around_uniform, speed_clusters
from sojourn.planning.bound.objective import NetworkObjective, Objective, Prediction, client_weights
from sojourn.planning.bound.own import as_objective
from sojourn.planning.bound.problem import MET, Candidate, Infeasible, Problem
from sojourn.planning.bound.sampling import best_sampling
from sojourn.planning.promises import parking, promises
from sojourn.tabular import Tabular
from sojourn.types import Floats

Search = Literal["simplex", "clusters", "power", "grid"]
Progress = Callable[[int, int], None]

GRID = 50  # points, as many as in the paper, which does not give their range
AFRESH = 3  # random starts at the chosen concurrency
VALLEYS = 3  # how often the best concurrency is searched again, if all starts find another valley there
MOST_A_CLIENT = 10  # most tasks in flight per client if the concurrency is free; more if links are slow
MOST_FREE = 2000  # most probabilities that are searched one by one; beyond, clients are binned
MOST_SINGLE = 1_000_000  # most clients that may each become a group of their own
BINS = 400
REFINING = 30  # steps on the fleet itself after the bins
TIGHTER = 4  # attempts to meet a cap on the fleet itself by a tighter cap on the bins


@dataclass(frozen=True)
class Limits:
    """Constraints on a plan."""

    floor: float = 0.0
    """Smallest probability of any client."""
    most_tasks: int | None = None
    """Most tasks in flight; None = ten per client, and ten for every task that its links hold while it is busy."""
    most_staleness: float = np.inf
    """Largest mean staleness of any client."""

    def kept(self, prediction: Prediction) -> bool:
        """Whether a plan keeps the limits."""
        plan, stale = prediction.plan, prediction.analysis.staleness()
        fits = self.most_tasks is None or plan.concurrency <= self.most_tasks
        stays = float(stale.max()) <= self.most_staleness * (1 + 1e-5)
        return bool(fits and stays and plan.sampling.min() >= self.floor * (1 - 1e-9))


@dataclass(frozen=True, eq=False, repr=False)
class Planned(Tabular):
    """A plan, its prediction, and how it was found; it can be passed wherever a plan is expected."""

    plan: Plan
    """The plan, with its promises."""
    fleet: Fleet
    """The fleet of the plan; made of single clients if equal clients may get different probabilities."""
    objective: Objective
    """The objective that was minimised."""
    prediction: Prediction
    """The prediction for the plan."""
    searched: dict[int, float]
    """Value of the best plan found for each concurrency tried."""
    parked: str | None
    """A warning about a client that parks nearly all tasks; None = no such client."""
    search: Search
    """Family in which the sampling was searched."""
    clusters: int
    """Number of speed clusters of that family, if it has any."""
    equal: bool
    """Whether equal clients had to get equal probabilities."""
    limits: Limits
    """Constraints that were kept."""
    fixed: bool
    """Whether the concurrency was given."""
    free: Floats
    """Free numbers of the family, as a start for a similar problem."""
    binning: Binning | None = None
    """How the clients were binned, if they were too many to plan for one by one."""

    def _title(self) -> str:
        return f"{self.plan._title()}, expected {self.prediction.value:.6g}"

    def _table(self) -> dict[str, Any]:
        return self.plan._table()

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON."""
        self.plan.save(path)


def make_plan(
    fleet: Fleet,
    objective: Objective | Any,
    concurrency: int | None = None,
    search: Search = "simplex",
    limits: Limits | None = None,
    *,
    clusters: int = 2,
    equal: bool = True,
    seed: int = 0,
    start: Planned | None = None,
    progress: Progress | None = None,
) -> Planned:
    """Return the plan that minimises `objective` on `fleet`.

    - `search`: `simplex` gives every kind of client its own probability; `clusters` gives one to each of `clusters`
      speed clusters (the paper's setting); `grid` takes the best of the paper's 50 points for two clusters; `power`
      uses a power of the speed
    - `equal`: give equal clients equal probabilities (default)
    - `concurrency`: tasks in flight; by default it is chosen too
    - `start`: an earlier result, which speeds up a similar problem

    An objective of your own is any object with a name and a value, a score or a prediction
    (`sojourn.planning.bound.own`).

    >>> from sojourn.planning.bound.objective import NetworkObjective
    >>> from sojourn.planning.bound.scores import TimeBudget
    >>> fleet = Fleet.of(fast=(90, 8.0), slow=(10, 1.0))
    >>> planned = make_plan(fleet, NetworkObjective(TimeBudget(1000)))
    >>> planned.plan.concurrency, round(planned.prediction.value, 4)
    (14, 0.5616)
    """
    limits, fleet = limits or Limits(), fleet_of(fleet)
    objective = as_objective(objective)
    if seed < 0:
        raise InvalidInput(f"seed must not be negative, got {seed}")
    if not equal and fleet.clients > MOST_SINGLE:
        raise InvalidInput(
            f"unequal probabilities are searched for at most {MOST_SINGLE:,} clients, got {fleet.clients:,}; "
            "give equal clients equal ones"
        )
    fleet = fleet if equal else fleet.expanded()
    _check(fleet, concurrency, limits)
    family = _family(fleet, objective, search, clusters, equal)
    only = tuple(grid_around_uniform(fleet, GRID)) if search == "grid" else ()
    problem = Problem(fleet, objective, family, limits.floor, limits.most_staleness, only)
    if problem.family.size > MOST_FREE:
        found, known, binning = _through_bins(problem, concurrency, limits, seed, progress)
    else:
        (found, known), binning = _search(problem, concurrency, limits, seed, start, progress), None
    return Planned(
        plan=_promised(problem, found),
        fleet=fleet,
        objective=objective,
        prediction=found.prediction,
        searched={tasks: known.found[tasks].value for tasks in sorted(known.found)},
        parked=parking(objective, found.prediction),
        search=search,
        clusters=clusters,
        equal=equal,
        limits=limits,
        fixed=concurrency is not None,
        free=found.free,
        binning=binning,
    )


def _search(
    problem: Problem,
    concurrency: int | None,
    limits: Limits,
    seed: int,
    start: Planned | None,
    progress: Progress | None,
) -> tuple[Candidate, "_Known"]:
    known = _Known(problem, seed, progress, None if start is None else (start.plan.concurrency, start.free))
    if concurrency is not None:
        known.look(concurrency)
    else:
        most = min(limits.most_tasks or _many(problem.fleet), _most_within(limits.most_staleness))
        around: int | None = min(known.first, most)
        for _ in range(VALLEYS):
            if around is not None:  # another valley: search there too
                best_concurrency(known.value, most, around)
                around = known.afresh()
    found = known.polished()
    if not np.isfinite(found.value):
        raise Infeasible(_infeasible(problem, found))
    return found, known


def _through_bins(
    problem: Problem, concurrency: int | None, limits: Limits, seed: int, progress: Progress | None
) -> tuple[Candidate, "_Known", Binning]:
    """Plan for bins of clients, give every client its bin's probability, then refine on the fleet itself."""
    fleet = problem.fleet
    label = into_bins(fleet, problem.objective, BINS)
    smaller, objective = binned(fleet, problem.objective, label)
    coarse = replace(problem, fleet=smaller, objective=objective, family=ByLabel(np.arange(smaller.groups)))
    found, known = _search(coarse, concurrency, limits, seed, None, progress)
    tasks = found.prediction.plan.concurrency
    start = problem.family.nearest(found.free[label], fleet.count.astype(np.float64))
    before = best_sampling(replace(problem, only=(start,)), tasks, [])
    for _ in range(TIGHTER if before.excess > MET else 0):  # a bin meets the cap only on average
        coarse = replace(coarse, most_staleness=coarse.most_staleness / (1 + 1.05 * before.excess))
        again = best_sampling(coarse, tasks, [found.free])
        start = problem.family.nearest(again.free[label], fleet.count.astype(np.float64))
        before = best_sampling(replace(problem, only=(start,)), tasks, [])
        if before.excess <= MET:
            break
    refined = best_sampling(replace(problem, iterations=REFINING), tasks, [start])
    fine = min(before, refined, key=lambda one: one.order)
    if not np.isfinite(fine.value):
        raise Infeasible(_infeasible(problem, fine))
    binning = Binning(smaller.groups, width(fleet, label), found.value, before.prediction.value, fine.value)
    return fine, known, binning


class _Known:
    """The best samplings so far, by concurrency."""

    def __init__(
        self, problem: Problem, seed: int, progress: Progress | None, start: tuple[int, Floats] | None
    ) -> None:
        self.problem = problem
        self._rough = replace(problem, rough=True)
        self.found: dict[int, Candidate] = {}
        self._starts = problem.starts(AFRESH, seed)
        self._progress = progress
        self._warm = start
        self.first = start[0] if start else max(1, min(problem.fleet.clients // 4, 16))

    def look(self, concurrency: int) -> None:
        """Find the best sampling at this concurrency, from all starts."""
        if self._warm is not None:
            self.value(concurrency)
        else:
            self._keep(concurrency, best_sampling(self._rough, concurrency, self._starts, thorough=True))

    def value(self, concurrency: int) -> float:
        """Return the value of the best sampling at this concurrency, starting from the nearest one known."""
        if concurrency not in self.found:
            first = not self.found and self._warm is None
            self._keep(concurrency, best_sampling(self._rough, concurrency, self._near(concurrency), thorough=first))
        return self.found[concurrency].value

    def _near(self, concurrency: int) -> list[Floats]:
        if self.found:
            nearest = min(self.found, key=lambda other: abs(np.log(other / concurrency)))
            return [self.found[nearest].free]
        if self._warm is not None and self._warm[1].size == self.problem.family.size:
            return [self._warm[1]]
        return self._starts[:-AFRESH]

    def afresh(self) -> int | None:
        """Try all starts at the best concurrency; if that finds another valley, return the concurrency to search
        around.
        """
        if self._warm is not None:
            return None
        best = self.best()
        concurrency = best.prediction.plan.concurrency
        self.look(concurrency)
        better = self.found[concurrency].value < best.value * (1 - 1e-7)
        if better:
            self.found = {concurrency: self.found[concurrency]}
        return concurrency if better else None

    def polished(self) -> Candidate:
        """Return the best of all, refined to the last digits."""
        best = self.best()
        if np.isfinite(best.value):
            concurrency = best.prediction.plan.concurrency
            self._keep(concurrency, best_sampling(self.problem, concurrency, [best.free]))
            best = self.found[concurrency]
        return best

    def best(self) -> Candidate:
        """Return the best of all."""
        tasks = min(self.found, key=lambda one: (self.found[one].value, one))
        return self.found[tasks]

    def _keep(self, concurrency: int, found: Candidate) -> None:
        if concurrency not in self.found or found.value < self.found[concurrency].value:
            self.found[concurrency] = found
        if self._progress is not None:
            self._progress(len(self.found), max(20, len(self.found) + 1))


def _check(fleet: Fleet, concurrency: int | None, limits: Limits) -> None:
    if fleet.clients < 2:
        raise InvalidInput("a plan needs at least two clients, got 1; with one client there is nothing to choose")
    if concurrency is not None:
        check_concurrency(concurrency)
    if limits.most_tasks is not None:
        check_concurrency(limits.most_tasks, "most_tasks")
        if concurrency is not None and concurrency > limits.most_tasks:
            raise InvalidInput(f"concurrency must not exceed the cap of {limits.most_tasks} tasks, got {concurrency}")
    if concurrency is not None and concurrency - 1 > limits.most_staleness:
        raise InvalidInput(_too_stale(concurrency, limits.most_staleness))


def _too_stale(concurrency: int, cap: float) -> str:
    return (
        f"the cap of {cap:g} on staleness cannot be met with {concurrency} tasks in flight: mean staleness is always "
        f"C - 1 = {concurrency - 1}; raise the cap or use at most {int(cap) + 1} tasks"
    )


def _family(fleet: Fleet, objective: Objective, search: Search, clusters: int, equal: bool) -> Family:
    if search == "power":
        return ByPower(np.log(fleet.rate))
    if search in ("clusters", "grid"):
        return ByLabel(speed_clusters(fleet, 2 if search == "grid" else clusters))
    if search != "simplex":
        raise InvalidInput(f"search must be simplex, clusters, grid or power, got '{search}'")
    if not equal:
        return ByLabel(np.arange(fleet.groups))
    weights = client_weights(fleet, objective.weights) if isinstance(objective, NetworkObjective) else None
    return ByLabel(equal_clients(fleet, np.zeros(fleet.groups) if weights is None else weights))


def _many(fleet: Fleet) -> int:
    """Return the most tasks to try: ten per client and per task that its links hold while it is busy."""
    held = float((fleet.count * (1 + fleet.rate * fleet.link_time)).sum())
    return int(min(MOST_A_CLIENT * held, MOST_TASKS))


def _most_within(cap: float) -> int:
    """Return the most tasks in flight with which the cap can be kept, since mean staleness is C - 1."""
    return MOST_TASKS if cap >= MOST_TASKS else int(cap * (1 + MET)) + 1


def _infeasible(problem: Problem, nearest: Candidate) -> str:
    tasks, least = nearest.prediction.plan.concurrency, nearest.prediction.analysis.staleness().max()
    lower = "lower the floor, " if problem.floor else ""
    return (
        f"no sampling of this family keeps every client's staleness within {problem.most_staleness:g} with {tasks} "
        f"tasks in flight: the least that was reached is {least:.7g}; raise the cap, {lower}or use fewer tasks"
    )


def _promised(problem: Problem, found: Candidate) -> Plan:
    return replace(
        found.prediction.plan,
        step_size=found.prediction.scored.step_size,
        objective=problem.objective.name,
        fleet_hash=problem.fleet.hash,
        promises=promises(found.prediction),
    )
