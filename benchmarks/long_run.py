"""A long summary in constant memory: each run is a separate process, whose peak memory is read at its end.

The peak is VmHWM of Linux: ru_maxrss would count the peak of the process that started this one, too.
"""

import subprocess
import sys
from pathlib import Path
from time import process_time

from figure import in_units

from sojourn import Fleet, Plan, measure

STEPS = (1_000_000, 100_000_000)
ENGINES = ("jump chain", "events")
HEAD = "| summary, n=10, C=100 | steps | time | per step | peak memory | growth |\n|---|---|---|---|---|---|"


def rows() -> list[str]:
    """Return the table: both engines, a short run and a long one."""
    lines = []
    for engine in ENGINES:
        short = None
        for steps in STEPS:
            seconds, peak = _apart(engine, steps)
            short = short or peak
            cells = (engine, f"{steps:,}", in_units(seconds), in_units(seconds / steps), _size(peak))
            lines.append("| " + " | ".join((*cells, _size(peak - short))) + " |")
    return lines


def _apart(engine: str, steps: int) -> tuple[float, float]:
    """Return seconds and peak kB of a run in a separate process."""
    command = [sys.executable, __file__, engine, str(steps)]
    seconds, peak = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(seconds), float(peak)


def _size(kilobytes: float) -> str:
    return f"{kilobytes / 1024:z.1f} MiB"


def _go(engine: str, steps: int) -> None:
    fleet = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))
    plan = Plan.uniform(fleet, concurrency=100)
    measure(fleet, plan, steps=1000, engine=engine)  # compile, if that is not done yet
    began = process_time()
    measure(fleet, plan, steps=steps, seed=1, engine=engine)
    seconds = process_time() - began
    status = Path("/proc/self/status").read_text().splitlines()
    print(seconds, *(line.split()[1] for line in status if line.startswith("VmHWM")))


if __name__ == "__main__":
    _go(sys.argv[1], int(sys.argv[2]))
