"""Clients over gRPC: join, pull tasks, do the work, push updates; come back after a broken connection.

All clients of a process share one connection and one thread that computes, one task at a time. A client keeps each
update until it is told what became of it.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from sojourn.errors import InvalidInput, SojournError
from sojourn.live.engines.grpc.calls import Calls
from sojourn.live.engines.grpc.loops import QuietLoop
from sojourn.live.engines.grpc.one_client import Client
from sojourn.live.worker import Worker

if TYPE_CHECKING:
    from sojourn.live.keys import ClientKeys

LOOK = 0.1  # seconds between looks at `stop`
COUNTS = ("tasks", "pushed", "acknowledged", "refused", "rejoined", "failed")

OnEvent = Callable[[str, str], None]
"""Called with a client's name and what happened to it, in words."""


def run_clients(
    address: str,
    clients: Mapping[str, Worker],
    *,
    keys: "ClientKeys | None" = None,
    stop: threading.Event | None = None,
    patience: float | None = None,
    on_event: OnEvent | None = None,
) -> dict[str, int]:
    """Run these clients until the run ends or `stop` is set; return how often what happened.

    A client that does not reach the server for `patience` seconds gives up; None = it never does. A client that the
    server refuses ends; if no client is left, the first refusal is raised. The counts are: tasks computed, updates
    pushed, updates acknowledged and refused, connections made again, and clients that failed. After Ctrl-C the clients
    leave, and KeyboardInterrupt is raised.
    """
    if not clients:
        raise InvalidInput("there must be one client at least, got none; name one")
    with asyncio.Runner(loop_factory=QuietLoop) as runner:
        return runner.run(_run(address, clients, keys, stop, patience, on_event or (lambda name, words: None)))


async def _run(
    address: str,
    clients: Mapping[str, Worker],
    keys: "ClientKeys | None",
    stop: threading.Event | None,
    patience: float | None,
    on_event: OnEvent,
) -> dict[str, int]:
    calls, thread, counts = Calls(address, keys), ThreadPoolExecutor(1, "sojourn-work"), Counter[str]()
    ones = [Client(name, worker, calls, thread, counts, patience, on_event) for name, worker in clients.items()]
    tasks = {asyncio.create_task(one.run()): one for one in ones}
    errors: list[SojournError] = []

    def note(task: "asyncio.Task[None]", error: SojournError) -> None:
        errors.append(error)
        if len(ones) > 1:  # the error of a single client is raised
            on_event(tasks[task].name, str(error))

    try:
        await _all_done(set(tasks), stop, note)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(one.leave("the client was stopped") for one in ones), return_exceptions=True)
        await calls.channel.close()
        thread.shutdown(wait=False, cancel_futures=True)
    if len(errors) == len(ones):
        raise errors[0]
    counts["failed"] = len(errors)
    return {key: counts[key] for key in COUNTS}


async def _all_done(
    tasks: set["asyncio.Task[None]"],
    stop: threading.Event | None,
    note: Callable[["asyncio.Task[None]", SojournError], None],
) -> None:
    """Wait until all tasks are done or `stop` is set; note the errors that are for the user, raise all others."""
    while tasks and not (stop is not None and stop.is_set()):
        done, tasks = await asyncio.wait(
            tasks, timeout=LOOK if stop is not None else None, return_when=asyncio.FIRST_COMPLETED
        )
        for task in done:
            with suppress(asyncio.CancelledError):
                error = task.exception()
                if isinstance(error, SojournError):
                    note(task, error)
                elif error is not None:
                    raise error
