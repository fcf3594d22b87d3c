"""Online: the timeline of a run whose timing depends on the model, so that no trace exists before it ends.

A clock computes the timing task by task. What happens is noted: the local steps that the algorithm set, with which the
clock can be run again to where a checkpoint was taken, and every task, which makes the trace of the run.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.clock import Clock, Steps, Task
from sojourn.learning.replay.timeline import Ended, Live, Name
from sojourn.trace import APPLIED, COLUMNS, LOST, Trace

_NOTED = ("client", "prob", "dispatched_at", "started_at", "finished_at", "applied_at", "dispatched_step")


class Noting(Clock):
    """A clock that notes what happens, and can be told what was decided before."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ended: list[Task] = []
        """The tasks that have ended, in order."""
        self.decided: list[int] = []
        """Local steps of every task that was sent after one ended."""
        self.known: list[int] = []
        """Decisions that are made already, the next one last."""

    @property
    def step(self) -> int:
        """Updates applied so far."""
        return self._clock.step

    def started_at(self, slot: int) -> float:
        """When the client began to serve the task in this slot."""
        return self._clock.started_at(slot)

    def arrive(self) -> Task:
        """Note the next task that ends."""
        task = self._clock.arrive()
        self.ended.append(task)
        return task

    def send(self, client: int | None = None, work: int | Steps | None = None) -> int:
        """Dispatch the next task, and note its local steps."""
        chosen = self._clock.send(client, self.known.pop() if self.known else work)
        self.decided.append(self._clock.sent_work)
        return chosen

    @property
    def sent_work(self) -> int:
        """Local steps of the task that was sent last."""
        return self._clock.sent_work

    def in_flight(self) -> Mapping[str, NDArray[Any]]:
        """Return the tasks that have not ended, as columns of a Trace."""
        return self._clock.in_flight()


class Online:
    """A timeline that is computed as the run goes on, until a time or for ever.

    `expected` is about how many updates the run will have.
    """

    def __init__(
        self, clock: Clock, queues: NDArray[np.int64], facts: Mapping[str, Any], expected: int, until: float = inf
    ) -> None:
        self._noting = Noting(clock)
        self._live = Live(self._noting, queues)
        self._facts, self._until = dict(facts), until
        self.expected = expected
        self.over = False

    @property
    def timed(self) -> bool:
        """Whether the run ends at a time, so that its number of updates is not known before."""
        return self._until < inf

    @property
    def decided(self) -> tuple[int, ...]:
        """The local steps that were decided so far, task by task."""
        return tuple(self._noting.decided)

    def leaving(self, steps: Steps | None = None) -> list[Name]:
        """Return the tasks that are sent with the present model."""
        return self._live.leaving(steps)

    def next(self) -> Ended | None:
        """Return the next task that ends; None = the time is over."""
        if self.over:
            return None
        task = self._live.next()
        if task is not None and task.time > self._until:
            self.over = True
            self._noting.ended.pop()
            return None
        return task

    def ahead(self, name: Name, in_turn: bool = False) -> Ended | None:
        """Return None: the future is not known."""
        return None

    def skip(self, ended: int, decided: Sequence[int] = ()) -> None:
        """Run the clock to where a run was, with the decisions that it had made."""
        self._noting.known = list(decided)[::-1]
        self._live.skip(ended)

    def trace(self) -> Trace:
        """Return the trace of what has happened so far."""
        tasks, flying = self._noting.ended, self._noting.in_flight()
        ended: dict[str, Any] = {
            key: [getattr(task, key) for task in tasks] for key in (*_NOTED, "applied_step", "work")
        }
        ended["fate"] = [APPLIED if task.applied else LOST for task in tasks]
        columns = {
            key: np.concatenate([np.asarray(ended[key], dtype=kind), np.asarray(flying[key], dtype=kind)])
            for key, kind in COLUMNS.items()
        }
        return Trace(**columns, metadata={**self._facts, "steps": int(sum(task.applied for task in tasks))})
