"""A live run as a page of its own process watches it: its attributes are read, its files are tailed, nothing is locked.

The page has a thread of its own. What it reads here the loop may be changing, so everything is copied at once, and a
number may be one update older than another.
"""

import threading
from dataclasses import asdict

import numpy as np

from sojourn.experiments.observe import Known
from sojourn.experiments.watching import described, promised
from sojourn.live.controls import Controls
from sojourn.live.flying import waiting
from sojourn.live.journal import ROW
from sojourn.live.run import LiveRun, told_of
from sojourn.tails import LogTail, MetricsTail, RowTail, RunTails
from sojourn.watched import ENDED, PAUSED, RUNNING, STOPPED, Look, Promise, Speeds


class WatchedRun:
    """The run of this process."""

    def __init__(self, run: LiveRun, stop: threading.Event) -> None:
        self._run = run
        self.controls: Controls = run.loop.controls
        self.controls.stopping = stop
        rows, metrics, log = RowTail(run.journal.path, ROW), MetricsTail(run.metrics.path), LogTail(run.log.path)
        self._files = RunTails(rows, metrics, log)
        built = run.built
        given = built.setting.fleet if told_of(built).known else None
        policy = Known(built.setting.fleet, built.setting.plan, built.scenario, given)
        self.described = described(run.folder, True, asdict(built.config), policy)
        self._first = promised(given, policy.plan, policy.scenario)

    def look(self) -> Look:
        """Look at the run."""
        run, loop, state = self._run, self._run.loop, self._state()
        flying = [] if state == ENDED else list(loop.pending.values())
        with self._files.new(run.journal.rows) as (rows, metrics, log, anew):
            return Look(
                state,
                loop.now if loop.server.received or flying else 0.0,
                rows,
                np.array([one.name.client for one in flying], np.int64),
                np.array([not waiting(one) for one in flying], np.bool_),
                metrics,
                log,
                [Promise.of(one) for one in list(loop.plans)] or self._first,
                loop.chooser.present.copy(),
                {number: name for name, number in dict(loop.names).items()},
                self._speeds(),
                dict(loop.faults.counts),
                anew,
                self._files.more,
            )

    def _state(self) -> str:
        if (self._run.folder / "summary.json").exists():
            return ENDED
        if self.controls.stopping.is_set():
            return STOPPED
        return PAUSED if self.controls.paused else RUNNING

    def _speeds(self) -> Speeds | None:
        follower = self._run.loop.follower
        if follower is None:
            return None
        known = follower.speeds.known
        return Speeds(known.turnaround, *known.interval(), known.tasks)
