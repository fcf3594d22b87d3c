"""A pretended engine: clients on a clock of its own, so that a live loop runs in no time and can be killed anywhere."""

import heapq
from collections.abc import Callable, Iterable
from itertools import count

import torch

from sojourn.live.engine import Arrived, Event, Joined, Left, Offer, Pulled, Rejected, TaskName
from sojourn.live.worker import Task, Worker

Times = Callable[[int, int], float]


class Federation:
    """The clients and their clock, which outlive the servers that they work for."""

    def __init__(self, worker: Worker, times: Times, clients: Iterable[int]) -> None:
        self.worker, self.times, self.clients = worker, times, list(clients)
        self.clock = 0.0
        self.kept: dict[TaskName, Arrived] = {}  # computed, and not acknowledged
        self.serving: dict[int, tuple[float, Offer]] = {}  # by client: when it will be done
        self.acknowledged: list[TaskName] = []
        self.refused: list[tuple[TaskName, str]] = []
        self.gap = 0.0  # seconds between two updates that are sent again


class Pretended:
    """An engine over such clients: one task at a time each, first come first served."""

    def __init__(self, federation: Federation) -> None:
        self.federation, self._number = federation, count()
        self._events: list[tuple[float, int, Event]] = []
        self._queues: dict[int, list[Offer]] = {client: [] for client in federation.clients}
        self.expelled: list[int] = []
        self._heard: set[TaskName] = set()  # updates of which their clients know what became of them
        for client in federation.clients:
            held = [name for name in federation.kept if name.client == client]
            if client in federation.serving:
                held.append(federation.serving[client][1].name)
            self.happen(0.0, Joined(client, tuple(held)))
        for place, update in enumerate(federation.kept.values()):
            self.happen(place * federation.gap, update._replace(at=federation.clock))
        for client, (until, offer) in list(federation.serving.items()):
            self._finish(client, offer, until)

    def happen(self, after: float, event: Event) -> None:
        heapq.heappush(self._events, (self.federation.clock + after, next(self._number), event))

    def now(self) -> float:
        return self.federation.clock

    def offer(self, offer: Offer) -> None:
        self._queues[offer.name.client].append(offer)
        self._begin(offer.name.client)

    def withdraw(self, name: TaskName) -> None:
        queue = self._queues[name.client]
        queue[:] = [one for one in queue if one.name != name]

    def receive(self, timeout: float) -> Event | None:
        clock = self.federation.clock
        if not self._events or self._events[0][0] > clock + timeout:
            self.federation.clock = clock + max(timeout, 1e-6)
            return None
        at, _, event = heapq.heappop(self._events)
        self.federation.clock = max(clock, at)
        if isinstance(event, Arrived):
            serving = self.federation.serving.get(event.name.client)
            if serving is not None and serving[1].name == event.name:
                del self.federation.serving[event.name.client]
                self._begin(event.name.client)
            if event.name in self._heard:
                return None  # its client does not send it
            self.federation.kept[event.name] = event
        return event

    def acknowledge(self, names: list[TaskName]) -> None:
        for name in names:
            self.federation.kept.pop(name, None)
            self.federation.acknowledged.append(name)
            self._heard.add(name)

    def refuse(self, name: TaskName, reason: str) -> None:
        self.federation.kept.pop(name, None)
        self.federation.refused.append((name, reason))
        self._heard.add(name)

    def expel(self, client: int, reason: str) -> None:
        self.expelled.append(client)

    def stop(self, ended: bool) -> None:
        self._events.clear()

    def leave(self, client: int) -> None:
        """The client dies: what it holds is gone."""
        self.federation.serving.pop(client, None)
        for name in [one for one in self.federation.kept if one.client == client]:
            del self.federation.kept[name]
        self._events = [one for one in self._events if getattr(one[2], "name", (None,))[0] != client]
        heapq.heapify(self._events)
        self.happen(0.0, Left(client, "killed"))

    def _begin(self, client: int) -> None:
        queue = self._queues[client]
        if client in self.federation.serving or not queue:
            return
        offer = queue.pop(0)
        until = self.federation.clock + self.federation.times(client, offer.name.nth)
        self.federation.serving[client] = (until, offer)
        self.happen(0.0, Pulled(offer.name, self.federation.clock))
        self._finish(client, offer, until)

    def _finish(self, client: int, offer: Offer, until: float) -> None:
        name, federation = offer.name, self.federation
        task = Task(
            client, name.nth, offer.step, offer.params, offer.stats, offer.step_size, offer.steps, offer.version
        )
        took = federation.times(client, name.nth)
        update = Arrived(name, federation.worker.compute(task), took, took, until)
        self.happen(max(0.0, until - federation.clock), update)


class Checked(Pretended):
    """An engine that refuses updates whose numbers are not finite, as real ones do."""

    def receive(self, timeout: float) -> Event | None:
        event = super().receive(timeout)
        if not isinstance(event, Arrived):
            return event
        finite = all(bool(torch.isfinite(one).all()) for one in (event.update.vector, event.update.loss))
        return event if finite else Rejected(event.name.client, event.name, "an update must have finite numbers only")
