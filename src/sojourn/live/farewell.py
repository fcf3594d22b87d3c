"""Farewell: tell the clients of a finished run that it has ended.

A server says so itself when its run ends. If it is killed at that very moment, or a client is cut off just then, that
client waits for a server that never comes back. A finished run that is resumed tells it.
"""

import threading
import time
from pathlib import Path

from sojourn.learning.replay.local import Local
from sojourn.live.engine import Work
from sojourn.live.settings import ServerFile
from sojourn.trace import scan

SECONDS = 10.0  # that clients have to ask; they do so at least once per second
LOOK = 0.1  # seconds between two looks at who has asked
NOTHING = Work(0, 0, Local(), 0, "shuffled", prefetch=False)


def finished(folder: str | Path) -> bool:
    """Whether a folder holds a live run that has ended."""
    return (Path(folder) / "summary.json").exists() and (Path(folder) / "rows.bin").exists()


def say_farewell(file: ServerFile, stop: threading.Event, seconds: float = SECONDS) -> list[str]:
    """Serve at the address of a finished run, and tell whoever asks that it has ended; return their names.

    It takes `seconds`, or less if all clients of the run have asked.
    """
    from sojourn.live.engines.grpc.server import GrpcEngine
    from sojourn.live.serve import keys_of

    keys, registry = keys_of(file)
    known = set(next(scan(Path(file.out) / "trace.parquet", 1)).metadata.get("names", {}))
    engine = GrpcEngine(file.address, NOTHING, names={}, keys=keys, registry=registry, ended=True)
    until = time.monotonic() + seconds
    while time.monotonic() < until and known - engine.told and not stop.is_set():
        time.sleep(LOOK)
    told = sorted(engine.told)
    engine.stop(True)
    return told
