"""Calls: the service as a client sees it; every call says clearly whether to try again."""

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import torch
from torch import Tensor

from sojourn.errors import InvalidInput, SojournError
from sojourn.live.engines.grpc import federation_pb2 as pb
from sojourn.live.engines.grpc.wire import (
    ENDED,
    HEAD,
    KEEP_ALIVE,
    METHODS,
    SERVICE,
    WHOLE,
    WINDOW,
    Assembly,
    Payload,
    in_place,
    joined,
    split,
)

if TYPE_CHECKING:
    from sojourn.live.keys import ClientKeys

CODE = grpc.StatusCode
FINAL = (CODE.UNAUTHENTICATED, CODE.PERMISSION_DENIED, CODE.FAILED_PRECONDITION, CODE.ABORTED, CODE.UNIMPLEMENTED)
NOT_TRUSTED = "CERTIFICATE_VERIFY_FAILED"
EXPIRED, NOT_YET = "certificate has expired", "certificate is not yet valid"  # in the words of NOT_TRUSTED
OTHER_HOST = "Hostname Verification Check failed"
SECONDS = {"Join": 10.0, "Pull": 30.0, "Fetch": 60.0, "Push": 120.0, "Leave": 1.0}  # that a call may take
OPTIONS = [
    *KEEP_ALIVE,
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.min_reconnect_backoff_ms", 5000),  # that connecting may take
    ("grpc.max_receive_message_length", WHOLE + HEAD),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
]


class Broken(Exception):
    """The connection broke, or the session is over: join again."""


class TakenBack(Exception):
    """The server has taken back the task whose model is being fetched."""


class Ended(Exception):
    """The run has ended."""


class Calls:
    """The calls of one channel, which all clients of a process share."""

    def __init__(self, address: str, keys: "ClientKeys | None") -> None:
        self.address, self._secret = address, keys is not None
        if keys is None:
            self.channel = grpc.aio.insecure_channel(address, OPTIONS)
        else:
            credentials = grpc.ssl_channel_credentials(keys.authority, keys.key, keys.certificate)
            self.channel = grpc.aio.secure_channel(address, credentials, OPTIONS)
        self._metadata = None if keys is None else (("authorization", f"Bearer {keys.token}"),)
        self._unary = {name: self.channel.unary_unary(f"/{SERVICE}/{name}") for name in METHODS}
        self._watch = self.channel.unary_stream(f"/{SERVICE}/Watch")

    async def raw(self, method: str, content: bytes) -> bytes:
        """Make a call with encoded messages."""
        try:
            return bytes(await self._unary[method](content, timeout=SECONDS[method], metadata=self._metadata))
        except grpc.aio.AioRpcError as error:
            raise self._meaning(error) from None

    async def call(self, method: str, request: Any, reply: Any) -> Any:
        """Make a call without large fields."""
        return reply.FromString(await self.raw(method, request.SerializeToString()))

    async def pull(self, session: str, seen: int) -> tuple[Any, memoryview]:
        """Wait for a task; return the reply, and the bytes that came with it."""
        request = pb.PullRequest(session=session, seen=seen)
        return split(pb.PullReply, await self.raw("Pull", request.SerializeToString()))

    async def model(self, session: str, task: Any, first: memoryview, joining: Any, dtype: torch.dtype) -> Tensor:
        """Return the numbers of a task; fetch what did not come with the task.

        Raises `TakenBack` if the server has meanwhile given the task up.
        """
        whole = in_place(first, dtype) if first.nbytes == task.size <= joining.whole else None
        if whole is not None:
            return whole
        assembly = Assembly(task.size, dtype, joining.whole, joining.chunk)
        _stored(assembly, 0, first)

        async def fetch(offset: int) -> None:
            request = pb.FetchRequest(session=session, name=task.name, offset=offset)
            _, data = split(pb.FetchReply, await self.raw("Fetch", request.SerializeToString()))
            _stored(assembly, offset, data)

        await windowed([fetch(offset) for offset in sorted(assembly.missing)])
        return assembly.tensor

    async def push(self, head: Any, content: Payload, joining: Any) -> Any:
        """Send an update, whole or in chunks; return the last answer that is not "stored"."""
        if content.size <= joining.whole:
            return pb.PushReply.FromString(await self.raw("Push", joined(head, content.parts)))
        chunk = joining.chunk
        replies: list[Any] = []

        async def send(offset: int) -> None:
            if any(reply.answer != pb.ANSWER_STORED for reply in replies):
                return
            part = pb.PushRequest()
            part.CopyFrom(head)
            part.offset = offset
            sent = joined(part, content.cut(offset, chunk))
            replies.append(pb.PushReply.FromString(await self.raw("Push", sent)))

        await windowed([send(offset) for offset in range(0, content.size, chunk)])
        return next((reply for reply in replies if reply.answer != pb.ANSWER_STORED), replies[-1])

    async def watch(self, session: str) -> Any:
        """Stay connected; return the notice that ends the session, None = the server closed the call without."""
        request = pb.WatchRequest(session=session).SerializeToString()
        try:
            content = await self._watch(request, metadata=self._metadata).read()
        except grpc.aio.AioRpcError as error:
            raise self._meaning(error) from None
        return None if content is grpc.aio.EOF else pb.Notice.FromString(content)

    def _meaning(self, error: Any) -> Exception:
        code, words = error.code(), error.details() or "no reason given"
        if code == CODE.FAILED_PRECONDITION and words == ENDED:
            return Ended()
        if code == CODE.OUT_OF_RANGE:
            return TakenBack(words)
        if code in FINAL:
            return InvalidInput(f"the server at {self.address} refuses: {words}")
        untimely = EXPIRED in words or NOT_YET in words  # a clock may be set, and a certificate made again
        if code == CODE.UNAVAILABLE and NOT_TRUSTED in words and not untimely:
            return SojournError(f"the server at {self.address} is not trusted: its certificate is of another authority")
        return Broken(self._reason(words) if code == CODE.UNAVAILABLE else f"{code.name}: {words}")

    def _reason(self, words: str) -> str:
        """Return what gRPC says of a connection in a few words, with a hint if keys may be what is wrong."""
        short = words.rpartition(": ")[2]
        if not self._secret and short == "Socket closed":
            return f"{short}; the server may want keys, and this client has none"
        if self._secret and "WRONG_VERSION_NUMBER" in words:
            return "no encryption at the other end; the server may have no keys"
        host = self.address.rpartition(":")[0].strip("[]")
        anew = (
            "where the keys were made, remove server.pem and server.key, call sojourn live keys KEYS --host "
            f"{host}, and start the server with them"
        )
        if OTHER_HOST in words:
            return f"the server's certificate is for other hosts, not for {host}; {anew}"
        if EXPIRED in words:
            old = "those of clients that were made with it have expired too"
            return f"the server's certificate has expired by this machine's clock; if the clock is right, {anew}; {old}"
        if NOT_YET in words:
            return "the server's certificate is not valid yet by this machine's clock; set the clock"
        return short.rstrip("]")  # gRPC puts some reasons in brackets


async def windowed(jobs: list[Any]) -> None:
    """Do all jobs, some at a time."""
    if not jobs:
        return
    waiting = iter(jobs)

    async def some() -> None:
        for job in waiting:
            await job

    tasks = [asyncio.ensure_future(some()) for _ in range(min(WINDOW, len(jobs)))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        for job in waiting:
            job.close()


def _stored(assembly: Assembly, offset: int, data: memoryview) -> None:
    if not assembly.put(offset, data):
        raise Broken(f"the server sent {data.nbytes} bytes at {offset}")
