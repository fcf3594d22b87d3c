"""One connection to a page. It imports uvicorn, so it is imported by who serves alone."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD = 10.0  # seconds within which the whole head of a request must have come


class Connection(H11Protocol):
    """A connection that is closed if nothing is asked on it, so that idle ones keep no reader out."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, but not for ever; after an answer uvicorn does the same."""
        super().connection_made(transport)
        self.loop.call_later(HEAD, self._asked_or_closed)

    def _asked_or_closed(self) -> None:
        if getattr(self, "cycle", None) is None:  # uvicorn says that it is never None, and begins with None
            self.transport.close()
