"""Note Ctrl-C instead of raising an exception, for work that must not stop in the middle."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def noted(twice: bool) -> Iterator[threading.Event]:
    """Give an event that Ctrl-C sets; with `twice`, a second Ctrl-C interrupts at once. Outside the main thread it is
    never set.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def note(number: int, frame: FrameType | None) -> None:
        if twice and stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
