"""How much memory there is, asked before much is taken: a process that takes too much is killed without a word."""

import math
import os
from pathlib import Path

from sojourn.errors import InvalidInput

_GROUP = Path("/sys/fs/cgroup")


def available() -> float:
    """Bytes that may still be taken, by this machine and by the control group; infinite where nobody says."""
    return min(_of_machine(), _of_group())


def check_memory(needed: float, what: str, way_out: str) -> None:
    """Refuse what needs more memory than there is."""
    there = available()
    if needed > there:
        raise InvalidInput(f"{what} needs about {_size(needed)} of memory, {_size(there)} are there; {way_out}")


def _of_machine() -> float:
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        facts = {key: value for key, _, value in (line.partition(":") for line in lines)}
        return 1024.0 * int(facts["MemAvailable"].split()[0])
    except (OSError, ValueError, LookupError):
        return _in_all()


def _in_all() -> float:
    """What is built in, where nobody says how much of it is free."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return math.inf


def _of_group() -> float:
    """What a container's limit leaves; caches, which would be given back, are not counted as taken."""
    try:
        most, taken = (int((_GROUP / name).read_text("ascii")) for name in ("memory.max", "memory.current"))
        lines = (_GROUP / "memory.stat").read_text("ascii").splitlines()
        caches = {key: int(value) for key, value in (line.split() for line in lines)}.get("inactive_file", 0)
        return float(max(0, most - taken + caches))
    except (OSError, ValueError):  # no such limit is the word `max`
        return math.inf


def _size(many: float) -> str:
    """Bytes as a person reads them.

    >>> _size(6.5e13), _size(2.5e6)
    ('65,000 GB', '0.0025 GB')
    """
    gigabytes = many / 1e9
    return f"{gigabytes:,.0f} GB" if 10 <= gigabytes < 1e15 else f"{gigabytes:.2g} GB"
