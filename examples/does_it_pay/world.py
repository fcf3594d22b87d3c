"""The cells: combinations of a problem, a fleet, a partition and a budget.

HELD OUT cells were not looked at until the predictions for them were in docs/results/does-it-pay: two fleets, one
partition, one network. The others were used for development.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.stats import norm

from sojourn import Fleet

CLIENTS = 100
BUDGETS = {"short": 2000, "long": 8000}  # updates that the whole fleet could compute in the time if it never waited
POINTS = 25  # points of a curve


@dataclass(frozen=True)
class Work:
    """A problem: data, model and tasks, and how its step sizes are tuned."""

    name: str
    data: str
    model: str
    batch_size: int
    start: float  # the step size that tuning begins with
    device: str = "cpu"
    more: tuple[tuple[str, str], ...] = ()  # further keys of a run
    peek: int | None = None  # number of test images for a curve; None = all
    holdout: float = 0.2
    trial_seeds: tuple[int, ...] = (10_000, 10_001)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    extensions: int = 8
    lot: int = 1  # runs that share the waves of one process
    tuned_on: tuple[str, str] | None = (
        None  # fleet and partition whose step sizes all cells use; None = each cell its own
    )

    def keys(self) -> dict[str, object]:
        """Return the keys of a run."""
        facts = {"data": self.data, "model": self.model, "batch_size": self.batch_size, "device": self.device}
        return facts | dict(self.more)


_GPU: dict[str, Any] = {"device": "auto", "lot": 32}
WORKS = {
    one.name: one
    for one in (
        Work("digits", "digits", "mlp(hidden=32)", 8, 0.1, lot=8),
        Work(
            *("fashion", "fashion-mnist", "mlp(hidden=32)", 8, 0.0125), more=(("execution", "waves"),), peek=2000, lot=8
        ),
        Work("cnn", "fashion-mnist", "cnn", 8, 0.0125, peek=2000, trial_seeds=(10_000,), **_GPU),
        Work(
            *("cifar", "cifar10", "resnet20(norm=batch)", 64, 0.025),
            more=(("augment", "crop-flip"), ("precision", "bf16")),
            peek=2000,
            holdout=0.1,
            trial_seeds=(10_000,),
            seeds=(0, 1, 2),
            tuned_on=("cifar 50:50", "random"),
            extensions=1,
            **_GPU,
        ),
        Work(
            *("cifar-1400", "cifar10", "resnet20(norm=batch)", 128, 0.05),
            more=(("augment", "crop-flip"), ("precision", "bf16")),
            peek=2000,
            holdout=0.1,
            trial_seeds=(10_000,),
            seeds=(0, 1, 2),
            extensions=1,
            **_GPU,
        ),
    )
}


@dataclass(frozen=True)
class Cell:
    """A problem on a fleet, with a partition and a budget."""

    work: Work
    fleet_name: str
    partition: str
    """`random`, `by speed` or `shards`."""
    budget: str
    """`short`, `long`, or a virtual time."""

    @property
    def name(self) -> str:
        """Its name, and that of the file of its runs."""
        return f"{self.work.name} {self.fleet_name} {self.partition} {self.budget}".replace(" ", "-").replace(":", "to")

    @property
    def tuned_in(self) -> "Cell":
        """The cell whose step sizes it uses: itself, or the one that its problem names."""
        if self.work.tuned_on is None:
            return self
        return replace(self, fleet_name=self.work.tuned_on[0], partition=self.work.tuned_on[1])

    @cached_property
    def fleet(self) -> Fleet:
        """Clients in order of speed, the fastest first."""
        return fleet_of(self.fleet_name)

    @property
    def time(self) -> float:
        """Simulated time of a run, in seconds."""
        if self.budget not in BUDGETS:
            return float(self.budget)
        return float(BUDGETS[self.budget] / (self.fleet.count * self.fleet.rate).sum())

    @property
    def held_out(self) -> bool:
        """Whether its results were not to be seen before its predictions were made."""
        return self.fleet_name in ("20:1", "lognormal 2") or self.partition == "shards" or self.work.name == "cnn"

    @property
    def skewed(self) -> bool:
        """Whether slow clients hold classes that fast clients lack."""
        return self.partition == "by speed" and bool(np.ptp(self.fleet.rate) > 0)

    def dealt(self) -> str:
        """The partition as a key of a run."""
        many = 7 if self.work.data == "cifar10" else 2
        if self.partition == "shards":
            return "shards(k=3)"
        if self.partition == "random":
            return f"classes(k={many})"
        slow = {"one slow group": 10, "cifar 90:10": 10, "lognormal 1": 30, "lognormal 2": 30, "cifar lognormal": 30}
        clients = slow.get(self.fleet_name, 50)
        return f"partitions:by_speed(k={many if many == 2 else 4}, slow={clients}, alone={2 if clients == 10 else 3})"


@lru_cache
def fleet_of(name: str) -> Fleet:
    """Return a fleet of a hundred clients with exponential service; lognormal fleets have a hundred speeds, by
    quantiles.
    """
    two_speeds = {"8:1": (50, 8.0, 1.0), "20:1": (50, 20.0, 1.0), "one slow group": (90, 8.0, 0.25)}
    if name in two_speeds:
        many, fast, slow = two_speeds[name]
        return Fleet.of(fast=(many, fast), slow=(CLIENTS - many, slow))
    if name == "homogeneous":
        return Fleet.of(all=(CLIENTS, 1.0))
    if name == "cifar 50:50":  # the paper's
        return Fleet.of(fast=(50, 1 / 2), slow=(50, 1 / 16))
    total = 50 / 2 + 50 / 16
    if name == "cifar 90:10":
        unit = total / (90 * 8 + 10)
        return Fleet.of(fast=(90, 8 * unit), slow=(10, unit))
    sigma = {"lognormal 1": 1.0, "lognormal 2": 2.0, "cifar lognormal": 1.0}[name]
    slices = (np.arange(CLIENTS) + 0.5) / CLIENTS
    speeds = np.exp(sigma * norm.ppf(slices))[::-1]
    if name == "cifar lognormal":
        speeds = speeds * total / speeds.sum()
    return Fleet.of(**{f"c{number:02d}": (1, float(speed)) for number, speed in enumerate(speeds)})


FLEETS = ("8:1", "20:1", "lognormal 1", "lognormal 2", "one slow group", "homogeneous")


def cells() -> list[Cell]:
    """Return all cells."""
    found = []
    for work in ("digits", "fashion"):
        dealt = [(fleet, way) for fleet in FLEETS for way in ("random", "by speed")] + [("8:1", "shards")]
        found += [Cell(WORKS[work], fleet, way, budget) for budget in BUDGETS for fleet, way in dealt]
    for fleet in ("8:1", "lognormal 1", "one slow group"):
        found += [Cell(WORKS["cnn"], fleet, way, "short") for way in ("random", "by speed")]
    for fleet in ("cifar 50:50", "cifar lognormal", "cifar 90:10"):
        found += [Cell(WORKS["cifar"], fleet, way, "500") for way in ("random", "by speed")]
    return [*found, Cell(WORKS["cifar-1400"], "cifar 50:50", "random", "1400")]


def chosen(words: list[str]) -> list[Cell]:
    """Return the cells that match all words: names of problems, `development`, `held-out`, parts of names."""
    made = cells()
    for word in words:
        if word in WORKS:
            made = [cell for cell in made if cell.work.name == word]
        elif word in ("development", "held-out"):
            made = [cell for cell in made if cell.held_out == (word == "held-out")]
        else:
            made = [cell for cell in made if word in cell.name]
    return made
