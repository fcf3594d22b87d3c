"""RayEngine: carries tasks to actors and their updates back.

Every client has a queue here. It hands its tasks over in order, one at a time (two where a client prefetches), to the
actor that has it; the actor serves the tasks of all its clients one after the other. What an artificial service time
asks for is waited for here, after the work, so that the clients of one actor wait side by side.

If an actor dies, its clients leave, and come back when another one is there in its place. Nothing outlives the server:
clients keep no updates, and a server that is started again sends its tasks anew.
"""

import heapq
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import inf, isfinite
from typing import NamedTuple

import torch

from sojourn.errors import SojournError
from sojourn.learning.replay.local import Update
from sojourn.live.engine import Arrived, Event, Joined, Left, Offer, Pulled, Rejected, TaskName, Work
from sojourn.live.engines.ray.crew import Crew, Said
from sojourn.live.engines.ray.errand import Result, tensor_of

DEATHS = 3  # of an actor in a row, before it had begun, that end the run


class Handed(NamedTuple):
    """A task that an actor has."""

    offer: Offer
    """The task."""
    at: float
    """When it was handed over."""


@dataclass(eq=False)
class Client:
    """One client."""

    actor: int
    """Number of its actor."""
    queue: dict[TaskName, Offer] = field(default_factory=dict)
    """Tasks that its actor does not have yet, in order."""
    handed: dict[TaskName, Handed] = field(default_factory=dict)
    """Tasks that its actor has, and those whose service is not over."""
    free_at: float = -inf
    """When the service of its last task is over."""
    expelled: str = ""
    """Why it is admitted no more; "" = it is."""


@dataclass(eq=False)
class Actor:
    """One actor, as the engine sees it."""

    clients: list[int]
    """Numbers of its clients."""
    life: int = 0
    """How often it has been started."""
    ready: bool = False
    """Whether it has begun and is not known to be dead."""
    deaths: int = 0
    """How often in a row it died before it had begun."""
    turned_at: float = -inf
    """When it could turn to its next task: when it had last sent a result."""


class RayEngine:
    """The Ray engine, an `Engine`, over a crew of actors; `spread` says which clients each actor has."""

    forgets = True
    """Tasks of an earlier server never come back: its actors have ended with it."""

    def __init__(
        self,
        crew: Crew,
        work: Work,
        spread: Sequence[Sequence[int]],
        names: Mapping[str, int] | None = None,
        close: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`close` is called once, after the crew has been stopped."""
        self._crew, self._work, self._clock, self._close = crew, work, clock, close
        self.names = dict(names or {})
        """Number of each client by name."""
        self._most = 2 if work.prefetch else 1
        self._actors = [Actor(list(clients)) for clients in spread]
        self._clients = {client: Client(number) for number, clients in enumerate(spread) for client in clients}
        self._events: deque[Event] = deque()
        self._serving: list[tuple[float, int, TaskName, Result]] = []  # a heap: service that is not over
        self._number = count()
        self._stopped = False
        for number in range(len(self._actors)):
            self._start(number)

    def now(self) -> float:
        """Return the engine's clock in seconds."""
        return self._clock()

    def offer(self, offer: Offer) -> None:
        """Put a task into its client's queue."""
        self._clients[offer.name.client].queue[offer.name] = offer
        self._hand_over(offer.name.client)

    def withdraw(self, name: TaskName) -> None:
        """Forget a task, unless its actor has it already; then its update still becomes an event."""
        self._clients[name.client].queue.pop(name, None)

    def receive(self, timeout: float) -> Event | None:
        """Return the next event; wait at most `timeout` seconds for it; None = nothing yet."""
        until = self._clock() + timeout
        while not self._events:
            now = self._clock()
            if self._serving and self._serving[0][0] <= now:
                self._end_service(now)
                continue
            due = self._serving[0][0] if self._serving else inf
            said = self._crew.hear(min(until, due) - now)
            if said is not None:
                self._note(said)
            elif self._clock() >= until:
                return None
        return self._events.popleft()

    def acknowledge(self, names: list[TaskName]) -> None:
        """Nothing is kept by clients, so nobody has to know."""

    def refuse(self, name: TaskName, reason: str) -> None:
        """Nothing is kept by clients, so nobody has to know."""

    def expel(self, client: int, reason: str) -> None:
        """Give a client no more tasks; an error if none is left."""
        gone = self._clients[client]
        gone.expelled = reason
        gone.queue.clear()
        if all(one.expelled for one in self._clients.values()):
            raise SojournError(f"every client has been expelled; the last because {reason}")

    def stop(self, ended: bool = True) -> None:
        """Stop; the actors end, whether the run has ended or not."""
        if not self._stopped:
            self._stopped = True
            try:
                self._crew.stop()
            finally:
                self._close()

    # to the actors

    def _start(self, number: int) -> None:
        actor = self._actors[number]
        actor.ready, actor.life = False, self._crew.start(number)

    def _hand_over(self, number: int) -> None:
        client = self._clients[number]
        while client.queue and len(client.handed) < self._most and self._actors[client.actor].ready:
            name = next(iter(client.queue))
            offer, at = client.queue.pop(name), self._clock()
            client.handed[name] = Handed(offer, at)
            self._crew.call(client.actor, offer)
            self._events.append(Pulled(name, at))

    # from the actors

    def _note(self, said: Said) -> None:
        actor = self._actors[said.actor]
        if said.life != actor.life:
            return  # of an actor whose place another one has taken
        if said.died:
            self._died(said)
        elif said.name is None:
            self._began(said)
        elif said.result is None:
            self._clients[said.name.client].handed.pop(said.name, None)
            self._events.append(Rejected(said.name.client, said.name, f"its work failed: {said.wrong}"))
            self._hand_over(said.name.client)
        else:
            self._did(said.name, said.result, said.at)

    def _began(self, said: Said) -> None:
        if said.wrong:
            raise SojournError(f"clients on Ray cannot begin: {said.wrong}")
        actor = self._actors[said.actor]
        actor.ready, actor.deaths, actor.turned_at = True, 0, said.at
        present = [one for one in actor.clients if not self._clients[one].expelled]
        self._events.extend(Joined(client, ()) for client in present)
        for client in present:
            self._hand_over(client)

    def _died(self, said: Said) -> None:
        """Let the clients of a dead actor leave, with what they hold, and start another in its place."""
        actor = self._actors[said.actor]
        if actor.ready:
            self._serving = [one for one in self._serving if one[2].client not in actor.clients]
            heapq.heapify(self._serving)
            for number in actor.clients:
                client = self._clients[number]
                client.handed.clear()
                client.free_at = -inf
                if not client.expelled:
                    self._events.append(Left(number, f"its process died: {said.wrong}"))
        else:
            actor.deaths += 1
            if actor.deaths >= DEATHS:
                raise SojournError(f"an actor died {DEATHS} times before it had begun: {said.wrong}")
        self._start(said.actor)

    def _did(self, name: TaskName, result: Result, at: float) -> None:
        """An actor has done a task; the service is over now, or when an artificial service time is."""
        client = self._clients[name.client]
        actor, handed = self._actors[client.actor], client.handed[name]
        began = min(max(handed.at, actor.turned_at), at - result.seconds)
        actor.turned_at = at
        due = max(began, client.free_at) + max(result.seconds, result.least)
        if result.least and due > at:
            client.free_at = due
            heapq.heappush(self._serving, (due, next(self._number), name, result))
        else:
            self._arrive(name, result, began, at)

    def _end_service(self, now: float) -> None:
        due, _, name, result = heapq.heappop(self._serving)
        service = max(result.seconds, result.least)
        self._arrive(name, result._replace(seconds=service), due - service, now)

    def _arrive(self, name: TaskName, result: Result, began: float, at: float) -> None:
        client = self._clients[name.client]
        handed = client.handed.pop(name)
        if not client.expelled:
            self._events.append(self._checked(handed, result, began, at))
            self._hand_over(name.client)

    def _checked(self, handed: Handed, result: Result, began: float, at: float) -> Event:
        """Return the event for an update: it has arrived, or breaks a rule."""
        offer = handed.offer
        wrong = self._broken_rule(result, offer)
        if wrong:
            return Rejected(offer.name.client, offer.name, wrong)
        held = max(0.0, began - handed.at) + result.seconds
        size = result.vector.nbytes + (0 if result.stats is None else result.stats.nbytes)
        return Arrived(offer.name, _update(result), result.seconds, held, at, size)

    def _broken_rule(self, result: Result, offer: Offer) -> str:
        """Return which rule an update breaks; "" = none. Whether its numbers are finite is seen when it is applied."""
        sizes = result.vector.size, 0 if result.stats is None else result.stats.size
        expected = self._work.parameters, self._work.statistics
        if sizes != expected:
            return f"an update must have {expected} numbers and statistics, got {sizes}"
        if result.step_size != offer.step_size:
            return f"an update must have the step size of its task, got {result.step_size}"
        return "" if isfinite(result.loss) else f"the loss must be finite, got {result.loss}"


def _update(result: Result) -> Update:
    """Return the update of a result."""
    vector = tensor_of(result.vector)
    return Update(
        vector if result.plain else None,
        None if result.plain else vector,
        result.step_size,
        result.steps,
        torch.full((), result.loss, dtype=vector.dtype),
        None if result.stats is None else tensor_of(result.stats),
    )
