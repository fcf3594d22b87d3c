"""The folder of a simulated run as a page watches it, while it trains and afterwards.

Its timing is simulated before it trains, so the trace is there from the beginning; the metrics say how far it has come.
What is shown is the fleet at the virtual time of the last evaluation. The trace is read at the first look, so that a
page that nobody opens costs nothing. Where the timing depends on what training
computes, the trace comes at the end; until then nothing but the metrics is known.
"""

import time
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.experiments.observe import policy_of
from sojourn.experiments.watching import described, promised
from sojourn.files import LOCK, no_links
from sojourn.folders import in_use
from sojourn.learning.run.run_config import facts_of
from sojourn.report.live_page.tasks import ROW, Tasks
from sojourn.report.live_page.training_controls import TrainingControls
from sojourn.tails import MetricsTail
from sojourn.watched import ENDED, KILLED, PAUSED, RUNNING, STOPPED, Described, Look

LARGEST = 2**28  # bytes of a trace that is read; of a larger one only the metrics are shown
RECENT = 10.0  # seconds since a file was written within which a run counts as running
NOBODY = np.zeros(0, np.int64)
NO_TRACE = "There is no trace yet. Queues, staleness and shares are shown once there is one, maybe at the end only."
LARGE = f"The trace is larger than {LARGEST // 2**20} MB, so queues, staleness and shares are not shown."


class WatchedTraining:
    """A simulated run by its folder; with controls if it trains in this process."""

    def __init__(self, folder: str | Path, controls: TrainingControls | None = None) -> None:
        self.folder, self.controls = Path(folder), controls
        no_links(self.folder)
        if not (self.folder / "config.json").exists():
            raise InvalidInput(f"{folder} holds no run; name the folder of sojourn train or of sojourn live")
        self._metrics = MetricsTail(self.folder / "metrics.csv")
        self._tasks = Tasks(np.zeros(0, ROW))
        self._time, self._received, self._lost = 0.0, 0, 0
        self._traced = False  # whether the tasks are known
        self._read_from: float | None = None
        self._anew = True  # until a look has come to its end
        self._config, self._policy = facts_of(self.folder).get("config") or {}, policy_of(self.folder)
        if self._policy.fleet is None:  # the trace says how many clients there are
            self._read_trace()
        self.described = self._describe()
        self._plans = promised(self._policy.given, self._policy.plan, self._policy.scenario)

    def look(self) -> Look:
        """Look at the folder; after a look that failed, from the beginning."""
        state = self._state()
        anew, self._anew = self._read_trace() or self._anew, True
        if self._policy.fleet is None and self.described.group.size != self._tasks.clients:
            anew, self.described = True, self._describe()
        if anew:
            self._metrics.rewind()
        metrics = self._metrics.rows()
        if anew := anew or self._metrics.anew:
            self._tasks.rewind()
            self._time, self._received, self._lost = 0.0, 0, 0
        if metrics:
            self._time = metrics[-1]["time"]
            self._received, self._lost = (_count(metrics[-1].get(key)) for key in ("received", "lost"))
        ended = self._tasks.ended(self._time)
        flying, began = (NOBODY, np.zeros(0, np.bool_)) if state == ENDED else self._flying()
        self._anew = False
        return Look(
            state,
            self._time,
            ended,
            flying,
            began,
            metrics,
            plans=self._plans,
            faults={"lost": self._lost} if self._lost else {},
            anew=anew,
            more=self._metrics.more,
            updates=None if self._traced else self._received,
            notes=() if self._traced else (NO_TRACE if self._read_from is None else LARGE,),
        )

    def _describe(self) -> Described:
        clients = self._tasks.clients if self._policy.fleet is None else None
        return described(self.folder, False, self._config, self._policy, clients)

    def _read_trace(self) -> bool:
        """Read the trace when it appears, which is at the end where the clock is online; return whether it replaces
        another one.
        """
        path = self.folder / "trace.parquet"
        if not path.exists() or path.stat().st_mtime == self._read_from:
            return False
        facts = path.stat()
        self._traced = facts.st_size <= LARGEST
        self._tasks = Tasks.of(path) if self._traced else Tasks(np.zeros(0, ROW))
        before, self._read_from = self._read_from, facts.st_mtime
        return before is not None

    def _flying(self) -> tuple[Any, Any]:
        """Return the client of each task in flight, and whether it is being served."""
        return self._tasks.flying(self._time)

    def _state(self) -> str:
        if (self.folder / "summary.json").exists():
            return ENDED
        if self.controls is not None:
            going = PAUSED if self.controls.paused else RUNNING
            return STOPPED if self.controls.stopping.is_set() else going
        if in_use(self.folder / LOCK):
            return RUNNING
        written = max(path.stat().st_mtime for path in self.folder.iterdir())
        if time.time() - written < RECENT and not (self.folder / "checkpoints").exists():
            return RUNNING
        return STOPPED if (self.folder / "checkpoints").exists() else KILLED


def _count(value: float | None) -> int:
    """Return a count of the metrics; 0 for one that is missing or no number."""
    return int(value) if value is not None and isfinite(value) else 0
