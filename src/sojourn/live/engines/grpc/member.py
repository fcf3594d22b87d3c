"""Member: a client as the server sees it, with its queue, the tasks in its hands, and what it is yet to be told."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from sojourn.live.engine import Joined, Offer, TaskName
from sojourn.live.engines.grpc.wire import Assembly, Payload

REMEMBERED = 256  # fates per client that are remembered after the client was told
MOST_HELD = 10_000  # tasks that a client may announce as held
KEPT = 2, 256  # updates that a client may have to keep until the next commit: at least and at most
KEPT_BYTES = 256 * 2**20  # of them, if these are fewer

Fate = str
"""What became of an update: "" = it is safe, otherwise why it was not used."""


def most_kept(size: int) -> int:
    """Return how many updates of so many bytes a client may have to keep.

    >>> most_kept(4_000), most_kept(10_000_000), most_kept(1_000_000_000)
    (256, 26, 2)
    """
    return max(KEPT[0], min(KEPT[1], KEPT_BYTES // max(size, 1)))


@dataclass(eq=False)
class Parcel:
    """An offer with the bytes of its model."""

    offer: Offer
    """The task."""
    payload: Payload
    """The bytes of model and statistics, shared by all tasks with the same model."""
    unfetched: set[int] = field(default_factory=set)
    """Where the chunks begin that the client has not fetched yet."""


@dataclass(eq=False)
class Member:
    """A client as the server sees it. Everything happens in the thread of the event loop."""

    number: int
    """Number of the client in the fleet."""
    name: str = ""
    """Name of the client; "" = it has not joined yet."""
    session: str = ""
    """The session; "" = it is not connected."""
    identity: str = ""
    """To whom the token belongs under which the client joined; "" without keys."""
    keeps: int = KEPT[1]
    """Updates that the client may have to keep at most; with as many it gets no task before a commit has them."""
    queue: OrderedDict[TaskName, Parcel] = field(default_factory=OrderedDict)
    """Tasks that wait for the client, in the order of their offers."""
    handed: dict[TaskName, Parcel | None] = field(default_factory=dict)
    """Tasks in the client's hands; None = sent by an earlier server, and announced by the client."""
    arrived: set[TaskName] = field(default_factory=set)
    """Tasks whose updates are there and whose fate is not known yet."""
    fates: dict[TaskName, Fate] = field(default_factory=dict)
    """What became of updates, as far as remembered."""
    news: dict[TaskName, int] = field(default_factory=dict)
    """Fates that the client may not know: the serial number of the reply that told it first; 0 = not told yet."""
    partial: dict[TaskName, Assembly] = field(default_factory=dict)
    """Updates of which some chunks have come."""
    serial: int = 0
    """Serial number of the last reply to a Pull of this session."""
    unsaid: Joined | None = None
    """That the client is there, which the loop learns from the next call: until then the client may find that the
    work does not suit it, and leave.
    """
    waiter: asyncio.Future[None] | None = None
    """The Pull that waits for a task."""
    pushes: int = 0
    """Pushes of the client that wait until the loop has taken events."""
    watch: asyncio.Future[Any] | None = None
    """The open Watch; its result is the notice that ends it."""
    passed_over: bool = False
    """Whether a task was withdrawn that waited here, so that the loop may take the client for absent."""
    timer: asyncio.TimerHandle | None = None
    """When the client counts as gone."""

    def wake(self) -> None:
        """Let the waiting Pull look again."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    async def wait(self, seconds: float) -> bool:
        """Wait until there may be a task, at most this long; an earlier wait ends.

        Return whether it is worth waiting on: neither has the time passed nor another wait begun.
        """
        self.wake()
        loop = asyncio.get_running_loop()
        mine = self.waiter = loop.create_future()
        timer = loop.call_later(seconds, self.wake)
        until = loop.time() + seconds
        try:
            await mine
            return self.waiter is mine and loop.time() < until
        finally:
            timer.cancel()
            if self.waiter is mine:
                self.waiter = None

    def put(self, parcel: Parcel) -> None:
        """Append a task to the queue; one that is known already stays where it is."""
        name = parcel.offer.name
        if name not in self.handed and name not in self.arrived and name not in self.queue:
            self.fates.pop(name, None)
            self.news.pop(name, None)
            self.queue[name] = parcel
            self.wake()

    def can_take(self, most: int) -> bool:
        """Whether there is a task for the client, fewer than `most` are in its hands, and it may keep its update."""
        return bool(self.queue) and len(self.handed) < most and len(self.arrived) < self.keeps

    def take(self, most: int, whole: int, chunk: int) -> Parcel | None:
        """Hand over the first task, unless the client has `most` tasks in its hands."""
        if not self.can_take(most):
            return None
        name, parcel = self.queue.popitem(last=False)
        self.handed[name] = parcel
        size = parcel.payload.size
        parcel.unfetched = set() if size <= whole else set(range(chunk, size, chunk))
        return parcel

    def settle(self, name: TaskName, fate: Fate) -> None:
        """Take note of what became of a task; a client that has it will be told."""
        if name in self.handed or name in self.arrived:
            self.news[name] = 0
        if name in self.arrived:
            self.arrived.discard(name)
            if len(self.arrived) == self.keeps - 1:
                self.wake()
        self.queue.pop(name, None)
        self.partial.pop(name, None)
        if name in self.handed:
            del self.handed[name]
            self.wake()
        self.fates[name] = fate
        self._forget()

    def _forget(self) -> None:
        """Forget the oldest fates of which there is no news."""
        while len(self.fates) > REMEMBERED + len(self.news):
            del self.fates[next(old for old in self.fates if old not in self.news)]

    def parts_missing(self, name: TaskName) -> int:
        """Return how many parts of an update have not come yet; 0 = no part of it has come, or all have."""
        return len(self.partial[name].missing) if name in self.partial else 0

    @property
    def bad_news(self) -> bool:
        """Whether the client has not been told yet of a task or an update that is of no use."""
        return any(not serial and self.fates[name] for name, serial in self.news.items())

    def heard(self, seen: int) -> None:
        """Forget the news that the client has seen."""
        if self.news:
            self.news = {name: serial for name, serial in self.news.items() if not 0 < serial <= seen}

    def begin(self, session: str, held: list[TaskName], epoch: int) -> tuple[tuple[TaskName, ...], list[TaskName]]:
        """Start a session; return the tasks that the client holds, and those whose updates are there already.

        Tasks that were being handed over and are not held go back to the front of the queue. Those that the client
        has had whole, which the loop knows, are gone: the loop ends them.
        """
        self.session, self.serial, self.partial = session, 0, {}
        self.news = {name: 0 for name in held if name in self.news}  # of others it has nothing to be told about
        mine = [name for name in dict.fromkeys(held) if self._may_hold(name, epoch)]
        names = set(mine)
        for name in [name for name in self.handed if name not in names][::-1]:
            parcel = self.handed.pop(name)
            if parcel is not None and parcel.unfetched:
                self.queue[name] = parcel
                self.queue.move_to_end(name, last=False)
        for name in mine:
            waiting = self.queue.pop(name, None)
            if name not in self.arrived:
                self.handed.setdefault(name, waiting)
        self._forget()
        return tuple(mine), [name for name in mine if name in self.arrived]

    def _may_hold(self, name: TaskName, epoch: int) -> bool:
        """Whether the client may hold a task; if not, it is told what became of the task."""
        if name in self.fates:
            self.news[name] = 0
            return False
        earlier = name.client == self.number and 1 <= name.epoch < epoch
        if earlier or name in self.queue or name in self.handed or name in self.arrived:
            return True
        self.fates[name], self.news[name] = "the server does not know this task", 0
        return False
