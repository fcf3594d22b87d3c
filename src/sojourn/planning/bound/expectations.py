"""What a plan promises, and whether it owes its value to parking.

Parking: with every probability free, a bound that counts server steps is least where one slow client is sampled so
often that it holds nearly all tasks. Most updates then come from the others and are fresh, and the server hardly moves.
"""

import numpy as np

from sojourn.plan import Plan
from sojourn.planning.bound.objective import Objective, Prediction

HELD = 0.5  # of all tasks at one client
SLOWED = 0.5  # of the throughput of uniform sampling


def promises(prediction: Prediction) -> dict[str, object]:
    """What a plan promises, for its file."""
    scored, analysis = prediction.scored, prediction.analysis
    plain = {
        "value": scored.value,
        "bound": scored.bound,
        "steps": scored.steps,
        "time": scored.time,
        "energy": scored.energy,
        "free_step_size": scored.free_step_size,
        "largest_step_size": scored.largest_step_size,
        "throughput": analysis.throughput,
        "server_rate": analysis.server_rate,
    }
    numbers = {key: None if value is None or not np.isfinite(value) else float(value) for key, value in plain.items()}
    return {**numbers, "staleness": analysis.staleness().tolist(), "queue": analysis.queue.tolist()}


def parking(objective: Objective, prediction: Prediction) -> str | None:
    """Whether one client holds most tasks while throughput collapses: good for a count of steps, not for anyone."""
    analysis = prediction.analysis
    fleet, plan = analysis.fleet, analysis.plan
    worst = int(np.argmax(analysis.queue))
    held = float(analysis.queue[worst]) / plan.concurrency
    if held < HELD or fleet.clients < 3:
        return None
    uniform = objective.predict(fleet, Plan.uniform(fleet, plan.concurrency)).analysis.throughput
    if analysis.throughput > SLOWED * uniform:
        return None
    return (
        f"parking: one client of '{fleet.name[worst]}' is sampled with probability {plan.sampling[worst]:.3g} and "
        f"holds {100 * held:.0f}% of the tasks, so that the others see little staleness; throughput falls to "
        f"{analysis.throughput:.4g} from {uniform:.4g} with uniform sampling. A bound that counts steps rewards this; "
        "plan for time, or give equal clients equal probabilities, or set a floor"
    )
