"""From simulation to Trace: every task a row, in memory or written to a file piece by piece."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.simulation import jump_chain
from sojourn.simulation.start import place
from sojourn.simulation.streams import START, keys
from sojourn.simulation.summary import Progress, check_run
from sojourn.trace import APPLIED, COLUMNS, IN_FLIGHT, Trace, TraceWriter

CHUNK = 1_000_000

Columns = dict[str, NDArray[Any]]


def simulate(fleet: Fleet, plan: Plan, steps: int, *, start: str = "stationary", seed: int = 0) -> Trace:
    """Simulate `steps` server steps and return every task, those still in flight last.

    >>> fleet = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))
    >>> trace = simulate(fleet, Plan.uniform(fleet, concurrency=20), steps=500, start="even", seed=3)
    >>> trace.metadata["origin"], trace.metadata["steps"], int(trace.staleness[0])
    ('simulated', 500, 0)
    """
    recording = Recording(fleet, plan, start, seed)
    pieces = [*recording.pieces(steps), recording.in_flight()]
    columns = {key: np.concatenate([piece[key] for piece in pieces]) for key in COLUMNS}
    return Trace(**columns, metadata=recording.metadata(complete=True))


def record(
    fleet: Fleet,
    plan: Plan,
    steps: int,
    path: str | Path,
    *,
    start: str = "stationary",
    seed: int = 0,
    progress: Progress | None = None,
) -> bool:
    """Simulate straight into a Parquet trace, a million rows at a time.

    On Ctrl-C the file is finished with what was done so far. Returns whether all steps were done.
    """
    check_run(steps, seed)
    recording = Recording(fleet, plan, start, seed)
    complete = False
    with TraceWriter(path, {}) as writer:
        try:
            for piece in recording.pieces(steps):
                writer.write(piece)
                if progress is not None:
                    progress(recording.steps, steps)
            complete = True
        except KeyboardInterrupt:
            pass
        writer.write(recording.in_flight())
        writer.metadata = recording.metadata(complete)
    return complete


class Recording:
    """A simulated run that hands out its tasks as columns."""

    def __init__(self, fleet: Fleet, plan: Plan, start: str, seed: int) -> None:
        check_run(1, seed)
        self._fleet, self._plan, self._start, self._seed = fleet, plan, start, seed
        self._net = jump_chain.network(fleet, plan)
        mine = keys(seed)
        queues = place(start, fleet, plan, np.random.default_rng(int(mine[START])))
        self._run = jump_chain.state(self._net, queues, mine)

    @property
    def steps(self) -> int:
        """Updates applied so far."""
        return int(self._run.step[0])

    def pieces(self, steps: int) -> Iterator[Columns]:
        """The applied tasks of the next `steps` steps, in order of application."""
        check_run(steps, self._seed)
        sums = jump_chain.tally(self._fleet.groups, 2, 1)
        stop = self.steps + steps
        while self.steps < stop:
            begin = self.steps
            size = min(CHUNK, stop - begin)
            out = jump_chain.rows(size)
            jump_chain.advance(self._net, self._run, sums, out, size)
            yield {
                "client": out.client.astype(np.int32),
                "prob": self._plan.sampling[self._net.group[out.client]],
                "dispatched_at": out.dispatched_at,
                "started_at": out.started_at,
                "finished_at": out.applied_at,
                "applied_at": out.applied_at,
                "dispatched_step": out.dispatched_step,
                "applied_step": np.arange(begin, begin + size, dtype=np.int64),
                "work": np.ones(size, dtype=np.int32),
                "fate": np.full(size, APPLIED, dtype=np.int8),
            }

    def in_flight(self) -> Columns:
        """The tasks that have not come back, client by client in the order of their queues."""
        run = self._run
        owner, place_in_queue, slots = jump_chain.waiting_tasks(run)
        nan = np.full(owner.size, np.nan)
        return {
            "client": owner.astype(np.int32),
            "prob": self._plan.sampling[self._net.group[owner]],
            "dispatched_at": run.dispatched_at[slots],
            "started_at": np.where(place_in_queue == 0, run.begun[owner], np.nan),
            "finished_at": nan,
            "applied_at": nan,
            "dispatched_step": run.dispatched_step[slots],
            "applied_step": np.full(owner.size, -1, dtype=np.int64),
            "work": np.zeros(owner.size, dtype=np.int32),
            "fate": np.full(owner.size, IN_FLIGHT, dtype=np.int8),
        }

    def metadata(self, complete: bool) -> dict[str, Any]:
        """Facts about the whole."""
        from sojourn import __version__

        return {
            "origin": "simulated",
            "engine": "jump chain",
            "steps": self.steps,
            "complete": complete,
            "clients": self._fleet.clients,
            "concurrency": self._plan.concurrency,
            "start": self._start,
            "seed": self._seed,
            "fleet_hash": self._fleet.hash,
            "plan_hash": self._plan.hash,
            "sojourn": __version__,
        }
