"""Processes of the live benchmark: each does its work until told to end, and says how much CPU time it has used."""

import multiprocessing
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from time import process_time
from typing import Any

START = 120.0  # seconds that a process may take to start or to answer on a busy machine


class Control:
    """What a process is told: when to work, when to end. Its figures are read through it."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.gate, self.stop = threading.Event(), threading.Event()
        self.steps = 0
        """Updates that were applied; the server counts."""
        threading.Thread(target=self._listen, daemon=True).start()

    def ready(self, words: Any) -> None:
        """Say that the work can begin, or what came of it."""
        self._pipe.send(words)

    def _listen(self) -> None:
        try:
            while True:
                match self._pipe.recv():
                    case "go":
                        self.gate.set()
                    case "wait":
                        self.gate.clear()
                    case "read":
                        self._pipe.send((process_time(), self.steps))
                    case "end":
                        self.stop.set()
        except (EOFError, OSError):  # the process that started this one is gone
            self.stop.set()
        finally:
            self.gate.set()


class Process:
    """A process that has been started."""

    def __init__(self, work: Callable[..., None], *given: Any) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(
            target=_run, args=(theirs, work, given), daemon=True
        )
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """The number of the process."""
        assert self._process.pid is not None
        return self._process.pid

    def tell(self, words: str) -> None:
        """Tell the process something."""
        self._pipe.send(words)

    def hear(self) -> Any:
        """Return what the process says next."""
        if not self._pipe.poll(START):
            raise SystemExit("a process of the benchmark does not answer")
        return self._pipe.recv()

    def figures(self) -> tuple[float, int]:
        """Return the CPU seconds that the process has used, and the steps that it has counted."""
        self.tell("read")
        cpu, steps = self.hear()
        return cpu, steps

    def last(self) -> Any:
        """Return the last thing that the process says before it ends."""
        said = None
        while True:
            try:
                said = self.hear()
            except EOFError:
                return said

    def wait(self, seconds: float) -> None:
        """Wait until the process has ended by itself."""
        self._process.join(seconds)

    def end(self) -> None:
        """End the process."""
        try:
            self._pipe.send("end")
            self._process.join(10.0)
        except OSError:
            pass
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _run(pipe: Connection, work: Callable[..., None], given: tuple[Any, ...]) -> None:
    work(Control(pipe), *given)
