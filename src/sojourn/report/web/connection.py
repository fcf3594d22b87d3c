"""One connection to a page. It imports uvicorn, so it is imported by who serves alone."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD = 10.0  # seconds within which the whole head of a request must have come


class Connection(H11Protocol):
    """A connection that is closed if nothing is asked on it, so that idle ones keep no reader out."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, but not for ever."""
        super().connection_made(transport)
        self._wait_for_a_head()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a head, but not for ever; between requests uvicorn waits a few seconds by itself."""
        super().data_received(data)
        self._wait_for_a_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._came()
        super().connection_lost(exc)

    def _wait_for_a_head(self) -> None:
        cycle = getattr(self, "cycle", None)  # uvicorn says that it is never None, and begins with None
        if cycle is not None and not cycle.response_complete:
            self._came()
        elif self._late is None:  # more bytes of the same head give it no more time
            self._late = self.loop.call_later(HEAD, self.transport.close)

    def _came(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
