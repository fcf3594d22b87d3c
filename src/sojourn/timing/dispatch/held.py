"""held: the server holds arrivals until there are `wait` of them, or until a tick every `waiting` seconds.

Then it applies them together and sends as many new tasks: to the clients that have returned (`assign=pure`), to clients
drawn by the plan (`routed`, which lets tasks queue), or to all in turn in a random order (`shuffled`). Who has returned
waits for the others or for the tick; who has not goes on with the model that it has. At a tick with nobody there,
nothing happens.

An update that arrives at the time of a tick counts for it, also if the two times differ by rounding.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sojourn.compiled import bare
from sojourn.dispatching import register
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.timing.dispatch.conducted import ENDLESS, Conducted
from sojourn.timing.simulate import engine
from sojourn.timing.simulate.drive import Stays, TaskRows, add_up, record
from sojourn.timing.simulate.engine import NOBODY, TICKED, TICKS, Engine
from sojourn.timing.simulate.event_tree import push, upcoming
from sojourn.timing.simulate.jump_chain import Tally
from sojourn.types import Integers

POLICIES = ("pure", "routed", "shuffled")
ROUNDING = 1e-9  # part of a period by which two times may differ and still be the same


class Waiting(NamedTuple):
    """The tasks that wait at the server."""

    slots: Integers
    """Their slots, in the order of arrival."""
    number: Integers
    """[how many there are]."""


@bare
def release(e: Engine, waiting: Waiting, sums: Tally, times: Stays, out: TaskRows, row: int, began: float) -> int:
    """Apply all tasks that wait, and send as many new ones; return how many they were."""
    count = waiting.number[0]
    for i in range(count):
        slot = waiting.slots[i]
        add_up(e, sums, times, slot, e.clients[e.slots[slot].client].group, sums.bins.shape[0] > 1)
        if out.client.size > 0:
            record(e, out, row + i, slot, True)
        e.world[0].step += 1
    for i in range(count):
        slot = waiting.slots[i]
        finisher: Any = np.int64(e.slots[slot].client)
        chosen, prob = engine.choose(e, finisher)
        engine.send(e, sums, slot, chosen, prob, e.world[0].local_steps, began)
    waiting.number[0] = 0
    return count


@bare
def play_held(
    e: Engine,
    waiting: Waiting,
    sums: Tally,
    times: Stays,
    out: TaskRows,
    steps: int,
    began: float,
    wait: int,
    period: float,
) -> tuple[int, int]:
    """Play until `steps` updates are applied or `out` has no room for another release."""
    done = 0
    room = out.client.size
    while done < steps and (room == 0 or done + waiting.slots.size <= room):
        slot, _ = engine.arrive(e, sums, began, ENDLESS)
        if slot == NOBODY:
            break
        if slot >= 0:
            waiting.slots[waiting.number[0]] = slot
            waiting.number[0] += 1
            if waiting.number[0] == wait:
                done += release(e, waiting, sums, times, out, done, began)
        elif slot == TICKED:
            now = e.world[0].clock
            following = upcoming(e.world, e.tree, e.seats)
            if following <= now + ROUNDING * period:  # it is due at this very tick
                push(e.world, e.tree, e.seats, following, 0, TICKS)
                continue
            done += release(e, waiting, sums, times, out, done, began)
            following = upcoming(e.world, e.tree, e.seats)
            windows = max(1.0, np.ceil((following - now) / period - ROUNDING))  # those with nobody there are passed
            push(e.world, e.tree, e.seats, now + windows * period, 0, TICKS)
    return done, done


@register
@dataclass(frozen=True)
class Held(Conducted):
    """Arrivals wait for each other or for a tick."""

    name = "held"

    wait: int | None = None
    """Number of arrivals to wait for."""
    waiting: float = 0.0
    """Time in seconds between two ticks."""
    assign: str = "pure"
    """Who gets the new tasks: pure (those who have returned), routed or shuffled."""

    def __post_init__(self) -> None:
        self.check_count("wait")
        self.check_time("waiting")
        if (self.wait is None) == (self.waiting == 0):
            raise InvalidInput(
                "dispatcher held needs the number of arrivals to wait for or the time between two ticks, one of them; "
                "write held(wait=8) or held(waiting=2.5)"
            )
        if self.assign not in POLICIES:
            raise InvalidInput(f"dispatcher held: assign must be one of {', '.join(POLICIES)}, got '{self.assign}'")

    @property
    def policy(self) -> str:
        """The dispatcher that chooses clients."""
        return self.assign

    @property
    def not_live(self) -> str:
        """Ticks need a clock of the server's own."""
        return "aggregates at set times, and a live server acts on arrivals alone" if self.waiting else ""

    @property
    def counts_updates(self) -> bool:
        """Where it gathers a number of them."""
        return self.wait is not None

    def batch(self, concurrency: int) -> int:
        """Return the number of arrivals to wait for."""
        return self.wait or 0

    def ticks(self, fleet: Fleet) -> int:
        """Return one where there are ticks."""
        return int(self.waiting > 0)

    def check(self, fleet: Fleet, plan: Plan) -> None:
        """Raise an error if the server would wait for more tasks than there are."""
        if self.wait is not None and self.wait > plan.concurrency:
            raise InvalidInput(
                f"dispatcher held: wait must be at most the {plan.concurrency} tasks in flight, got {self.wait}; "
                "lower wait, or raise the concurrency"
            )

    def begin(self, e: Engine, fleet: Fleet, plan: Plan) -> Waiting:
        """Set the first tick."""
        if self.waiting > 0:
            push(e.world, e.tree, e.seats, self.waiting, 0, TICKS)
        return Waiting(np.empty(e.slots.size, np.int64), np.zeros(1, np.int64))

    def play(
        self, e: Engine, memory: Waiting, sums: Tally, times: Stays, out: TaskRows, steps: int, began: float
    ) -> tuple[int, int]:
        """Play whole releases."""
        return play_held(e, memory, sums, times, out, steps, began, self.wait or 0, self.waiting)
