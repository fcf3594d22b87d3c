"""Ctrl-C that is noted instead of raised, for work that must not stop in the middle; and SIGTERM, noted or raised."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def noted(twice: bool, term: bool = False) -> Iterator[threading.Event]:
    """Give an event that Ctrl-C sets, and SIGTERM with `term`; with `twice`, a second one interrupts at once. Outside
    the main thread it is never set.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def note(number: int, frame: FrameType | None) -> None:
        if twice and stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    kinds = (signal.SIGINT, signal.SIGTERM) if term else (signal.SIGINT,)
    before = [signal.signal(kind, note) for kind in kinds]
    try:
        yield stop
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            signal.signal(kind, handler)


@contextmanager
def cleaned_up() -> Iterator[None]:
    """Let SIGTERM raise SystemExit during the block, so that what it has set up is removed; the status is 143, as
    without. Outside the main thread, and in a program that has its own way with SIGTERM, nothing changes.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
