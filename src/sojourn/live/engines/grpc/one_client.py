"""One client of a process: its connection, its tasks, and the updates that it keeps."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from sojourn.errors import InvalidInput, SojournError
from sojourn.learning.replay.local import Update
from sojourn.live.engine import TaskName, Work
from sojourn.live.engines.grpc import federation_pb2 as pb
from sojourn.live.engines.grpc.calls import Broken, Calls, Ended, TakenBack
from sojourn.live.engines.grpc.packing import packed
from sojourn.live.engines.grpc.wire import PROTOCOL, Payload, dtype_of, from_name, from_work, to_name
from sojourn.live.worker import Task, Worker

BACKOFF = 0.1, 0.4  # seconds before joining again: the first time, and at most; the channel waits besides

FAREWELL = 0.5  # seconds that the last news may take when the run has ended


@dataclass(eq=False)
class Kept:
    """A task that the client has received, and its update as soon as there is one."""

    name: TaskName
    """The name of the task."""
    task: Task | None
    """The task; None = it is done."""
    received_at: float
    """When it was received, by the client's stopwatch."""
    head: Any = None
    """The facts of the update."""
    content: Payload | None = None
    """The numbers of the update; None = there is no update yet."""
    pushed: bool = False
    """Whether the server has the update."""


class Client:
    """One client: `run` joins, works and pushes until the run has ended."""

    def __init__(
        self,
        name: str,
        worker: Worker,
        calls: Calls,
        thread: Executor,
        counts: Counter[str],
        patience: float | None,
        on_event: Callable[[str, str], None],
    ) -> None:
        self.name = name
        self._worker, self._calls, self._thread, self._counts = worker, calls, thread, counts
        self._patience, self._on_event = patience, on_event
        self._kept: dict[TaskName, Kept] = {}
        self._to_do: asyncio.Queue[Kept] = asyncio.Queue()
        self._to_push = asyncio.Event()
        self._forgotten = asyncio.Event()  # set when a task is taken back
        self._joining: Any = None  # the server's reply to Join; None = not connected
        self._told: tuple[int, Work] | None = None  # number and work, as the worker knows them
        self._ended = False
        self._unsaid: list[tuple[int, str]] = []  # refused tasks of which nothing was said yet, and why
        self._broken = "", ""  # what was last said of a broken connection, and why
        self._seen = 0
        self._heard_at = time.monotonic()

    async def run(self) -> None:
        """Work until the run has ended; raise a SojournError if the server refuses or does not answer."""
        try:
            await _until_one_ends(self._stay_connected(), self._work())
        except Ended:
            self._joining = None
            self._on_event(self.name, "the run has ended")
        except Exception as error:
            await self.leave(str(error))
            raise

    async def leave(self, reason: str) -> None:
        """Say goodbye, if there is a connection."""
        if self._joining is not None:
            request = pb.LeaveRequest(session=self._joining.session, reason=reason)
            self._joining = None
            with suppress(Broken, SojournError):
                await self._calls.call("Leave", request, pb.LeaveReply)

    # The connection.

    async def _stay_connected(self) -> None:
        pause = BACKOFF[0]
        while True:
            try:
                await self._join()
                pause = BACKOFF[0]
                await _until_one_ends(self._watch(), self._pull(), self._push())
            except Broken as error:
                if self._ended:
                    raise Ended from None
                self._say_broken(str(error))
                self._counts["rejoined"] += self._joining is not None
                self._joining = None
                self._check_patience()
            await asyncio.sleep(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, BACKOFF[1])

    def _say_broken(self, reason: str) -> None:
        """Say once why there is no connection, and again only if the reason changes."""
        place = f"the server at {self._calls.address}"
        what = f"{place} cannot be reached" if self._joining is None else f"the connection to {place} broke"
        if (what, reason) != self._broken:
            self._broken = what, reason
            self._on_event(self.name, f"{what} ({reason}); it is tried again every second or so")

    def _check_patience(self) -> None:
        silence = time.monotonic() - self._heard_at
        if self._patience is not None and silence > self._patience:
            address = self._calls.address
            raise SojournError(f"the server at {address} has not answered for {silence:.0f} s; is it running?")

    async def _join(self) -> None:
        sizes = getattr(self._worker, "sizes", (0, 0))  # a worker need not say
        request = pb.JoinRequest(
            protocol=PROTOCOL,
            client=self.name,
            parameters=sizes[0],
            statistics=sizes[1],
            examples=self._worker.examples,
            held=[to_name(name) for name in self._kept],
        )
        joining = await self._calls.call("Join", request, pb.JoinReply)
        self._joining, self._seen, self._heard_at = joining, 0, time.monotonic()
        self._broken = "", ""
        told = joining.client, from_work(joining.work)
        if self._told != told:  # a server that crashed may have forgotten the number that it gave
            try:
                self._worker.begin(*told)
            except SojournError as error:
                await self.leave(str(error))
                raise
            self._told = told
        received = {from_name(name) for name in joining.received}
        for name, kept in self._kept.items():
            kept.pushed = name in received
        self._to_push.set()
        self._on_event(self.name, f"joined as number {joining.client}")

    async def _watch(self) -> None:
        notice = await self._calls.watch(self._joining.session)
        if notice is None:
            raise Broken("the server closed the watch")
        if notice.over == pb.OVER_ENDED:
            self._ended = True
            await asyncio.sleep(FAREWELL)
            raise Ended
        raise InvalidInput(f"the server at {self._calls.address} refuses: {notice.reason}")

    async def _pull(self) -> None:
        """Fetch tasks; the server decides how many the client may hold."""
        joining = self._joining
        dtype = dtype_of(joining.dtype)
        while True:
            reply, data = await self._calls.pull(joining.session, self._seen)
            self._seen, self._heard_at = reply.serial, time.monotonic()
            self._hear(reply)
            if reply.ended:
                raise Ended
            name = from_name(reply.task.name)
            if not reply.HasField("task") or name in self._kept:
                continue
            try:
                numbers = await self._calls.model(joining.session, reply.task, data, joining, dtype)
            except TakenBack as error:
                self._on_event(self.name, f"task {name.nth} was refused: {error}")
                continue
            kept = Kept(name, self._task(reply.task, numbers), time.monotonic())
            self._kept[name] = kept
            self._to_do.put_nowait(kept)

    def _task(self, head: Any, numbers: torch.Tensor) -> Task:
        size = self._joining.work.parameters
        params, stats = (numbers[:size], numbers[size:].clone()) if self._joining.work.statistics else (numbers, None)
        name = head.name
        return Task(name.client, name.nth, head.step, params, stats, head.step_size, head.steps, head.version)

    def _hear(self, reply: Any) -> None:
        """Forget tasks whose fate is known."""
        for name in map(from_name, reply.acknowledged):
            self._counts["acknowledged"] += self._kept.pop(name, None) is not None
        for refusal in reply.refused:
            self._refused(from_name(refusal.name), refusal.reason)
        self._say_refused()

    def _refused(self, name: TaskName, reason: str) -> None:
        if self._kept.pop(name, None) is not None:
            self._counts["refused"] += 1
            self._forgotten.set()
            self._undo(name)
            self._unsaid.append((name.nth, reason))

    def _say_refused(self) -> None:
        """Say which tasks were refused; of many for the same reason, how many."""
        unsaid, self._unsaid = self._unsaid, []
        for reason in dict.fromkeys(why for _, why in unsaid):
            tasks = [nth for nth, why in unsaid if why == reason]
            one = f"task {tasks[0]} was refused"
            many = f"{len(tasks)} tasks from {tasks[0]} to {tasks[-1]} were refused"
            self._on_event(self.name, f"{one if len(tasks) == 1 else many}: {reason}")

    async def _push(self) -> None:
        """Send every update that the server does not have, as soon as there is one."""
        while True:
            await self._to_push.wait()
            self._to_push.clear()
            for kept in [kept for kept in self._kept.values() if kept.content is not None and not kept.pushed]:
                kept.head.session = self._joining.session
                kept.head.held = time.monotonic() - kept.received_at
                assert kept.content is not None
                reply = await self._calls.push(kept.head, kept.content, self._joining)
                self._heard_at = time.monotonic()
                kept.pushed = True
                self._counts["pushed"] += 1
                if reply.answer == pb.ANSWER_REFUSED:
                    self._refused(kept.name, reply.reason)
                elif reply.answer == pb.ANSWER_ACKNOWLEDGED:
                    self._counts["acknowledged"] += self._kept.pop(kept.name, None) is not None
            self._say_refused()

    # The work.

    async def _work(self) -> None:
        """Do one task after the other, connected or not."""
        while True:
            kept = await self._to_do.get()
            if kept.name not in self._kept:  # taken back
                continue
            assert kept.task is not None
            begin, least = time.monotonic(), self._worker.service(kept.name.client, kept.name.nth)
            update, content = await asyncio.get_running_loop().run_in_executor(self._thread, self._computed, kept.task)
            while least > 0 and kept.name in self._kept and (rest := begin + least - time.monotonic()) > 0:
                self._forgotten.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._forgotten.wait(), rest)
            kept.task = None
            self._counts["tasks"] += 1
            if kept.name in self._kept:
                kept.head, kept.content = _head(kept.name, update, content, time.monotonic() - begin), content
                self._to_push.set()
            else:
                self._undo(kept.name)

    def _undo(self, name: TaskName) -> None:
        """Let the client's memory forget a task whose update is not used, if the worker keeps one."""
        undo = getattr(self._worker, "undo", None)
        if undo is not None:
            undo(name.client, name.nth)

    def _computed(self, task: Task) -> tuple[Update, Payload]:
        """Do the work in the thread that computes; what was compressed is packed."""
        update = self._worker.compute(task)
        vector = update.delta if update.gradient is None else update.gradient
        dtype = task.params.dtype
        stats = None if update.stats is None else update.stats.to(dtype)
        assert vector is not None
        told = None if update.loss is None else update.loss.detach().cpu()
        content = Payload(vector.to(dtype), stats)
        shorter = update.bits is not None and update.bits < 8 * content.size
        return update._replace(loss=told), packed(content, dtype.itemsize) if shorter else content


def _head(name: TaskName, update: Update, content: Payload, service: float) -> Any:
    """Return the facts of an update."""
    packing = content.size < content.unpacked
    return pb.PushRequest(
        name=to_name(name),
        kind=pb.KIND_DELTA if update.gradient is None else pb.KIND_GRADIENT,
        step_size=update.step_size,
        steps=update.steps,
        loss=0.0 if update.loss is None else float(update.loss),
        service=service,
        size=content.unpacked,
        remembered=update.remembered,
        packing=pb.PACKING_PLANES if packing else pb.PACKING_NONE,
        packed=content.size if packing else 0,
    )


async def _until_one_ends(*jobs: Coroutine[Any, Any, None]) -> None:
    """Run jobs together; when one ends, stop the others, and raise its error."""
    tasks = [asyncio.ensure_future(job) for job in jobs]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        _raise_first([task.exception() for task in done])
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _raise_first(errors: list[BaseException | None]) -> None:
    """Raise the error that says most: the end of the run, then a refusal, then a broken connection."""
    found = [error for error in errors if error is not None]
    if found:
        raise min(found, key=lambda error: (not isinstance(error, Ended), isinstance(error, Broken)))
