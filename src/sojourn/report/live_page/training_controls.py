"""Controls of simulated training: it waits between two pieces of a few updates, or stops with a checkpoint."""

import threading

from sojourn.errors import InvalidInput

MOMENT = 0.1  # seconds between two looks whether it may go on


class TrainingControls:
    """What training is asked to do; set from any thread, done by the thread that trains."""

    never_replans = "simulated training keeps its plan to its end"

    def __init__(self, stopping: threading.Event) -> None:
        self.stopping = stopping
        """The event that stops the training, as Ctrl-C does."""
        self.paused = False
        """Whether training is to wait."""

    def pause(self) -> None:
        """Let training wait; its virtual clock stands still."""
        self.paused = True

    def go_on(self) -> None:
        """Let it train again."""
        self.paused = False

    def replan(self) -> None:
        """Refuse: the timing of a simulated run is known before it trains."""
        raise InvalidInput(self.never_replans)

    def stop(self) -> None:
        """Stop as Ctrl-C does: the run can be resumed."""
        self.stopping.set()

    def wait(self) -> None:
        """Return when training may go on, or is to stop; called between two pieces."""
        while self.paused and not self.stopping.wait(MOMENT):
            pass
