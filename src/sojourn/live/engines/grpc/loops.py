"""Event loops that bear two known faults of grpc.aio, whose loops share one queue of events per process.

A loop is sometimes woken for nothing, and is handed events after it has been closed. Both are harmless, but the first
would be reported as an error, and the second would take away events of the other loops.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any


class QuietLoop(asyncio.SelectorEventLoop):
    """An event loop that does not mind late events and wake-ups without cause."""

    def __init__(self) -> None:
        super().__init__()
        self.set_exception_handler(_report)

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Call soon, or never if the loop is closed."""
        try:
            return super().call_soon_threadsafe(callback, *args, context=context)
        except RuntimeError:
            if not self.is_closed():
                raise
            return asyncio.Handle(callback, args, self, context)


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if not isinstance(context.get("exception"), BlockingIOError):
        loop.default_exception_handler(context)
