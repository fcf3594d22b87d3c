"""The network in ciw: C customers arrive at time 0, in one batch per client, and are routed for ever.

ciw writes a record for every service. Staleness is read off the records afterwards, outside the timed part: how many
services ended between a record's arrival and its end.
"""

from random import random

import ciw
import numpy as np
from case import Case
from numpy.typing import NDArray

_NEVER = float("inf")


class Ciw:
    """A ciw simulation that continues from where it stopped."""

    name = "ciw, closed network"

    def __init__(self, case: Case, seed: int) -> None:
        self._case = case
        ciw.seed(seed)
        self._simulation = ciw.Simulation(_network(case, case.queues(seed)))
        self._now = 0.0
        self.advance(case.warmup)
        self._since = self._now

    def advance(self, steps: int) -> int:
        """Continue for about `steps` steps; return the steps done."""
        self._now += steps / self._case.throughput
        self._simulation.simulate_until_max_time(self._now)
        return steps  # in the mean; the tally counts them exactly

    def tally(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Updates and sum of their staleness by group, since the warm-up."""
        records = self._simulation.get_all_records(only=["service"])
        client = np.array([record.node for record in records]) - 1
        sent = np.array([record.arrival_date for record in records])
        back = np.array([record.exit_date for record in records])
        ends = np.sort(back)
        staleness = np.searchsorted(ends, back) - np.searchsorted(ends, sent, side="right")
        counted = back > self._since
        group = self._case.fleet.group_of_client[client[counted]]
        return np.bincount(group).astype(np.float64), np.bincount(group, weights=staleness[counted])


class _Anywhere(ciw.routing.NodeRouting):
    """To a client drawn uniformly; cheaper than ciw's table of probabilities, which is searched from its start."""

    def next_node(self, ind: ciw.Individual) -> ciw.Node:
        clients = self.simulation.transitive_nodes
        return clients[int(random() * len(clients))]


def _network(case: Case, queues: list[int]) -> ciw.network.Network:
    return ciw.create_network(
        arrival_distributions=[ciw.dists.Sequential([0.0, _NEVER]) for _ in queues],
        batching_distributions=[ciw.dists.Sequential([tasks]) for tasks in queues],
        service_distributions=[ciw.dists.Exponential(rate) for rate in case.rates],
        number_of_servers=[1 for _ in queues],
        routing=ciw.routing.NetworkRouting([_Anywhere() for _ in queues]),
    )
