"""How much memory is free, checked before much is used: the system kills a process that takes too much without a
message.
"""

import math
import os
from pathlib import Path

from sojourn.errors import InvalidInput

_GROUP = Path("/sys/fs/cgroup")


def available() -> float:
    """Return the bytes that are still free on this machine and in the control group; infinite where the system does not
    say.
    """
    return min(_of_machine(), _of_group())


def check_memory(needed: float, what: str, way_out: str) -> None:
    """Raise an error if `needed` bytes are more than what is free."""
    there = available()
    if needed > there:
        raise InvalidInput(f"{what} needs about {size(needed)} of memory, {size(there)} are free; {way_out}")


def _of_machine() -> float:
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        facts = {key: value for key, _, value in (line.partition(":") for line in lines)}
        return 1024.0 * int(facts["MemAvailable"].split()[0])
    except (OSError, ValueError, LookupError):
        return _in_all()


def _in_all() -> float:
    """Return the installed memory, for systems that do not say how much of it is free."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return math.inf


def _of_group() -> float:
    """Return what a container's limit leaves; caches do not count as used, since the system frees them on demand."""
    try:
        most, taken = (int((_GROUP / name).read_text("ascii")) for name in ("memory.max", "memory.current"))
        lines = (_GROUP / "memory.stat").read_text("ascii").splitlines()
        caches = {key: int(value) for key, value in (line.split() for line in lines)}.get("inactive_file", 0)
        return float(max(0, most - taken + caches))
    except (OSError, ValueError):  # a group without a limit says `max`
        return math.inf


def size(many: float) -> str:
    """Return a number of bytes as text for a person.

    >>> size(6.5e13), size(2.5e6)
    ('65,000 GB', '0.0025 GB')
    """
    gigabytes = many / 1e9
    return f"{gigabytes:,.0f} GB" if 10 <= gigabytes < 1e15 else f"{gigabytes:.2g} GB"
