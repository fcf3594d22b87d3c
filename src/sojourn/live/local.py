"""A whole federation on this machine: the processes of its clients, started and stopped with the server."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sojourn.errors import InvalidInput, SojournError
from sojourn.learning.run.config import TrainConfig
from sojourn.live.run import LiveRun
from sojourn.live.serve import names_of
from sojourn.live.settings import write_file

MOMENT = 5.0  # seconds for a process to end by itself


@contextmanager
def helped(run: LiveRun, processes: int, pace: bool) -> Iterator[Callable[[], None]]:
    """Run the clients of a live run in processes of their own during the block.

    Give a function that notes every process that has ended before the run has. It raises an error if tasks have not
    been sent yet, since the client may be awaited, and if no process is left.
    """
    if processes < 1:
        raise InvalidInput(f"processes must be at least 1, got {processes}")
    names = list(names_of(run.built.config))
    address = str(getattr(run.engine, "address", ""))
    started: list[subprocess.Popen[bytes]] = []
    with TemporaryDirectory(prefix="sojourn-live-") as folder:
        try:
            for number in range(min(processes, len(names))):
                path = Path(folder) / f"clients-{number}.toml"
                content: dict[str, Any] = {"server": address, "clients": names[number::processes], "holds": "part"}
                write_file(path, {**content, "paced": pace, "give_up": 60.0}, run_keys(run.built.config))
                started.append(_start(path, run.folder / f"clients-{number}.log"))
            yield _Looking(run, started).look
            _wait(started)
        finally:
            _end(started)


def run_keys(config: TrainConfig) -> dict[str, Any]:
    """Return the keys of a run as a client file has them, with paths that hold wherever the client starts."""
    found = {key: value for key, value in asdict(config).items() if value is not None}
    for key in ("fleet", "plan"):
        if key in found and Path(found[key]).exists():
            found[key] = str(Path(found[key]).resolve())
    return found


def _start(path: Path, log: Path) -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-m", "sojourn", "live", "client", str(path)]
    with log.open("ab") as file:
        # in a group of its own: Ctrl-C at a terminal is for the server, which waits for the clients
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=file, stderr=file, process_group=0)


class _Looking:
    """Looks which processes have ended before the run has."""

    def __init__(self, run: LiveRun, started: list["subprocess.Popen[bytes]"]) -> None:
        self._run, self._alive = run, dict(enumerate(started))

    def look(self) -> None:
        """Note the processes that have ended; raise an error if the run cannot begin, or go on, without them."""
        for number in [number for number, one in self._alive.items() if one.poll() is not None]:
            process, said = self._alive.pop(number), _last_line(self._run.folder / f"clients-{number}.log")
            self._run.note("process ended", {"process": number, "status": process.returncode, "said": said})
            if not self._alive:
                raise SojournError(f"the processes of the clients have ended: {said}")
            if self._run.loop.waiting:
                raise SojournError(f"process {number} of the clients has ended before the run began: {said}")


def _last_line(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "it says nothing"


def _wait(started: list["subprocess.Popen[bytes]"]) -> None:
    """Wait a moment for the processes to end by themselves, since the server has told them that the run has ended."""
    until = time.monotonic() + MOMENT
    for one in started:
        with suppress(subprocess.TimeoutExpired):
            one.wait(max(0.0, until - time.monotonic()))


def _end(started: list["subprocess.Popen[bytes]"]) -> None:
    """End the processes that are left; they are killed if it takes long, or if another Ctrl-C comes."""
    try:
        for one in started:
            one.terminate()
        _wait(started)
    finally:
        for one in started:
            one.kill()
            one.wait()
