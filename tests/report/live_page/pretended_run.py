"""A pretended run that a page can watch: a test says what happens in it."""

import threading

import numpy as np

from sojourn.trace import APPLIED, COLUMNS
from sojourn.watched import Described, Look, Promise

ROW = np.dtype([(key, kind) for key, kind in COLUMNS.items()])


class Asked:
    """Controls that remember what they were asked."""

    def __init__(self, never_replans=None):
        self.paused, self.never_replans, self.asked = False, never_replans, []

    def pause(self):
        self.paused = True
        self.asked.append("pause")

    def go_on(self):
        self.paused = False
        self.asked.append("go_on")

    def replan(self):
        self.asked.append("replan")

    def stop(self):
        self.asked.append("stop")


class Run:
    """Two groups, `fast` with three clients and `slow` with two; it applies one update per look, unless told more."""

    def __init__(self, live=True, controls=None, names=("fast", "slow"), sizes=(3, 2)):
        group = np.repeat(np.arange(len(sizes)), sizes)
        clients = tuple(f"{names[one]}-{place}" for place, one in enumerate(group))
        self.described = Described("run", live, names, group, clients, np.full(group.size, 0.5))
        self.controls, self.time, self.step = controls, 0.0, 0
        self.state, self.log, self.names, self.metrics, self.anew = "running", [], {}, [], False
        self.plans = [Promise(0.0, 0, "start", group.size, 10.0, [0.75, 0.25], [3.0, 7.0])]
        self.rows, self.flying, self.updates, self.notes = [], [0, 0, 3], None, ()
        self._lock = threading.Lock()  # a page looks in a thread of its own

    def happens(self, seconds, updates=1, client=0, staleness=4):
        """Let time pass; updates are applied evenly in it."""
        with self._lock:
            for number in range(updates):
                at = self.time + (number + 1) * seconds / updates
                row = (client, 0.2, at - 1.0, at - 0.5, at - 0.1, at, self.step - staleness, self.step, 1, APPLIED)
                self.rows.append(row)
                self.step += 1
            self.time += seconds
        return self

    def look(self):
        with self._lock:
            return self._look()

    def _look(self):
        rows, self.rows = np.array(self.rows, ROW), []
        metrics, self.metrics = self.metrics, []
        log, self.log = self.log, []
        anew, self.anew = self.anew, False
        flying = np.array(self.flying, np.int64)
        return Look(
            self.state,
            self.time,
            rows,
            flying,
            np.array([True, False, True])[: len(flying)],
            metrics,
            log,
            self.plans,
            np.arange(self.described.group.size) != 4,
            self.names,
            anew=anew,
            updates=self.updates,
            notes=self.notes,
        )
