"""Small things that tests with processes need: a free port, patience, and whether a process is alive."""

import os
import socket
import time
from pathlib import Path


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def until(holds, seconds, what):
    """Wait until `holds()` is true, and return its value; fail after so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")


def alive(pid):
    """Whether a process runs, and is not only waiting to be buried."""
    try:
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (OSError, ProcessLookupError):
        return False
