"""The folder of a simulated run as a page watches it, while it trains and afterwards.

Its timing is simulated before it trains, so the trace is there from the beginning; the metrics say how far it has come.
What is shown is the fleet at the virtual time of the last evaluation. Where the timing depends on what training
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
from sojourn.report.live_page.training_controls import TrainingControls
from sojourn.tails import MetricsTail, sound
from sojourn.trace import COLUMNS, IN_FLIGHT, Trace
from sojourn.watched import ENDED, KILLED, PAUSED, RUNNING, STOPPED, Described, Look

ROW = np.dtype([(key, kind) for key, kind in COLUMNS.items()])
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
        self._rows = np.zeros(0, ROW)  # of the trace, in the order in which tasks end
        self._told = 0  # how many of them were shown
        self._time, self._received, self._lost = 0.0, 0, 0
        self._traced = False  # whether the rows are known
        self._read_from: float | None = None
        self._anew = True  # until a look has come to its end
        self._config, self._policy = facts_of(self.folder).get("config") or {}, policy_of(self.folder)
        self._read_trace()
        self.described = self._describe()
        self._plans = promised(self._policy.given, self._policy.plan, self._policy.scenario)

    def look(self) -> Look:
        """Look at the folder; after a look that failed, from the beginning."""
        state = self._state()
        anew, self._anew = self._read_trace() or self._anew, True
        if self._policy.fleet is None and self.described.group.size != self._clients():
            anew, self.described = True, self._describe()
        if anew:
            self._metrics.rewind()
        metrics = self._metrics.rows()
        if anew := anew or self._metrics.anew:
            self._told, self._time, self._received, self._lost = 0, 0.0, 0, 0
        if metrics:
            self._time = metrics[-1]["time"]
            self._received, self._lost = (_count(metrics[-1].get(key)) for key in ("received", "lost"))
        ended = self._new()
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

    def _clients(self) -> int:
        return int(self._rows["client"].max(initial=-1)) + 1

    def _describe(self) -> Described:
        clients = self._clients() if self._policy.fleet is None else None
        return described(self.folder, False, self._config, self._policy, clients)

    def _read_trace(self) -> bool:
        """Read the trace when it appears, which is at the end where the clock is online; return whether it replaces
        another one.
        """
        path = self.folder / "trace.parquet"
        if not path.exists() or path.stat().st_mtime == self._read_from:
            return False
        facts = path.stat()
        rows, traced = np.zeros(0, ROW), facts.st_size <= LARGEST
        if traced:
            trace = Trace.load(path)
            rows = np.zeros(len(trace), ROW)
            for key in COLUMNS:
                rows[key] = getattr(trace, key)
            rows = rows[sound(rows) | ((rows["client"] >= 0) & (rows["fate"] == IN_FLIGHT))]
            rows = rows[np.argsort(rows["applied_at"], kind="stable")]  # tasks in flight at the end come last
        self._rows, self._traced = rows, traced
        before, self._read_from = self._read_from, facts.st_mtime
        return before is not None

    def _new(self) -> np.ndarray[Any, Any]:
        """Return the tasks that have ended since the last look."""
        until = int(np.searchsorted(self._rows["applied_at"], self._time, side="right"))
        found = self._rows[self._told : max(self._told, until)]
        self._told = max(self._told, until)
        return np.asarray(found[found["fate"] != IN_FLIGHT])

    def _flying(self) -> tuple[Any, Any]:
        """Return the client of each task in flight, and whether it is being served."""
        later = self._rows[self._told :]
        mine = later[later["dispatched_at"] <= self._time]
        return mine["client"].astype(np.int64), mine["started_at"] <= self._time

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
