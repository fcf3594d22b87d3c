"""Callbacks of one's own, in one file: one that notes what it is told, one that fails, one that kills its process."""

import os
import signal

from sojourn.callbacks import Callback


class Noted(Callback):
    """Notes every call."""

    name = "noted"

    def __init__(self, every: int | None = None, stop_at: int | None = None) -> None:
        self.every, self.stop_at = every, stop_at
        self.begun, self.rows, self.updates, self.models, self.endings = [], [], [], [], []

    def begin(self, run):
        self.begun.append(run)

    def evaluated(self, row, model):
        self.rows.append(dict(row))

    def updated(self, received, model):
        self.updates.append(received)
        self.models.append(model())
        return "enough" if received == self.stop_at else None

    def end(self, ending):
        self.endings.append(ending)


class Failing(Callback):
    """Fails in one of its methods."""

    every = 10

    def __init__(self, method: str) -> None:
        self.name, self.calls = f"failing-{method}", 0

        def fail(*given):
            self.calls += 1
            raise OSError("no such luck")

        setattr(self, method, fail)


class Dies(Callback):
    """Kills its process at an evaluation."""

    name = "dies"

    def __init__(self, at: int) -> None:
        self.at = at

    def evaluated(self, row, model):
        if row["received"] >= self.at:
            os.kill(os.getpid(), signal.SIGKILL)
