"""Simulate a run and record it as a Trace, one row per task, in memory or piece by piece in a file."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.durations import seconds
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.interrupts import noted
from sojourn.machine_memory import check_memory
from sojourn.plan import Plan, plan_for
from sojourn.scenario import Scenario
from sojourn.timing.simulate.runners import Runner, runner
from sojourn.timing.simulate.summary import Progress, check_run
from sojourn.trace import COLUMNS, Trace, TraceWriter
from sojourn.version import __version__

CHUNK = 1_000_000
LITTLE = 500  # a run until a time is simulated at most this many steps beyond its end
LOOK = 200  # pieces between two checks of the memory, if their number is not known
A_TASK = 130  # bytes of memory that a row takes while the pieces are put together

Columns = Mapping[str, NDArray[Any]]


def simulate(
    fleet: Fleet,
    plan: Plan,
    steps: int | None = None,
    *,
    time: float | str | None = None,
    start: str = "stationary",
    seed: int = 0,
    scenario: Scenario | None = None,
    engine: str = "auto",
    task_bytes: int = A_TASK,
) -> Trace:
    """Simulate a run of `steps` server steps, or until `time`, and return its Trace.

    - `steps`: number of updates that the server applies
    - `time`: instead of steps, a time in seconds or as `"90s"`, `"1h"`; the run goes on until an update is applied
      after it, and a little longer
    - `start`: where the tasks are at first: `stationary` (drawn from the long run), `even`, `routed` or `one-each`
    - `seed`: seed of all random streams; the same seed gives the same trace
    - `scenario`: dispatcher, local steps, server time and availability; by default the paper's network
    - `engine`: `auto`, `jump chain`, or `events` (service times keyed by client and task)
    - `task_bytes`: memory per task that the caller will need; a run that does not fit into the memory raises an error

    The trace has one row per task; tasks that are still in flight at the end come last.

    >>> fleet = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))
    >>> trace = simulate(fleet, Plan.uniform(fleet, concurrency=20), steps=500, start="even", seed=3)
    >>> trace.metadata["origin"], trace.metadata["steps"], int(trace.staleness[0])
    ('simulated', 500, 0)
    """
    if (steps is None) == (time is None):
        raise InvalidInput(f"simulate needs steps or a time, one of them, got {steps} and {time}; give one")
    until = None if time is None else seconds(time)
    if until is not None and not 0 < until < math.inf:
        raise InvalidInput(f"time must be positive and finite, got {time}")
    plan = plan_for(fleet, plan)
    length, seed = check_run(1 if steps is None else steps, seed)
    run = runner(fleet, plan, start=start, seed=seed, scenario=scenario, engine=engine)
    if until is None:
        check_memory(task_bytes * length, f"a run of {length} steps", "give fewer steps")
    rows = _pieces(run, length) if until is None else _pieces_until(run, until, task_bytes)
    pieces = [*rows, run.in_flight()]
    columns = {key: np.concatenate([piece[key] for piece in pieces]) for key in COLUMNS}
    return Trace(**columns, metadata=facts_of(run, fleet, plan, start, seed, scenario, complete=True))


def simulate_to_file(
    fleet: Fleet,
    plan: Plan,
    steps: int,
    path: str | Path,
    *,
    start: str = "stationary",
    seed: int = 0,
    scenario: Scenario | None = None,
    engine: str = "auto",
    progress: Progress | None = None,
) -> bool:
    """Simulate into a trace file (Parquet), a million rows at a time; return whether all steps were done.

    The arguments are those of `simulate`; `progress` is called with (steps done, steps). After Ctrl-C the file holds
    what was done so far.
    """
    plan = plan_for(fleet, plan)
    steps, seed = check_run(steps, seed)
    run = runner(fleet, plan, start=start, seed=seed, scenario=scenario, engine=engine)
    with TraceWriter(path, {}) as writer, noted(twice=False) as stop:
        for piece in _pieces(run, steps, stop):
            writer.write(piece)
            if progress is not None:
                progress(run.steps, steps)
            if stop.is_set():
                break
        complete = run.steps >= steps
        writer.write(run.in_flight())
        writer.metadata = facts_of(run, fleet, plan, start, seed, scenario, complete)
    return complete


def _pieces(run: Runner, steps: int, stop: Event | None = None) -> Iterator[Columns]:
    while run.steps < steps:
        yield run.rows(min(CHUNK, steps - run.steps), stop)


def _pieces_until(run: Runner, time: float, task_bytes: int) -> Iterator[Columns]:
    """Yield some steps at a time until one is later than `time`; since their number is not known, check the memory."""
    number, last = 0, -math.inf
    while not last > time:
        if number % LOOK == 0:
            check_memory(task_bytes * run.steps, f"a run until time {time}", "give it less time")
        piece = run.rows(LITTLE)
        number, last = number + 1, float(np.nanmax(piece["applied_at"]))
        yield piece


def facts_of(
    run: Any, fleet: Fleet, plan: Plan, start: str, seed: int, scenario: Scenario | None, complete: bool
) -> dict[str, Any]:
    """Return the metadata of a trace; `run` has the name of its engine, what `prob` holds, and its steps."""
    return {
        "origin": "simulated",
        "engine": run.name,
        "prob": run.prob,
        **(scenario or Scenario()).facts,
        "steps": run.steps,
        "complete": complete,
        "clients": fleet.clients,
        "concurrency": plan.concurrency,
        "start": start,
        "seed": seed,
        "fleet_hash": fleet.hash,
        "plan_hash": plan.hash,
        "sojourn": __version__,
    }
