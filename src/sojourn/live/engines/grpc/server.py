"""GrpcEngine: carries tasks and updates over gRPC; clients dial in.

All network work happens in one background thread with an event loop of its own. The loop's calls are handed over to it
in batches, and its events come back through a queue.
"""

import asyncio
import errno
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import grpc
import torch

from sojourn.errors import InvalidInput
from sojourn.live.engine import Event, Offer, TaskName, Work
from sojourn.live.engines.grpc.admission import Admission
from sojourn.live.engines.grpc.handlers import handlers
from sojourn.live.engines.grpc.intake import Limits
from sojourn.live.engines.grpc.loops import QuietLoop
from sojourn.live.engines.grpc.member import Parcel
from sojourn.live.engines.grpc.service import Service
from sojourn.live.engines.grpc.wire import HEAD, KEEP_ALIVE, WHOLE, Payload

if TYPE_CHECKING:
    from sojourn.live.keys import Registry, ServerKeys

GRACE = 2.0  # seconds that a client has to come back
FAREWELL = 10.0  # seconds at most until all clients have been told that the run has ended
LAST_CALLS = 0.5  # seconds that calls have to end after that
MOST_PORT = 65535
MOST_CALLS = 100_000  # calls that may wait for the event loop: thousands of clients come back at the same time
OPTIONS = [
    *KEEP_ALIVE,
    ("grpc.so_reuseport", 0),
    ("grpc.server.max_pending_requests", MOST_CALLS),
    ("grpc.server.max_pending_requests_hard_limit", MOST_CALLS),
]
PATIENCE = 30.0  # seconds to wait for the background thread


class GrpcEngine:
    """The gRPC engine, an `Engine`; it serves from the moment it is made.

    `names` gives each client its number; clients of other names get the numbers `open_slots` in the order in which they
    join, but those of the names in `meant` the number there, and are refused when there are none left. `epoch` says how
    often the server has been started, from 1. Without `keys` the connection is not encrypted and anybody may join: for
    one machine only. A server that is `ended` from the beginning only tells clients that the run has ended.
    """

    def __init__(
        self,
        address: str,
        work: Work,
        dtype: torch.dtype = torch.float32,
        *,
        epoch: int = 1,
        names: Mapping[str, int],
        open_slots: Iterable[int] = (),
        meant: Mapping[str, int] | None = None,
        keys: "ServerKeys | None" = None,
        registry: "Registry | None" = None,
        limits: Limits | None = None,
        grace: float = GRACE,
        ended: bool = False,
    ) -> None:
        if (keys is None) != (registry is None):
            raise InvalidInput("keys and registry of a server must be given together; give both or neither")
        limits = Limits() if limits is None else limits
        if limits.message < WHOLE + HEAD:
            raise InvalidInput(f"messages must be allowed {WHOLE + HEAD} bytes at least, got {limits.message}")
        self._registry = registry
        self._admission = Admission(names, open_slots, registry, meant)
        self._service = Service(work, dtype, epoch, self._admission, limits, grace)
        self._service.ended = ended
        self._work, self._dtype = work, dtype
        self._payloads: WeakValueDictionary[tuple[int, int], Payload] = WeakValueDictionary()
        self._inbox: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._called = False  # whether the event loop has been asked to empty the inbox
        self._loop = QuietLoop()
        self._over = asyncio.Event()
        self._farewell = 0.0
        started: Future[str] = Future()
        serving = self._serve(address, keys, limits, started)
        self._thread = threading.Thread(target=self._run, args=(serving,), name="sojourn-grpc", daemon=True)
        self._thread.start()
        self.address = started.result(PATIENCE)
        """Address at which the engine serves, HOST:PORT."""

    @property
    def names(self) -> dict[str, int]:
        """Number of each client that is known by name."""
        return dict(self._admission.names)

    @property
    def problem(self) -> str | None:
        """What is wrong with the file of those who may join, whose last good content stays in force; None = nothing."""
        return None if self._registry is None else self._registry.problem

    @property
    def told(self) -> frozenset[str]:
        """Names of the clients that tried to join after the end, and were told of it."""
        return frozenset(self._service.told.copy())

    def now(self) -> float:
        """Return the engine's clock in seconds."""
        return time.monotonic()

    def offer(self, offer: Offer) -> None:
        """Put a task into its client's queue; a task that is there already stays as it is."""
        sizes = offer.params.numel(), 0 if offer.stats is None else offer.stats.numel()
        expected = self._work.parameters, self._work.statistics
        types = {self._dtype, offer.params.dtype, self._dtype if offer.stats is None else offer.stats.dtype}
        if sizes != expected or len(types) > 1:
            raise InvalidInput(
                f"a task must have a model of sizes {expected} and {self._dtype}, got {sizes} and {types}"
            )
        key = id(offer.params), id(offer.stats)
        payload = self._payloads.get(key)
        if payload is None:
            payload = self._payloads[key] = Payload(offer.params, offer.stats)
        self._hand(self._service.offer, Parcel(offer, payload))

    def withdraw(self, name: TaskName) -> None:
        """Forget a task; the update of a client that has it already becomes an event, and the loop answers it."""
        self._hand(self._service.withdraw, name)

    def receive(self, timeout: float) -> Event | None:
        """Return the next event; wait at most `timeout` seconds for it; None = nothing yet."""
        return self._service.events.get(timeout)

    def acknowledge(self, names: list[TaskName]) -> None:
        """Tell clients that these updates are safe."""
        for name in names:
            self._hand(self._service.settle, name, "")

    def refuse(self, name: TaskName, reason: str) -> None:
        """Tell a client that its update was not used, and why."""
        self._hand(self._service.settle, name, reason or "refused")

    def expel(self, client: int, reason: str) -> None:
        """Disconnect a client and admit it no more."""
        self._hand(self._service.expel, client, reason)

    def stop(self, ended: bool = True) -> None:
        """Stop; tell all clients that the run has ended, or leave them waiting for the server to come back."""
        if self._thread.is_alive():
            self._farewell = FAREWELL if ended else 0.0
            self._hand(self._over.set)
            self._thread.join(PATIENCE)

    def _hand(self, call: Callable[..., None], *given: Any) -> None:
        """Let the background thread make a call, with all others that are waiting."""
        self._inbox.append((call, given))
        if not self._called:
            self._called = True
            self._loop.call_soon_threadsafe(self._empty_inbox)

    def _empty_inbox(self) -> None:
        self._called = False
        while self._inbox:
            call, given = self._inbox.popleft()
            call(*given)

    def _run(self, serving: Any) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(serving)
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    async def _serve(self, address: str, keys: "ServerKeys | None", limits: Limits, started: Future[str]) -> None:
        server = grpc.aio.server(options=[*OPTIONS, ("grpc.max_receive_message_length", limits.message)])
        server.add_generic_rpc_handlers((handlers(self._service),))
        try:
            port = _bind(server, address, keys)
            await server.start()
        except Exception as error:  # the constructor raises it
            started.set_exception(error)
            return
        started.set_result(f"{address.rpartition(':')[0]}:{port}")
        await self._over.wait()
        if self._farewell:
            await self._service.end(self._farewell)
        await server.stop(LAST_CALLS if self._farewell else None)


def _bind(server: Any, address: str, keys: "ServerKeys | None") -> int:
    check_free(address)
    try:
        if keys is None:
            return int(server.add_insecure_port(address))
        credentials = grpc.ssl_server_credentials([(keys.key, keys.certificate)], keys.authority, True)
        return int(server.add_secure_port(address, credentials))
    except RuntimeError:
        raise InvalidInput(f"the server cannot listen at {address}; name another address") from None


def check_free(address: str) -> None:
    """Refuse an address that cannot be used; gRPC would not say why."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > MOST_PORT:
        raise InvalidInput(f"the server cannot listen at {address}: an address must be HOST:PORT; name another address")
    try:
        family, kind, _, _, place = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(place)
    except (OSError, ValueError) as error:
        busy = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        reason = "the address is in use" if busy else str(error)
        raise InvalidInput(f"the server cannot listen at {address}: {reason}; name another address") from None
