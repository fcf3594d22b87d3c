"""What is tried: two datasets, four fleets, four ways to sample, four numbers of tasks."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sojourn import Fleet, Plan

CLIENTS = 100
UPDATES = 8000  # that the whole fleet could compute in the time that is given, if it never waited
TASKS = (10, 30, 100, 300)
POWERS = {"slow favoured": -0.5, "uniform": 0.0, "root of speed": 0.5, "speed": 1.0}  # p_i ~ speed to this power


@dataclass(frozen=True)
class Work:
    """A dataset, and what is learned from it."""

    data: str
    model: str
    batch_size: int
    target: str
    step_size: float  # at which constants are measured: the one that uniform sampling with a task a client is tuned to

    def keys(self) -> dict[str, object]:
        """For a run."""
        return {
            "data": self.data,
            "model": self.model,
            "batch_size": self.batch_size,
            "partition": "classes(k=2)",
            "device": "cpu",
        }


WORK = {
    "digits": Work("digits", "mlp(hidden=32)", 8, "accuracy=0.9", 0.03),
    "fashion-mnist": Work("fashion-mnist", "mlp(hidden=32)", 32, "accuracy=0.75", 0.009),
}


def fleets() -> dict[str, Fleet]:
    """A hundred clients each; the lognormal one has a hundred speeds, the middles of equal slices of the law."""
    slices = (np.arange(CLIENTS) + 0.5) / CLIENTS
    speeds = np.exp(_normal_quantiles(slices))
    lognormal = {f"c{number:02d}": (1, float(speed)) for number, speed in enumerate(speeds)}
    return {
        "90 at 8, 10 at 1": Fleet.of(fast=(90, 8.0), slow=(10, 1.0)),
        "50 at 8, 50 at 1": Fleet.of(fast=(50, 8.0), slow=(50, 1.0)),
        "lognormal": Fleet.of(**lognormal),
        "homogeneous": Fleet.of(all=(CLIENTS, 1.0)),
    }


def _normal_quantiles(levels: np.ndarray) -> np.ndarray:
    from scipy.stats import norm

    return np.asarray(norm.ppf(levels))


def time_of(fleet: Fleet) -> float:
    """The virtual time of a run."""
    return float(UPDATES / (fleet.count * fleet.rate).sum())


def plans(fleet: Fleet) -> dict[tuple[str, int], Plan]:
    """Every way to sample with every number of tasks; where speeds are equal there is but one way."""
    same = bool(np.ptp(fleet.rate) == 0)
    ways = {"uniform": 0.0} if same else POWERS
    return {
        (way, tasks): Plan.weighted(fleet, fleet.rate**power, tasks) for way, power in ways.items() for tasks in TASKS
    }


def saved(plan: Plan, folder: Path, name: str) -> str:
    """The plan as a file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name.replace(' ', '-')}.json"
    plan.save(path)
    return str(path)
