"""The cells of the field: a problem, a fleet and a way to deal the data to clients."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.stats import norm

from sojourn import Fleet
from sojourn.errors import InvalidInput

CLIENTS = 40
GRADIENTS = 8000  # gradients that the whole fleet could compute in the time of a run if nobody ever waited
CIFAR_TIME = 300.0


@dataclass(frozen=True)
class Work:
    """A problem: its data and model, and how much is trained."""

    data: str
    model: str
    batch_size: int
    step_sizes: tuple[float, ...]
    larger: tuple[float, ...] = ()
    """Step sizes that some entries try as well."""
    seeds: int = 5
    clients: int = CLIENTS
    holdout: float = 0.2
    extensions: int = 0
    more: tuple[tuple[str, Any], ...] = ()
    local_steps: int = 4
    """Local steps of methods whose clients send models."""

    def keys(self) -> dict[str, Any]:
        """Return the keys of a run that all methods share."""
        facts = {"data": self.data, "model": self.model, "batch_size": self.batch_size}
        return {**facts, "schedule": "linear(end=budget)", "device": "cpu", **dict(self.more)}


WORKS = {
    "quadratic": Work(
        *("apart:points", "apart:Nearest", 4, (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)),
        more=(("execution", "one-by-one"),),
    ),
    "digits": Work(
        *("digits", "mlp(hidden=32)", 8, (0.01, 0.03, 0.1, 0.3, 1.0)),
        larger=(3.0, 10.0),
        more=(("execution", "waves"),),
    ),
    "fashion": Work(
        *("fashion-mnist", "mlp(hidden=32)", 8, (0.003, 0.01, 0.03, 0.1, 0.3)),
        larger=(1.0, 3.0),
        more=(("execution", "waves"),),
    ),
    "cifar": Work(
        *("cifar10", "resnet20(norm=batch)", 64, (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)),
        seeds=3,
        clients=100,
        holdout=0.1,
        more=(("augment", "crop-flip"), ("precision", "bf16"), ("device", "auto"), ("evaluate_every", 10**9)),
    ),
}
DIFFERENT = {"random": "classes(k={k})", "by speed": "by-speed(k={own}, slow={slow}, alone=3)"}
ALIKE = "iid"
DEALT = {**DIFFERENT, ALIKE: "iid"}
FLEETS = ("mild", "10:1", "heavy-tailed")


@dataclass(frozen=True)
class Cell:
    """A problem on a fleet, dealt in one way."""

    problem: str
    fleet_name: str
    dealt: str
    """`random`, `by speed`, `iid` (data is alike at all clients), or `natural`: the quadratic problem, whose slow
    clients have optima of their own.
    """
    gradients: int | None = None
    """Gradients that the fleet could compute in the time of a run; None = as many as in the field."""

    @property
    def name(self) -> str:
        """Its name."""
        return f"{self.problem} {self.fleet_name} {self.dealt}".replace(", ", "-").replace(" ", "-").replace(":", "to")

    @property
    def folder(self) -> str:
        """The name of its folder: runs of another length do not lie among those of the field."""
        return self.name if self.gradients is None else f"{self.name}, {self.gradients} gradients"

    @property
    def work(self) -> Work:
        """Its problem."""
        return WORKS[self.problem]

    @cached_property
    def fleet(self) -> Fleet:
        """Its fleet, the fastest clients first."""
        return fleet_of(self.fleet_name, self.work.clients)

    @property
    def time(self) -> float:
        """Simulated time of a run in seconds."""
        if self.problem == "cifar" and self.gradients is None:
            return CIFAR_TIME
        return float((self.gradients or GRADIENTS) / (self.fleet.count * self.fleet.rate).sum())

    @property
    def law(self) -> str | None:
        """The law of service of all clients; None = that of the fleet, exponential."""
        return "lognormal(sigma=1.5)" if "heavy-tailed" in self.fleet_name else None

    def keys(self) -> dict[str, Any]:
        """Return the keys of a run that all methods share."""
        law = {} if self.law is None else {"law": self.law}
        return {**self.work.keys(), **law, "partition": self.partition(), "time": self.time}

    def partition(self) -> str:
        """Return the partition as a key of a run."""
        many = 7 if self.problem == "cifar" else 2
        own = 4 if self.problem == "cifar" else 2
        if self.dealt == "natural":
            return "natural"
        return DEALT[self.dealt].format(k=many, own=own, slow=self.work.clients // 2)


@lru_cache
def fleet_of(name: str, clients: int) -> Fleet:
    """Return a fleet of so many clients.

    mild          half of the clients are twice as fast as the others; exponential service
    10:1          half are ten times as fast; exponential service
    heavy-tailed  speeds are lognormal over the clients (sigma 1), and service times lognormal (sigma 1.5)
    """
    half = clients // 2
    if name == "mild":
        return Fleet.of(fast=(half, 2.0), slow=(clients - half, 1.0))
    if name == "10:1":
        return Fleet.of(fast=(half, 10.0), slow=(clients - half, 1.0))
    if name == "paper":
        return Fleet.of(fast=(half, 1 / 2), slow=(clients - half, 1 / 16))
    speeds = np.exp(norm.ppf((np.arange(clients) + 0.5) / clients))[::-1]
    if name == "paper, heavy-tailed":
        speeds = speeds * (half / 2 + half / 16) / speeds.sum()
    return Fleet.of(**{f"c{number:02d}": (1, float(speed)) for number, speed in enumerate(speeds)})


def cells() -> list[Cell]:
    """Return all cells, the quick ones first."""
    found = [Cell("quadratic", fleet, "natural") for fleet in FLEETS]
    found += [Cell(work, fleet, dealt) for work in ("digits", "fashion") for fleet in FLEETS for dealt in DIFFERENT]
    found += [Cell("digits", fleet, ALIKE) for fleet in FLEETS]
    return [*found, *(Cell("cifar", fleet, "by speed") for fleet in ("paper", "paper, heavy-tailed"))]


def chosen(words: list[str], gradients: int | None = None) -> list[Cell]:
    """Return the cells whose name has all these words, with runs of another length if one is given."""
    if gradients is not None and gradients < 1:
        raise InvalidInput(f"gradients must be at least 1, got {gradients}")
    found = [replace(cell, gradients=gradients) for cell in cells() if all(word in cell.name for word in words)]
    if not found:
        names = ", ".join(cell.name for cell in cells())
        raise InvalidInput(f"words must all be part of the name of a cell, got {' '.join(words)}; the cells: {names}")
    return found
