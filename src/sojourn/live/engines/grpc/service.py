"""The calls of the service, one method each; everything happens in the thread of the event loop."""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import torch

from sojourn.live.engine import Asked, Joined, Left, Moving, Pulled, Rejected, TaskName, Work
from sojourn.live.engines.grpc import federation_pb2 as pb
from sojourn.live.engines.grpc.admission import CODE, Admission, Refused
from sojourn.live.engines.grpc.door import Door
from sojourn.live.engines.grpc.events import Events
from sojourn.live.engines.grpc.intake import Intake, Limits
from sojourn.live.engines.grpc.member import MOST_HELD, Member, Parcel, most_kept
from sojourn.live.engines.grpc.wire import (
    CHUNK,
    ENDED,
    MOST_FIELDS,
    PROTOCOL,
    WHOLE,
    dtype_number,
    from_name,
    joined,
    parsed,
    split,
    to_name,
    to_work,
)

POLL = 5.0  # seconds that a Pull waits at most
ARRIVAL = 10.0  # seconds that a client may take from Join to Watch
PAUSE = 0.005  # seconds between looks whether the loop has taken events
LONGEST = 200  # characters of a reason that a client gives
_ENDED = pb.Notice(over=pb.OVER_ENDED, reason=ENDED)


class Service:
    """Clients and their tasks, and what the server answers them."""

    def __init__(
        self, work: Work, dtype: torch.dtype, epoch: int, admission: Admission, limits: Limits, grace: float
    ) -> None:
        self.events = Events()
        """What the loop is told."""
        self.ended = False
        """Whether the run has ended."""
        self.told: set[str] = set()
        """Names of the clients that tried to join after the end, and were told of it."""
        self._work, self._dtype, self._epoch = work, dtype, epoch
        self._admission, self._limits, self._grace = admission, limits, grace
        self._door = Door()
        self._intake = Intake(work, dtype, limits.partial)
        self._keeps = most_kept((work.parameters + work.statistics) * dtype.itemsize)
        self._told = {"work": to_work(work), "dtype": dtype_number(dtype), "whole": WHOLE, "chunk": CHUNK}
        self._members: dict[int, Member] = {}
        self._sessions: dict[str, Member] = {}
        self._waiting: deque[asyncio.Future[None]] = deque()  # pushes that wait until the loop has taken events
        self._untold: set[str] = set()  # sessions that have not heard that the run has ended
        self._began = time.monotonic()
        self._awaited = set(admission.names) if epoch > 1 else set()  # names of clients that may yet come back

    # What the loop says.

    def offer(self, parcel: Parcel) -> None:
        """Put a task into its client's queue."""
        self._member(parcel.offer.name.client).put(parcel)

    def settle(self, name: TaskName, fate: str) -> None:
        """Take note of what became of a task: "" = its update is safe."""
        self._member(name.client).settle(name, fate)

    def withdraw(self, name: TaskName) -> None:
        """Forget a task; a client that has it keeps it, and gets no other in its place until it has sent its update.

        A client that is still fetching it is told at its next call.
        """
        member = self._member(name.client)
        parcel = member.handed.get(name)
        if name in member.handed and not (parcel is not None and parcel.unfetched):
            member.handed[name] = None
        else:
            member.settle(name, "the server has taken the task back")
            member.passed_over = True

    def expel(self, client: int, reason: str) -> None:
        """Disconnect a client and admit it no more."""
        self._admission.expel(client, reason)
        member = self._member(client)
        self._finish(member, pb.OVER_EXPELLED, f"the client was expelled: {reason}")
        member.queue.clear()
        member.handed.clear()

    async def end(self, seconds: float) -> None:
        """Tell all clients that the run has ended; wait until all have heard it, but not longer than this.

        A server that was started again, and ends at once, gives its clients as long from its start to come back.
        """
        self.ended = True
        until, back = time.monotonic() + seconds, self._began + seconds
        for member in self._members.values():
            member.wake()
            if member.watch is not None and not member.watch.done():
                member.watch.set_result(_ENDED)
        while (self._untold and time.monotonic() < until) or (self._awaited and time.monotonic() < back):
            await asyncio.sleep(PAUSE)

    # What clients call.

    async def join(self, content: bytes, context: Any) -> bytes:
        """Introduce a client."""
        identity = self._admission.identity(context)
        request = parsed(pb.JoinRequest, content)
        self._admission.check_name(request.client, identity)
        self._awaited.discard(request.client)
        if self.ended:
            self.told.add(request.client[:LONGEST])
            self._told_end(self._admission.names.get(request.client, -1))
            raise Refused(CODE.FAILED_PRECONDITION, ENDED)
        if request.protocol != PROTOCOL:
            reason = f"the server speaks protocol {PROTOCOL}, the client {request.protocol}; install the same sojourn"
            raise Refused(CODE.FAILED_PRECONDITION, reason, request.client)
        self._check_sizes(request)
        member = self._member(self._admission.number(request.client, identity))
        self._finish(member, pb.OVER_REPLACED, f"another process has joined as {request.client}")
        held = [from_name(name) for name in request.held[:MOST_HELD]]
        mine, received = member.begin(secrets.token_hex(16), held, self._epoch)
        member.name, member.identity = request.client, identity
        self._sessions[member.session] = member
        self._untold.add(member.session)
        self._gone_after(member, max(self._grace, ARRIVAL))
        member.unsaid = Joined(member.number, mine, request.examples)
        reply = pb.JoinReply(session=member.session, client=member.number, epoch=self._epoch, **self._told)
        reply.received.extend(to_name(name) for name in received)
        return bytes(reply.SerializeToString())

    async def pull(self, content: bytes, context: Any) -> bytes:
        """Hand over a task as soon as there is one, with the news."""
        identity = self._admission.identity(context)
        request = parsed(pb.PullRequest, content)
        member = self._caller(request.session, identity)
        member.heard(request.seen)
        if member.passed_over and not member.handed:  # one that has a task yet is heard from when it answers
            member.passed_over = False
            self.events.put(Asked(member.number))
        most = 2 if self._work.prefetch else 1
        parcel = None if self.ended else member.take(most, WHOLE, CHUNK)
        if parcel is None and not self.ended:
            await self._something(member, request.session, most)
            self._admission.identity(context)  # the token may have been revoked
            parcel = None if self.ended else member.take(most, WHOLE, CHUNK)
        member.serial += 1
        reply = pb.PullReply(serial=member.serial, ended=self.ended)
        _tell(member, reply)
        if self.ended:
            self._told_end(member.number)
        return joined(reply, [] if parcel is None else self._hand_over(parcel, reply))

    async def fetch(self, content: bytes, context: Any) -> bytes:
        """Return a further chunk of the model of a task."""
        identity = self._admission.identity(context)
        request = parsed(pb.FetchRequest, content)
        member = self._caller(request.session, identity)
        name = from_name(request.name)
        parcel = member.handed.get(name)
        if parcel is None:
            raise Refused(CODE.OUT_OF_RANGE, member.fates.get(name) or "the server does not know this task")
        if request.offset % CHUNK or request.offset >= parcel.payload.size:
            raise Refused(CODE.INVALID_ARGUMENT, f"no chunk begins at {request.offset}")
        if request.offset in parcel.unfetched:
            parcel.unfetched.discard(request.offset)
            self.events.put_quietly(Moving(name) if parcel.unfetched else Pulled(name, time.monotonic()))
        return joined(pb.FetchReply(), parcel.payload.cut(request.offset, CHUNK))

    async def push(self, content: bytes, context: Any) -> bytes:
        """Take an update or a part of it."""
        identity = self._admission.identity(context)  # before anything else is done for the caller
        request, data = split(pb.PushRequest, content, MOST_FIELDS)
        member = self._caller(request.session, identity)
        await self._room(member)
        answer, reason = self._take_in(member, request, data)
        return bytes(pb.PushReply(answer=answer, reason=reason).SerializeToString())

    async def watch(self, content: bytes, context: Any) -> AsyncIterator[bytes]:
        """Stay open until the session is over; if the connection breaks, the client has some time to come back."""
        identity = self._admission.identity(context)
        session = parsed(pb.WatchRequest, content).session
        member = self._caller(session, identity)
        if member.watch is not None:
            raise Refused(CODE.INVALID_ARGUMENT, "the session is watched already")
        if member.timer is not None:
            member.timer.cancel()
        mine = member.watch = asyncio.get_running_loop().create_future()
        if self.ended:
            mine.set_result(_ENDED)
        try:
            yield (await mine).SerializeToString()
        finally:
            if member.watch is mine:
                member.watch = None
                self._gone_after(member, self._grace)

    async def leave(self, content: bytes, context: Any) -> bytes:
        """Let a client go."""
        identity = self._admission.identity(context)
        request = parsed(pb.LeaveRequest, content)
        member = self._member_of(request.session, identity)
        self._close(member)
        self.events.put(Left(member.number, request.reason[:LONGEST] or "it left"))
        return bytes(pb.LeaveReply().SerializeToString())

    def refused(self, refusal: Refused, context: Any) -> None:
        """Tell the loop that somebody was not let in; nobody gets a strike for it, for it may be an impostor."""
        if refusal.client is not None:
            told = self._door.turn_away(refusal.client, context.peer(), refusal.reason)
            if told is not None:
                self.events.put(told)

    # The parts of calls.

    async def _something(self, member: Member, session: str, most: int) -> None:
        """Wait until there is a task for a client, or bad news, or the run has ended; at most as long as a Pull may."""
        until, more = time.monotonic() + POLL, True
        while more:
            more = await member.wait(max(0.0, until - time.monotonic()))
            if member.session != session:
                if member.session:
                    raise Refused(CODE.ABORTED, f"another process has joined as {member.name}")
                raise Refused(CODE.NOT_FOUND, "the session is over; join again")
            more = more and not (self.ended or member.can_take(most) or member.bad_news)

    def _member(self, number: int) -> Member:
        if number not in self._members:
            self._members[number] = Member(number, keeps=self._keeps)
        return self._members[number]

    def _caller(self, session: str, identity: str) -> Member:
        """Return the member that makes a call; with its first call of a session it counts as present."""
        member = self._member_of(session, identity)
        if member.unsaid is not None:
            self.events.put(member.unsaid)
            member.unsaid = None
        return member

    def _member_of(self, session: str, identity: str) -> Member:
        member = self._sessions.get(session)
        if member is None or member.identity != identity:
            raise Refused(CODE.NOT_FOUND, "the server does not know this session; join again")
        return member

    def _check_sizes(self, request: Any) -> None:
        theirs, ours = (request.parameters, request.statistics), (self._work.parameters, self._work.statistics)
        if request.parameters and theirs != ours:
            reason = (
                f"the model must have {ours[0]} parameters and {ours[1]} statistics, the client's has {theirs[0]} and "
                f"{theirs[1]}; start the client with the model of the run"
            )
            raise Refused(CODE.FAILED_PRECONDITION, reason, request.client)

    def _finish(self, member: Member, over: int, reason: str) -> None:
        """End the session of a client, if it has one, and say why."""
        if member.watch is not None and not member.watch.done():
            member.watch.set_result(pb.Notice(over=over, reason=reason))
        self._close(member)

    def _told_end(self, number: int) -> None:
        """Count a client as told that the run has ended; its calls are answered as before."""
        if number in self._members:
            self._untold.discard(self._members[number].session)

    def _close(self, member: Member) -> None:
        self._untold.discard(member.session)
        self._sessions.pop(member.session, None)
        member.session, member.watch, member.unsaid = "", None, None
        if member.timer is not None:
            member.timer.cancel()
        member.wake()

    def _gone_after(self, member: Member, seconds: float) -> None:
        """Let the client count as gone after so many seconds, unless its watch opens or it joins again."""
        session = member.session

        def gone() -> None:
            if member.session == session:
                self._close(member)
                self.events.put(Left(member.number, "the connection broke"))

        if not self.ended and session:
            member.timer = asyncio.get_running_loop().call_later(seconds, gone)

    def _hand_over(self, parcel: Parcel, reply: Any) -> list[memoryview]:
        offer, size = parcel.offer, parcel.payload.size
        task = pb.Task(step=offer.step, step_size=offer.step_size, steps=offer.steps, size=size, version=offer.version)
        task.name.CopyFrom(to_name(offer.name))
        reply.task.CopyFrom(task)
        self.events.put_quietly(Moving(offer.name) if parcel.unfetched else Pulled(offer.name, time.monotonic()))
        return parcel.payload.cut(0, CHUNK if parcel.unfetched else size)

    async def _room(self, member: Member) -> None:
        """Wait until the loop has taken enough events; whoever came first goes on first."""
        if self._waiting or self.events.qsize() >= self._limits.waiting:
            if member.pushes >= self._limits.pushes:
                raise Refused(CODE.RESOURCE_EXHAUSTED, f"{member.pushes} updates of the client are waiting already")
            loop = asyncio.get_running_loop()
            turn = loop.create_future()
            self._waiting.append(turn)
            if len(self._waiting) == 1:
                loop.call_later(PAUSE, self._let_in)
            member.pushes += 1
            try:
                await turn
            finally:
                member.pushes -= 1

    def _let_in(self) -> None:
        room = self._limits.waiting - self.events.qsize()
        while self._waiting and (room > 0 or self.ended):
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                room -= 1
        if self._waiting:
            asyncio.get_running_loop().call_later(PAUSE, self._let_in)

    def _take_in(self, member: Member, request: Any, data: memoryview) -> tuple[int, str]:
        """Take a part of an update; return the answer and a reason."""
        name = from_name(request.name)
        if name in member.fates:
            fate = member.fates[name]
            return (pb.ANSWER_REFUSED, fate) if fate else (pb.ANSWER_ACKNOWLEDGED, "")
        if name in member.arrived:
            return pb.ANSWER_RECEIVED, ""
        before = member.parts_missing(name)
        numbers, wrong = self._intake.take(member, name, request, data)
        if wrong:
            known = name in member.handed
            self.events.put(Rejected(member.number, name if known else None, wrong))
            if known:
                member.settle(name, wrong)
            return pb.ANSWER_REFUSED, wrong
        if numbers is None:
            if member.parts_missing(name) != before:  # a part that is sent again is no news
                self.events.put_quietly(Moving(name))
            return pb.ANSWER_STORED, ""
        arrived = self._intake.arrived(name, request, numbers)
        del member.handed[name]
        member.arrived.add(name)
        self.events.put(arrived)
        member.wake()
        return pb.ANSWER_RECEIVED, ""


def _tell(member: Member, reply: Any) -> None:
    """Add the news to a reply."""
    for name, serial in member.news.items():
        if member.fates[name]:
            reply.refused.add(name=to_name(name), reason=member.fates[name])
        else:
            reply.acknowledged.append(to_name(name))
        if not serial:
            member.news[name] = member.serial
