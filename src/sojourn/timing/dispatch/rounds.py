"""rounds: C clients drawn without replacement; the server waits for all of them, or for the first `wait`.

The server sends the model to all C clients, applies together the updates that it waited for, drops the others, and
takes the time `interaction` before the next round. The `work` of a dropped task is the local steps that it had begun.
"""

from dataclasses import dataclass

import numpy as np

from sojourn.compiled import bare
from sojourn.dispatching import register
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.timing.dispatch.without_queues import Scratch, WithoutQueues, between, pick, work_within
from sojourn.timing.simulate.draws import draw, named
from sojourn.timing.simulate.drive import TaskRows
from sojourn.timing.simulate.engine import Engine
from sojourn.trace import APPLIED, DROPPED


@bare
def _round_trip(e: Engine, client: int) -> tuple[float, float, float]:
    """Return downlink, service and uplink time of the client's next task."""
    law, world = e.groups[e.clients[client].group], e.world[0]
    nth = e.clients[client].sent
    e.clients[client].sent += 1
    down = up = 0.0
    if law.downlink_time > 0.0:
        key = named(world.downlink_key, client, nth)
        x, _ = draw(
            law.downlink_code,
            law.downlink_shape,
            law.downlink_scale,
            law.downlink_first,
            law.downlink_size,
            e.numbers,
            key,
        )
        down = x * law.downlink_time
    if law.uplink_time > 0.0:
        key = named(world.uplink_key, client, nth)
        x, _ = draw(
            law.uplink_code, law.uplink_shape, law.uplink_scale, law.uplink_first, law.uplink_size, e.numbers, key
        )
        up = x * law.uplink_time
    work, _ = work_within(e, client, nth, np.inf, 1 if world.one_draw else world.local_steps)
    return down, work, up


@bare
def _begun(e: Engine, client: int, lasted: float) -> int:
    """Return the local steps that a client has begun of its last task, `lasted` after the service began."""
    most = 1 if e.world[0].one_draw else e.world[0].local_steps
    if not lasted > 0.0:
        return 0
    _, done = work_within(e, client, e.clients[client].sent - 1, lasted, most)
    return min(done + 1, most)


@bare
def _sort(scratch: Scratch, size: int) -> None:
    """Rank the round's tasks by the time they are back; equal times keep the order of drawing."""
    for i in range(size):
        j = i
        while j > 0 and scratch.back[scratch.rank[j - 1]] > scratch.back[i]:
            scratch.rank[j] = scratch.rank[j - 1]
            j -= 1
        scratch.rank[j] = i


@bare
def play_rounds(e: Engine, scratch: Scratch, out: TaskRows, rounds: int, wait: int, interaction: float) -> None:
    """Play whole rounds; every round fills as many rows of `out` as it has tasks."""
    size = scratch.back.size
    row = 0
    for _ in range(rounds):
        began, model = e.world[0].clock, e.world[0].step
        pick(e, size)
        for i in range(size):
            down, work, up = _round_trip(e, e.order[i])
            scratch.started[i] = began + down
            scratch.finished[i] = began + down + work
            scratch.back[i] = began + down + work + up
        _sort(scratch, size)
        end = scratch.back[scratch.rank[wait - 1]]
        for place in range(size):
            i = scratch.rank[place]
            applied = place < wait
            out.client[row] = e.order[i]
            out.prob[row] = 1.0 / e.order.size
            out.dispatched_at[row] = began
            out.started_at[row] = scratch.started[i] if scratch.started[i] <= end else np.nan
            out.finished_at[row] = scratch.finished[i] if scratch.finished[i] <= end else np.nan
            out.applied_at[row] = end
            out.dispatched_step[row] = model
            out.applied_step[row] = model + place if applied else -1
            out.work[row] = e.world[0].local_steps if applied else _begun(e, e.order[i], end - scratch.started[i])
            out.fate[row] = APPLIED if applied else DROPPED
            row += 1
        e.world[0].step = model + wait
        e.world[0].clock = end + interaction


@register
@dataclass(frozen=True)
class Rounds(WithoutQueues):
    """Rounds with a barrier."""

    name = "rounds"

    wait: int | None = None
    """Number of updates to wait for; None = all. The other updates are dropped."""
    interaction: float = 0.0
    """Time in seconds that the server takes to send and receive."""

    def __post_init__(self) -> None:
        self.check_time("interaction")
        self.check_count("wait")

    @property
    def policy(self) -> str:
        """Nobody has a task when a round begins, so drawing without replacement is drawing idle clients."""
        return "idle"

    @property
    def not_live(self) -> str:
        """A live round ends with its last task, and the next begins at once."""
        if self.wait is not None:
            return "drops the last tasks of a round, and a live task runs to its end"
        return "pauses between rounds, which only a simulated server does" if self.interaction else ""

    def batch(self, concurrency: int) -> int:
        """Return the tasks of a round."""
        return concurrency

    def tasks(self, fleet: Fleet, plan: Plan) -> int:
        """Return C, which is at most n, since clients are drawn without replacement; `wait` is at most C."""
        tasks = between("concurrency", plan.concurrency, fleet.clients, "clients")
        between("wait", self.applied(tasks), tasks, "tasks of a round")
        return tasks

    def applied(self, tasks: int) -> int:
        """Return the number of updates that are waited for."""
        return self.wait or tasks

    def play(self, e: Engine, scratch: Scratch, out: TaskRows, number: int) -> None:
        """Play whole rounds."""
        play_rounds(e, scratch, out, number, self.applied(scratch.back.size), self.interaction)
