"""Small things that tests with processes need: a free port, patience, and whether a process is alive."""

import os
import random
import socket
import time
from contextlib import suppress
from pathlib import Path

GIVEN = Path("/proc/sys/net/ipv4/ip_local_port_range")  # the ports that the system gives to whoever asks for any
LOWEST = 10_000  # ports below belong to well-known services
TRIES = 100


def free_port():
    """A port that is free, and still is when it is used later: the system gives it to nobody who asks for any."""
    given = int(GIVEN.read_text().split()[0]) if GIVEN.exists() else 0
    ours = range(LOWEST, given) if given > LOWEST + TRIES else [0] * TRIES  # 0 = any
    for port in random.SystemRandom().sample(ours, TRIES):
        with suppress(OSError), socket.socket() as one:
            one.bind(("127.0.0.1", port))
            return one.getsockname()[1]
    raise AssertionError(f"there is no free port from {LOWEST} to {given}")


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
