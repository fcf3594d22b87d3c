"""restarting: every client works on one task after the other; the server cancels running tasks and begins them anew.

One of three rules says when:

    wait      whenever so many updates have come back, all running tasks are cancelled
    harmonic  all are cancelled as soon as the harmonic mean over clients of the updates that came back since the last
              time has reached S/n (with `strict`: exceeds it), so that every client has sent one at least
    age       a task is cancelled as soon as so many updates were applied since it was sent

A cancelled task begins anew at the same client with the present model. In the trace it is dropped at that time, before
the update that cancels it; its `work` is the local steps that it had begun, which are lost. Clients are told at once,
so there may be no links.

Clients that begin together are told in turn, the client after the last finisher first, so that equally fast clients
come back in turn too.
"""

from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from sojourn.compiled import bare
from sojourn.dispatching import register
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.timing.dispatch.conducted import ENDLESS, Conducted, check_everyone, check_no_links
from sojourn.timing.dispatch.without_queues import work_within
from sojourn.timing.simulate import engine
from sojourn.timing.simulate.drive import Stays, TaskRows, add_up, record
from sojourn.timing.simulate.engine import NOBODY, Engine
from sojourn.timing.simulate.event_tree import clear
from sojourn.timing.simulate.jump_chain import Tally
from sojourn.trace import DROPPED
from sojourn.types import Integers

ROUNDING = 1e-9  # two numbers that differ by less than this part are equal


class Gathered(NamedTuple):
    """What has come back since the running tasks were cancelled."""

    counts: Integers
    """Updates of each client."""
    total: Integers
    """[updates, clients with at least one]."""


@bare
def _enough(gathered: Gathered, wait: int, harmonic: float, strict: bool) -> bool:
    """Whether so much has come back that all running tasks are cancelled."""
    if wait > 0:
        return gathered.total[0] >= wait
    clients = gathered.counts.size
    if harmonic == 0.0 or gathered.total[1] < clients:
        return False
    inverse = 0.0
    for client in range(clients):
        inverse += 1.0 / gathered.counts[client]
    least = harmonic * inverse
    square = np.float64(clients) * clients
    return bool(square > least * (1 + ROUNDING) or (not strict and square >= least * (1 - ROUNDING)))


@bare
def _cancel(e: Engine, client: int, sums: Tally, times: Stays, out: TaskRows, row: int, began: float) -> int:
    """Cancel the client's task and begin it anew; return the rows filled."""
    now = e.world[0].clock
    slot = e.clients[client].head
    clear(e.world, e.tree, e.seats, e.clients[client].seat)
    engine.leave(e, sums, client, now, began)
    times.lost[e.clients[client].group] += 1
    filled = 0
    if out.client.size > 0:
        task = e.slots[slot]
        lasted = now - task.started_at
        nth: Any = np.int64(task.nth)
        most: Any = np.int64(1) if e.world[0].one_draw else np.int64(task.work)
        begun = 0
        if lasted > 0.0:
            _, done = work_within(e, client, nth, lasted, most)
            begun = min(done + 1, most)
        task.finished_at = np.nan
        record(e, out, row, slot, False)
        out.work[row] = begun
        out.fate[row] = DROPPED
        filled = 1
    engine.send(e, sums, slot, client, e.slots[slot].prob, e.world[0].local_steps, began)
    return filled


@bare
def play_restarting(
    e: Engine,
    gathered: Gathered,
    sums: Tally,
    times: Stays,
    out: TaskRows,
    steps: int,
    began: float,
    wait: int,
    harmonic: float,
    strict: bool,
    age: int,
) -> tuple[int, int]:
    """Play until `steps` updates are applied or `out` may have no room for the tasks that the next one cancels."""
    clients = e.clients.size
    room = out.client.size
    done = rows = 0
    while done < steps and (room == 0 or rows + clients + 1 <= room):
        slot, _ = engine.arrive(e, sums, began, ENDLESS)
        if slot == NOBODY:
            break
        finisher: Any = np.int64(e.slots[slot].client)
        add_up(e, sums, times, slot, e.clients[e.slots[slot].client].group, sums.bins.shape[0] > 1)
        e.world[0].step += 1
        gathered.total[0] += 1
        gathered.total[1] += gathered.counts[finisher] == 0
        gathered.counts[finisher] += 1
        everyone = _enough(gathered, wait, harmonic, strict)
        if everyone:
            gathered.total[:] = 0
            gathered.counts[:] = 0
        if everyone or age > 0:
            step = e.world[0].step
            for turn in range(1, clients):
                client = (finisher + turn) % clients
                if everyone or step - e.slots[e.clients[client].head].dispatched_step >= age:
                    rows += _cancel(e, client, sums, times, out, rows, began)
        if room > 0:
            record(e, out, rows, slot, True)
            out.applied_step[rows] -= 1
        rows += 1
        done += 1
        engine.send(e, sums, slot, finisher, e.slots[slot].prob, e.world[0].local_steps, began)
    return done, rows


@register
@dataclass(frozen=True)
class Restarting(Conducted):
    """Running tasks are cancelled and begin anew."""

    name = "restarting"
    closes = False
    not_live = "cancels running tasks, and a live task runs to its end"
    counts_updates = True

    wait: int | None = None
    """Cancel all whenever so many updates have come back."""
    harmonic: float | None = None
    """Cancel all when the harmonic mean of the clients' updates has reached this number over n."""
    strict: bool = False
    """harmonic: whether the mean must exceed the number rather than reach it."""
    age: int | None = None
    """Cancel a task when so many updates were applied since it was sent."""

    def __post_init__(self) -> None:
        self.check_count("wait")
        self.check_count("age")
        if self.harmonic is not None and not (isfinite(self.harmonic) and self.harmonic > 0):
            raise InvalidInput(f"dispatcher restarting: harmonic must be positive and finite, got {self.harmonic}")
        if sum(rule is not None for rule in (self.wait, self.harmonic, self.age)) != 1:
            raise InvalidInput(
                "dispatcher restarting needs one of wait, harmonic and age; write for example restarting(wait=8)"
            )

    def check(self, fleet: Fleet, plan: Plan) -> None:
        """Raise an error unless every client works, without links."""
        check_everyone(self, fleet, plan)
        check_no_links(self, fleet, "cancels tasks at once")

    def begin(self, e: Engine, fleet: Fleet, plan: Plan) -> Gathered:
        """Begin with nothing gathered."""
        return Gathered(np.zeros(fleet.clients, np.int64), np.zeros(2, np.int64))

    def play(
        self, e: Engine, memory: Gathered, sums: Tally, times: Stays, out: TaskRows, steps: int, began: float
    ) -> tuple[int, int]:
        """Play update by update."""
        rules = (self.wait or 0, self.harmonic or 0.0, self.strict, self.age or 0)
        return play_restarting(e, memory, sums, times, out, steps, began, *rules)
