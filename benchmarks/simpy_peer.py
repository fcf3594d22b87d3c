"""The network in simpy, written in three ways: as in its manual, with stores, and with as few events as possible.

All three count a task's staleness by its group. Times are drawn with the standard library's generator, which costs a
small part of a step.
"""

from collections import deque
from math import log
from random import Random

import numpy as np
import simpy
from case import Case
from numpy.typing import NDArray

from sojourn import Law


class _Simpy:
    """What the three forms share: clients, draws and sums."""

    name = ""

    def __init__(self, case: Case, seed: int) -> None:
        self._throughput = case.throughput
        self._group = case.fleet.group_of_client.tolist()
        self._law = [_service(law, rate) for law, rate in zip(case.laws, case.rates, strict=True)]
        self._random = Random(seed)
        self._draw = self._random.expovariate if case.fleet.exponential else self._random.lognormvariate
        self._env = simpy.Environment()
        self._step = 0
        self._arrivals = [0] * case.fleet.groups
        self._staleness = [0] * case.fleet.groups
        self._build(case.queues(seed))
        self.advance(case.warmup)
        self._arrivals[:] = self._staleness[:] = [0] * case.fleet.groups

    def _build(self, queues: list[int]) -> None:
        raise NotImplementedError

    def advance(self, steps: int) -> int:
        """Continue for about `steps` steps; return the steps done."""
        before = self._step
        self._env.run(until=self._env.now + steps / self._throughput)
        return self._step - before

    def tally(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Updates and sum of their staleness by group, since the warm-up."""
        return np.array(self._arrivals, dtype=np.float64), np.array(self._staleness, dtype=np.float64)


def _service(law: Law, rate: float) -> tuple[float, ...]:
    """Return the generator's arguments for a service time of mean 1/rate."""
    sigma = law.parameter
    return (rate,) if sigma is None else (-log(rate) - sigma * sigma / 2, sigma)


class Resources(_Simpy):
    """A Resource for each client and a process for each task: the idiom of simpy's manual."""

    name = "simpy, resource per client, process per task"

    def _build(self, queues: list[int]) -> None:
        self._servers = [simpy.Resource(self._env) for _ in queues]
        for client, tasks in enumerate(queues):
            for _ in range(tasks):
                self._env.process(self._task(client))

    def _task(self, client: int):
        env, servers, group, law = self._env, self._servers, self._group, self._law
        arrivals, staleness, clients = self._arrivals, self._staleness, len(law)
        uniform, service = self._random.random, self._draw
        sent = 0
        while True:
            with servers[client].request() as turn:
                yield turn
                yield env.timeout(service(*law[client]))
            arrivals[group[client]] += 1
            staleness[group[client]] += self._step - sent
            self._step += 1
            sent = self._step
            client = int(uniform() * clients)


class Stores(_Simpy):
    """A Store and a process for each client; a task is the number of the step that sent it."""

    name = "simpy, store and process per client"

    def _build(self, queues: list[int]) -> None:
        self._inboxes = [simpy.Store(self._env) for _ in queues]
        for client, tasks in enumerate(queues):
            self._inboxes[client].items.extend([0] * tasks)
            self._env.process(self._client(client))

    def _client(self, me: int):
        env, inboxes, group, law = self._env, self._inboxes, self._group[me], self._law[me]
        arrivals, staleness, clients, mine = self._arrivals, self._staleness, len(self._law), inboxes[me]
        uniform, service = self._random.random, self._draw
        while True:
            sent = yield mine.get()
            yield env.timeout(service(*law))
            arrivals[group] += 1
            staleness[group] += self._step - sent
            self._step += 1
            inboxes[int(uniform() * clients)].put(self._step)


class BareEvents(_Simpy):
    """A plain deque and a process for each client, woken by an event when idle: one timeout per
    step, and little else.
    """

    name = "simpy, deque and process per client"

    def _build(self, queues: list[int]) -> None:
        self._queues = [deque([0] * tasks) for tasks in queues]
        self._idle: list[simpy.Event | None] = [None] * len(queues)
        for client in range(len(queues)):
            self._env.process(self._client(client))

    def _client(self, me: int):
        env, queues, idle, group, law = self._env, self._queues, self._idle, self._group[me], self._law[me]
        arrivals, staleness, clients, mine = self._arrivals, self._staleness, len(self._law), queues[me]
        uniform, service = self._random.random, self._draw
        while True:
            if not mine:
                idle[me] = env.event()
                yield idle[me]
            yield env.timeout(service(*law))
            arrivals[group] += 1
            staleness[group] += self._step - mine.popleft()
            self._step += 1
            client = int(uniform() * clients)
            queues[client].append(self._step)
            if idle[client] is not None:
                idle[client].succeed()
                idle[client] = None
