"""From simulation to Trace: every task a row, in memory or written to a file piece by piece."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.fleet import Fleet
from sojourn.interrupts import noted
from sojourn.plan import Plan
from sojourn.scenario import Scenario
from sojourn.timing.simulate.runners import Runner, runner
from sojourn.timing.simulate.summary import Progress, check_run
from sojourn.trace import COLUMNS, Trace, TraceWriter
from sojourn.version import __version__

CHUNK = 1_000_000

Columns = Mapping[str, NDArray[Any]]


def simulate(
    fleet: Fleet,
    plan: Plan,
    steps: int,
    *,
    start: str = "stationary",
    seed: int = 0,
    scenario: Scenario | None = None,
    engine: str = "auto",
) -> Trace:
    """Simulate `steps` server steps and return every task, those still in flight last.

    >>> fleet = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))
    >>> trace = simulate(fleet, Plan.uniform(fleet, concurrency=20), steps=500, start="even", seed=3)
    >>> trace.metadata["origin"], trace.metadata["steps"], int(trace.staleness[0])
    ('simulated', 500, 0)
    """
    steps, seed = check_run(steps, seed)
    run = runner(fleet, plan, start=start, seed=seed, scenario=scenario, engine=engine)
    pieces = [*_pieces(run, steps), run.in_flight()]
    columns = {key: np.concatenate([piece[key] for piece in pieces]) for key in COLUMNS}
    return Trace(**columns, metadata=_facts(run, fleet, plan, start, seed, scenario, complete=True))


def record(
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
    """Simulate straight into a Parquet trace, a million rows at a time.

    On Ctrl-C the file is finished with what was done so far. Returns whether all steps were done.
    """
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
        writer.metadata = _facts(run, fleet, plan, start, seed, scenario, complete)
    return complete


def _pieces(run: Runner, steps: int, stop: Event | None = None) -> Iterator[Columns]:
    while run.steps < steps:
        yield run.rows(min(CHUNK, steps - run.steps), stop)


def _facts(
    run: Runner, fleet: Fleet, plan: Plan, start: str, seed: int, scenario: Scenario | None, complete: bool
) -> dict[str, Any]:
    return {
        "origin": "simulated",
        "engine": run.name,
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
