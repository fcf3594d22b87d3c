"""Controls: what people ask of a running server. They are plain flags, which the loop looks at between two events."""

import threading

from sojourn.errors import InvalidInput


class Controls:
    """What the loop is asked to do; set from any thread, done by the loop's own."""

    def __init__(self) -> None:
        self.paused = False
        """Whether no new tasks are to be sent."""
        self.planning = False
        """Whether the plan is to be worked out again."""
        self.stopping = threading.Event()
        """Set to stop the run; `hear` replaces it by the event of who runs the loop."""
        self.never_replans: str | None = (
            "this run keeps the policy that it was given; a run follows its fleet if it is given none, or is started "
            "with --replan 10min"
        )
        """Why the plan cannot be worked out again; None = it can."""

    def pause(self) -> None:
        """Send no new tasks; those in flight come back, and then the clock of the run stands still."""
        self.paused = True

    def go_on(self) -> None:
        """Send tasks again."""
        self.paused = False

    def replan(self) -> None:
        """Work out the plan again, now."""
        if self.never_replans is not None:
            raise InvalidInput(self.never_replans)
        self.planning = True

    def stop(self) -> None:
        """Stop as Ctrl-C does: the run can be resumed."""
        self.stopping.set()
