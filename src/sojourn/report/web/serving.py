"""Serving: a page on 127.0.0.1, in a thread with an event loop of its own, which is stopped cleanly."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from types import TracebackType
from typing import Any, Self

from sojourn.errors import InvalidInput, SojournError
from sojourn.report.web.secure import App, Gate
from sojourn.report.web.tokens import Token

WEB = __name__.rpartition(".")[0]  # the package that has proof.js
HOST = "127.0.0.1"
READERS = 64  # connections at the same time
PATIENCE = 5.0  # seconds that answers have to come to their end when the server stops
START = 60.0  # seconds until it must answer
THREAD = "dashboard"  # how the names of its threads begin
LIBRARIES = ("starlette", "uvicorn", "jinja2")


def need_libraries(names: Iterable[str] = LIBRARIES) -> None:
    """Refuse in one sentence where a library is missing that a page on 127.0.0.1 needs."""
    for name in names:
        try:
            import_module(name)
        except ImportError:
            raise SojournError(
                f"this page needs {name}, which is not installed; pip install 'sojourn[dashboard]'"
            ) from None


class Serving:
    """A page that is served from `start` to `stop`, or during a `with` block.

    `app` is what answers (ASGI), `policy` its Content-Security-Policy, and `port` where (0 = any that is free).
    `stopping` is set when the server begins to stop: whatever sends events for ever has to end then.
    """

    def __init__(
        self, app: App, token: Token, policy: str, port: int = 0, stopping: threading.Event | None = None
    ) -> None:
        need_libraries(("uvicorn",))
        import uvicorn

        from sojourn.report.web.connection import Connection

        self.token, self.stopping = token, stopping or threading.Event()
        self._socket = listening(port)
        self.port = int(self._socket.getsockname()[1])
        config = uvicorn.Config(
            Gate(app, self.port, token, policy),
            loop="asyncio",
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,  # nothing about requests is written anywhere
            log_level="critical",
            access_log=False,
            server_header=False,
            limit_concurrency=READERS,
            timeout_graceful_shutdown=int(PATIENCE),
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name=THREAD, daemon=True)

    @property
    def address(self) -> str:
        """Where the page is; the token is never a part of it."""
        return f"http://{HOST}:{self.port}/"

    def start(self) -> Self:
        """Serve from now on, and return when the page answers; if that fails or is interrupted, nothing is left."""
        try:
            self._thread.start()
            until = time.monotonic() + START
            while not self._server.started and self._thread.is_alive() and time.monotonic() < until:
                time.sleep(0.005)
            if not self._server.started:
                raise SojournError(f"the page at port {self.port} does not start; try another port")
        except BaseException:
            self.stop()
            raise
        return self

    def wait(self, done: Callable[[], bool] = lambda: False) -> None:
        """Return when Ctrl-C is pressed, or when `done` says so."""
        with suppress(KeyboardInterrupt):
            while self._thread.is_alive() and not done():
                self._thread.join(0.2)

    def stop(self) -> None:
        """End what is being sent, close the port, and wait for the thread."""
        self.stopping.set()
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(PATIENCE + START)
        self._socket.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))


def listening(port: int) -> socket.socket:
    """Return a socket that listens on 127.0.0.1 alone; a port that is taken is refused in one sentence."""
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65535:
        raise InvalidInput(f"a port must be a whole number from 0 (any that is free) to 65535, got {port}")
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a killed server's port is free at once
        found.bind((HOST, port))
        found.listen(128)
    except OSError as error:
        found.close()
        raise InvalidInput(f"the page cannot be served at port {port}: {error.strerror}; give another port") from None
    return found


async def limited_body(request: Any, most: int) -> bytes:
    """Return the body of a request of Starlette; one of more bytes is refused."""
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > most:
            raise InvalidInput(f"a message must have at most {most:,} bytes, got more")
    return bytes(found)


def event(name: str, text: str) -> bytes:
    r"""Return a server-sent event; the text has no line breaks (JSON has none).

    >>> event("change", '{"updates": 3}')
    b'event: change\ndata: {"updates": 3}\n\n'
    """
    return f"event: {name}\ndata: {text}\n\n".encode()
