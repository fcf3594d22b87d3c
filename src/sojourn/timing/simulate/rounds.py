"""Servers that act by themselves: rounds with a barrier, and periodic calls that interrupt.

rounds: the server draws C clients without replacement, sends all of them the model, waits for all or for the first
`wait` of them, applies those together and takes `interaction` before the next round; the others are dropped.

periodic: every client works on its own, up to K local steps from the model it was given last, then idles. Each
`waiting + interaction` the server calls `contacts` clients drawn without replacement, interrupts them, takes what they
have done (a step under way is lost) and gives them the new model.

A step is an update received: those applied together have neighbouring steps and one `applied_at`.
"""

from typing import NamedTuple

import numpy as np

from sojourn.compiled import bare
from sojourn.random import MOVE, mix, unit
from sojourn.timing.simulate.draws import draw, named
from sojourn.timing.simulate.drive import TaskRows
from sojourn.timing.simulate.engine import Engine
from sojourn.trace import APPLIED, DROPPED
from sojourn.types import Floats, Integers


class Scratch(NamedTuple):
    """Room for one round."""

    finished: Floats
    back: Floats
    started: Floats
    rank: Integers


@bare
def _pick(e: Engine, number: int) -> None:
    """Bring `number` clients drawn without replacement to the front of e.order."""
    key = e.world[0].routing
    for turn in range(number):
        key += MOVE
        other = turn + np.int64(unit(mix(key)) * (e.order.size - turn))
        e.order[turn], e.order[other] = e.order[other], e.order[turn]
    e.world[0].routing = key


@bare
def _round_trip(e: Engine, client: int) -> tuple[float, float, float]:
    """Downlink, service and uplink time of the client's next task."""
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
    work, _ = _work(e, client, nth, np.inf, 1 if world.one_draw else world.local_steps)
    return down, work, up


@bare
def _work(e: Engine, client: int, nth: int, allowed: float, most: int) -> tuple[float, int]:
    """Time and number of the local steps of a client's nth task that end within `allowed`, at most `most`."""
    law = e.groups[e.clients[client].group]
    key = named(e.world[0].service_key, client, nth)
    passed = 0.0
    for step in range(most):
        x, key = draw(
            law.service_code, law.service_shape, law.service_scale, law.service_first, law.service_size, e.numbers, key
        )
        if passed + x * law.service_time > allowed:
            return passed, step
        passed += x * law.service_time
    return passed, most


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
        _pick(e, size)
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
            out.work[row] = e.world[0].local_steps if applied else 0
            out.fate[row] = APPLIED if applied else DROPPED
            row += 1
        e.world[0].step = model + wait
        e.world[0].clock = end + interaction


@bare
def play_periods(e: Engine, out: TaskRows, periods: int, contacts: int, period: float) -> None:
    """Play whole periods; every period fills `contacts` rows of `out`. Slot i is client i's task."""
    row = 0
    for _ in range(periods):
        now = e.world[0].clock + period
        e.world[0].clock = now
        _pick(e, contacts)
        for i in range(contacts):
            client = e.order[i]
            task = e.slots[client]
            most = e.world[0].local_steps
            passed, work = _work(e, client, task.nth, now - task.dispatched_at, most)
            out.client[row] = client
            out.prob[row] = 1.0 / e.order.size
            out.dispatched_at[row] = task.dispatched_at
            out.started_at[row] = task.dispatched_at
            out.finished_at[row] = task.dispatched_at + passed if work == most else now
            out.applied_at[row] = now
            out.dispatched_step[row] = task.dispatched_step
            out.applied_step[row] = e.world[0].step + i
            out.work[row] = work
            out.fate[row] = APPLIED
            row += 1
        e.world[0].step += contacts
        for i in range(contacts):
            task = e.slots[e.order[i]]
            task.nth += 1
            task.dispatched_at = now
            task.dispatched_step = e.world[0].step
