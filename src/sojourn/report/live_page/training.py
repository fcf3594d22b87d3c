"""The folder of a simulated run as a page watches it, while it trains and afterwards.

Its timing is simulated before it trains, so the trace is there from the beginning; the metrics say how far it has come.
What is shown is the fleet at the virtual time of the last evaluation.
"""

import time
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
from sojourn.tails import MetricsTail
from sojourn.trace import COLUMNS, IN_FLIGHT, Trace
from sojourn.watched import ENDED, KILLED, PAUSED, RUNNING, STOPPED, Look

ROW = np.dtype([(key, kind) for key, kind in COLUMNS.items()])
LARGEST = 2**28  # bytes of a trace that is read; of a larger one only the metrics are shown
RECENT = 10.0  # seconds since a file was written within which a run counts as running
NOBODY = np.zeros(0, np.int64)


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
        self._read_from: float | None = None
        self._anew = True  # until a look has come to its end
        config, policy = facts_of(self.folder).get("config") or {}, policy_of(self.folder)
        self._read_trace()
        clients = int(self._rows["client"].max(initial=-1)) + 1 if policy.fleet is None else None
        self.described = described(self.folder, False, config, policy, clients)
        self._plans = promised(policy.given, policy.plan, policy.scenario)

    def look(self) -> Look:
        """Look at the folder; after a look that failed, from the beginning."""
        state = self._state()
        anew, self._anew = self._read_trace() or self._anew, True
        if anew:
            self._metrics.rewind()
        metrics = self._metrics.rows()
        if anew := anew or self._metrics.anew:
            self._told, self._time = 0, 0.0
        if metrics:
            self._time, self._lost = metrics[-1]["time"], int(metrics[-1].get("lost", 0))
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
        )

    def _read_trace(self) -> bool:
        """Read the trace when it appears, which is at the end where the clock is online; return whether it replaces
        another one.
        """
        path = self.folder / "trace.parquet"
        if not path.exists() or path.stat().st_mtime == self._read_from:
            return False
        facts = path.stat()
        if facts.st_size <= LARGEST:
            trace = Trace.load(path)
            rows = np.zeros(len(trace), ROW)
            for key in COLUMNS:
                rows[key] = getattr(trace, key)
            self._rows = rows[np.argsort(rows["applied_at"], kind="stable")]  # tasks in flight at the end come last
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
