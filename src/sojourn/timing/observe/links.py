"""Links as a trace shows them: what a task spends on its way to its client.

Seen are the tasks that were sent to a client without other tasks (see `sojourn.timing.fit.downlinks`). If a later task
overtakes one of them, as for exponential times what was seen counts and the task does not. To the mean is added what
the server itself takes between the end of one task and the dispatch of the next one, when no client works on the task
either.
"""

from dataclasses import replace

import numpy as np

from sojourn.fleet import Fleet
from sojourn.timing.fit.observed import Observed

NOISE = 1e-9  # part of a service time below which a delay is rounding


def with_downlinks(fleet: Fleet, seen: Observed, concurrency: int) -> tuple[Fleet, float]:
    """Return the fleet with the downlinks that were seen, and the mean number of tasks in flight.

    A group that never got a task while idle keeps the downlink of the given fleet.
    """
    flight, lasted = seen.flight, seen.last - seen.since
    held = flight.held(seen.last)
    pause = max(0.0, concurrency * lasted - held) / max(1, flight.ended)
    with np.errstate(invalid="ignore", divide="ignore"):
        delay = np.where(flight.arrived > 0, flight.on_way / flight.arrived, 1 / fleet.downlink_rate) + pause
        least = np.maximum(NOISE / fleet.rate, 8 * np.finfo(np.float64).eps * abs(seen.last))
        rate = np.where(delay > least, 1 / delay, np.inf)
    return replace(fleet, downlink_rate=rate), held / lasted if lasted > 0 else float(concurrency)
