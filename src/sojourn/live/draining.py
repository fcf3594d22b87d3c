"""Draining: a run that is stopped sends no more tasks, and waits a moment for those that are likely to be back soon.

What comes back meanwhile is applied and recorded as always, so nothing changes for a replay. Tasks that are not back
by then stay in flight for the resume, as after a kill.
"""

from collections.abc import Callable, Mapping
from math import isnan
from typing import TYPE_CHECKING, Any

from sojourn.live.engine import TaskName
from sojourn.live.flying import UNDECIDED

if TYPE_CHECKING:
    from sojourn.live.loop import Loop

SECONDS = 5.0  # that a run which is stopped waits at most


def drain(
    loop: "Loop", seconds: float, report: Callable[[str, Mapping[str, Any]], None], watch: Callable[[], None]
) -> None:
    """Let a loop take what comes back within `seconds`, or until all that is likely to come has come; `watch` is called
    after every event.
    """
    loop.stopping, until = True, loop.engine.now() + seconds
    awaited = due_within(loop, seconds)
    report("stopping", {"received": loop.server.received, "awaited": len(awaited), "seconds": seconds})
    while not loop.done and any(one.name in awaited for one in loop.pending.values()):
        rest = until - loop.engine.now()
        if rest <= 0:
            return
        loop.turn(rest)
        watch()


def due_within(loop: "Loop", seconds: float) -> set[TaskName]:
    """Return the tasks that are due within so many seconds, by what their clients usually take for one after the other;
    one of an earlier server only if its client has said that it has it.
    """
    now, found, due = loop.now, set(), dict[int, float]()
    for one in loop.pending.values():
        client = one.name.client
        if one.place != UNDECIDED:
            begun = due.get(client, now if isnan(one.pulled_at) else one.pulled_at)
            due[client] = max(now, begun + loop.patience.usual(client))
            if due[client] <= now + seconds:
                found.add(one.name)
    return found
