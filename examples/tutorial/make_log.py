"""A log of training tasks as a server would keep it: 40 devices, one morning, a row per task.

    python examples/tutorial/make_log.py > examples/tutorial/log.csv

24 phones take about 12 seconds for a task and 16 tablets about 90; each device is a little faster or slower than its
kind. A few tasks failed and a few never came back. The seed is fixed: the file in the repository is what this prints.
"""

from datetime import datetime, timedelta

import numpy as np

KINDS = (("phone", 24, 12.0), ("tablet", 16, 90.0))  # name, devices, mean seconds per task
BEGIN = datetime(2026, 3, 2, 8, 0, 0)
SECONDS = 1200


def rows(seed: int = 7) -> list[tuple[str, datetime, datetime | None, str]]:
    """Device, start, end (None = it never came back) and status of each task, in the order of their starts."""
    rng = np.random.default_rng(seed)
    made: list[tuple[str, datetime, datetime | None, str]] = []
    for kind, devices, mean in KINDS:
        for number in range(1, devices + 1):
            own = mean * rng.uniform(0.93, 1.07)
            clock = rng.uniform(0, mean)
            while clock < SECONDS:
                duration = rng.gamma(2.0, own / 2.0)
                fate = rng.uniform()
                status = "failed" if fate < 0.02 else "" if fate < 0.03 else "ok"
                start = BEGIN + timedelta(seconds=clock)
                end = None if status == "" else start + timedelta(seconds=duration)
                made.append((f"{kind}-{number:02d}", start, end, status))
                clock += duration + rng.exponential(mean)  # it waits for the next task
    return sorted(made, key=lambda row: row[1])


def main() -> None:
    """Print the log as CSV."""
    print("device,start,end,status")
    for device, start, end, status in rows():
        times = (time.isoformat(timespec="milliseconds") if time else "" for time in (start, end))
        print(device, *times, status, sep=",")


if __name__ == "__main__":
    main()
