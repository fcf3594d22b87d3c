"""Train the runs that searches request, by several processes or one GPU; each run is stored as soon as it ends."""

import sys
import time as clock
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context

import torch
from policies import policies
from runs import Request, train
from search import Asked
from store import Store
from world import Cell

from sojourn.planning.policy import Policy
from sojourn.scenario import Dispatcher, Scenario
from sojourn.timing.expected import expected

SAMPLE = 300  # updates of each run that are timed
TRIALS = 9.0  # mean number of trials of a policy with two trial seeds


@dataclass
class Search:
    """A search and its state."""

    name: str
    asked: Asked
    waiting: list[Request] = field(default_factory=list)
    done: bool = False
    step: float = 0.0

    def go_on(self, store: Store) -> list[Request]:
        """Answer requests from stored runs as far as possible; return the runs that must be trained now."""
        while not self.done:
            rows = {one.key: store.get(one) for one in self.waiting}
            missing = [one for one in self.waiting if rows[one.key] is None]
            if missing:
                return missing
            try:
                self.waiting = self.asked.send(rows) if self.waiting else next(self.asked)  # type: ignore[arg-type]
            except StopIteration as end:
                self.done, self.step = True, end.value
        return []


def go(searches: Sequence[Search], store: Store, jobs: int, minutes: float | None) -> bool:
    """Train until all searches have ended or the minutes are over; return whether all have ended."""
    began = told = clock.monotonic()
    queue: list[Request] = [one for search in searches for one in search.go_on(store)]
    owner = {id(one): search for search in searches for one in search.waiting}
    if not queue:
        return all(one.done for one in searches)
    pool = ProcessPoolExecutor(jobs, get_context("spawn")) if jobs > 1 else None
    running: dict[Future[list[dict[str, object]]], list[Request]] = {}
    trained = 0

    def over() -> bool:
        return minutes is not None and clock.monotonic() - began > 60 * minutes

    def settle(requests: list[Request], rows: Sequence[dict[str, object]]) -> None:
        nonlocal queue, trained
        for request, row in zip(requests, rows, strict=True):
            store.add(request, row)
        trained += len(rows)
        for search in {id(owner[id(one)]): owner[id(one)] for one in requests}.values():
            if all(store.get(one) is not None for one in search.waiting):
                fresh = search.go_on(store)
                owner.update({id(one): search for one in search.waiting})
                queue = fresh + queue  # searches that have begun come first

    try:
        while (queue and not over()) or running:
            while pool and queue and len(running) < 2 * jobs and not over():
                lot = _lot(queue)
                running[pool.submit(train, lot)] = lot
            if pool:
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    settle(running.pop(future), future.result())
            else:
                lot = _lot(queue)
                settle(lot, train(lot))
            if clock.monotonic() - told > 30:
                told = clock.monotonic()
                left = sum(not one.done for one in searches)
                print(f"{trained} runs in {told - began:.0f} s, {left} searches open", flush=True)
    except KeyboardInterrupt:
        print("interrupted; run this again to continue", file=sys.stderr)
    finally:
        if pool:
            pool.shutdown(cancel_futures=True)
    print(f"{trained} runs in {clock.monotonic() - began:.0f} s", flush=True)
    return all(one.done for one in searches)


def _lot(queue: list[Request]) -> list[Request]:
    """Take from the queue the runs that can share waves with the first."""
    first = queue[0]
    alike = [one for one in queue if (one.cell.work, one.kind == "trial") == (first.cell.work, first.kind == "trial")]
    lot = alike[: first.cell.work.lot]
    taken = {id(one) for one in lot}
    queue[:] = [one for one in queue if id(one) not in taken]
    return lot


@dataclass
class Count:
    """How much there is to do."""

    runs: float = 0.0
    gradients: float = 0.0
    seconds: float = 0.0


def count(cell: Cell, names: Sequence[str], store: Store, per_gradient: float | None) -> Count:
    """Estimate how much there is to do; the exact number of trials is known only when a search has ended."""
    found, known = Count(), store.of(cell)
    trials = TRIALS if len(cell.work.trial_seeds) > 1 else 3.0 + cell.work.extensions / 3
    for name in names:
        updates = updates_in(cell, policies(cell)[name])
        mine = [row for (policy, kind, _, _), row in known.items() if policy == name and kind != "guess"]
        finals = sum(row["kind"] == "final" for row in mine)
        if finals >= len(cell.work.seeds):
            continue
        left = max(1.0, trials + len(cell.work.seeds) - len(mine))
        found.runs += left
        found.gradients += left * updates
    found.seconds = found.gradients * (per_gradient or 0.0)
    return found


def updates_in(cell: Cell, policy: Policy) -> float:
    """Return the mean number of updates within the budget in the long run."""
    return float(expected(cell.fleet, policy.plan, Scenario(Dispatcher(policy.dispatcher))).throughput * cell.time)


def timed(cell: Cell, policy: str, store: Store) -> float | None:
    """Return the seconds per gradient, from stored runs; if there are none, from the second of two short runs made now.

    None = timing this needs a GPU, and this machine has none.
    """
    rows = [row for row in store.of(cell).values() if row["kind"] == "trial"]
    if not rows and cell.work.device != "cpu" and not torch.cuda.is_available():
        return None
    if not rows:
        share = min(1.0, SAMPLE / updates_in(cell, policies(cell)[policy]))
        short = Cell(cell.work, cell.fleet_name, cell.partition, repr(cell.time * share))
        made = policies(cell)[policy]
        lot = [Request(short, policy, "trial", cell.work.start, seed, made) for seed in range(cell.work.lot)]
        train(lot)
        rows = train(lot)
    return sum(float(row["seconds"]) for row in rows) / sum(int(row["updates"]) for row in rows)
