"""Replace a fleet of very many distinct clients by a smaller one: clients that are nearly equal share a bin.

Bins are cut one after the other where the clients inside differ most in the logarithms of rate, link time, weight and
energy, which is all that the theory uses. A bin has the mean of its clients' times, so that the total capacity and link
time hardly change.
"""

import heapq
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sojourn.fleet import Fleet
from sojourn.planning.bound.communication import energy_of_task
from sojourn.planning.bound.objective import NetworkObjective, Objective, client_weights
from sojourn.types import Floats, Integers


@dataclass(frozen=True)
class Binning:
    """How far a plan made on bins can be trusted."""

    bins: int
    """Number of bins."""
    width: float
    """Largest ratio between two rates in one bin."""
    value: float
    """Value predicted with the bins."""
    true_value: float
    """Exact value of the same sampling on the fleet itself."""
    refined_value: float
    """Value after every client's probability was refined on the fleet itself."""

    @property
    def error(self) -> float:
        """Relative error of the prediction with the bins."""
        return abs(self.value / self.true_value - 1)


def into_bins(fleet: Fleet, objective: Objective, bins: int) -> Integers:
    """Return the bin of each group."""
    columns = [np.log(fleet.rate)]
    link = fleet.link_time
    if np.ptp(link) > 0:
        columns.append(np.log(1 / fleet.rate + link))
    if isinstance(objective, NetworkObjective):
        columns.append(np.log(client_weights(fleet, objective.weights)))
        if objective.score.needs_energy:
            columns.append(np.log(np.maximum(energy_of_task(fleet), 1e-12)))
    facts = np.column_stack([column for column in columns if np.ptp(column) > 0] or columns[:1])
    label = np.zeros(fleet.groups, dtype=np.int64)
    queue = [_cut(facts, np.arange(fleet.groups), 0)]
    while len(queue) < bins and queue[0][0] < 0:
        _, number, rows, axis = heapq.heappop(queue)
        order = rows[np.argsort(facts[rows, axis], kind="stable")]
        lower, upper = np.array_split(order, 2)
        label[upper] = len(queue) + 1
        heapq.heappush(queue, _cut(facts, lower, number))
        heapq.heappush(queue, _cut(facts, upper, len(queue)))
    return label


def _cut(facts: Floats, rows: Integers, number: int) -> tuple[float, int, Integers, int]:
    """Return a bin as an entry of the queue, in which the bin with the largest spread, weighted by clients, comes
    first.
    """
    spread = np.ptp(facts[rows], axis=0) * np.sqrt(rows.size)
    axis = int(np.argmax(spread))
    return -float(spread[axis]), number, rows, axis


def binned(fleet: Fleet, objective: Objective, label: Integers) -> tuple[Fleet, Objective]:
    """Return the fleet of bins, and the objective on it."""
    count = np.bincount(label, fleet.count)

    def mean(values: Floats) -> Floats:
        return np.asarray(np.bincount(label, fleet.count * values) / count)

    columns: dict[str, Any] = {
        key: 1 / np.maximum(mean(1 / getattr(fleet, key)), 1e-300)
        if key.endswith("rate")
        else mean(getattr(fleet, key))
        for key in ("rate", "uplink_rate", "downlink_rate", "data_size", "power", "uplink_power", "downlink_power")
    }
    for key in ("uplink_rate", "downlink_rate"):
        columns[key] = np.where(columns[key] > 1e290, np.inf, columns[key])
    names = tuple(f"bin-{number}" for number in range(count.size))
    smaller = Fleet(name=names, count=count.astype(np.int64), **columns)
    if isinstance(objective, NetworkObjective):
        return smaller, replace(objective, weights=mean(client_weights(fleet, objective.weights)))
    return smaller, objective


def width(fleet: Fleet, label: Integers) -> float:
    """Return the largest ratio between two rates in one bin."""
    low, high = np.full(label.max() + 1, np.inf), np.zeros(label.max() + 1)
    np.minimum.at(low, label, fleet.rate)
    np.maximum.at(high, label, fleet.rate)
    return float((high / low).max())
