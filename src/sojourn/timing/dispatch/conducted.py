"""Dispatchers that drive the event engine themselves: the server decides when updates count and when tasks stop.

A queued dispatcher answers one question: who gets the next task. A conducted one plays its own loop over the same
engine, with the same clients, links and random numbers, and does what a choice alone cannot: it holds arrivals back
until others are there, cancels running tasks, sets times of its own, or says how many local steps a task has. Updates
that are applied together have consecutive steps and the same `applied_at`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sojourn.dispatching import DispatcherKind
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.scenario import Dispatcher, Scenario
from sojourn.timing.simulate import drive
from sojourn.timing.simulate.drive import Stays, TaskRows
from sojourn.timing.simulate.engine import Engine
from sojourn.timing.simulate.jump_chain import Tally
from sojourn.timing.simulate.start import place
from sojourn.types import Flags, Integers

ENDLESS: Any = np.int64(2**62)  # more events than any run has: nothing but tasks that end interrupts the engine


@dataclass(frozen=True)
class Conducted(DispatcherKind):
    """A dispatcher with a loop of its own over the event engine."""

    queued = False
    closes: ClassVar[bool] = True
    """Whether updates are applied in batches, each of which ends a round or period of the server."""

    @property
    def policy(self) -> str:
        """The queued dispatcher that chooses clients."""
        return "pure"

    def ticks(self, fleet: Fleet) -> int:
        """Return how many times of its own the server may have set at once."""
        return 0

    def spare(self, fleet: Fleet) -> int:
        """Return how many slots the dispatcher needs for tasks that it keeps while their clients go on."""
        return 0

    def in_flight(self, e: Engine, memory: Any) -> Flags:
        """Return which slots hold a task that has not been applied."""
        return np.ones(e.slots.size, np.bool_)

    def begin(self, e: Engine, fleet: Fleet, plan: Plan) -> Any:
        """Return the working memory of a run, a tuple of arrays; set the first times of the server's own."""
        raise NotImplementedError

    def play(
        self, e: Engine, memory: Any, sums: Tally, times: Stays, out: TaskRows, steps: int, began: float
    ) -> tuple[int, int]:
        """Apply at least `steps` updates, unless `out` is full before; return the updates applied and the rows filled.

        An `out` without rows records nothing. Times are added up from `began` on.
        """
        raise NotImplementedError


def conducted(kind: Conducted, fleet: Fleet, plan: Plan, scenario: Scenario, keys: Any, rng: Any) -> tuple[Engine, Any]:
    """Return a run at its beginning, with its tasks spread evenly, and the dispatcher's working memory."""
    if plan.capped:
        raise InvalidInput(
            f"dispatcher {kind.name} does not check caps, got a plan with a cap; use a plan without a cap"
        )
    kind.check(fleet, plan)
    queues: Integers = place("even", fleet, plan, rng)
    chosen = Scenario(Dispatcher(kind.policy), local_steps=scenario.local_steps, one_draw=scenario.one_draw)
    e = drive.build(fleet, plan, chosen, queues, keys, ticks=kind.ticks(fleet))
    e.world["estimated"] = False
    even = np.full(fleet.groups, 1 / fleet.clients)
    drive.tell_shares(e, plan.sampling if kind.policy == "routed" else even)
    e = e._replace(slots=np.concatenate([e.slots, np.zeros(kind.spare(fleet), e.slots.dtype)]))
    return e, kind.begin(e, fleet, plan)


def check_everyone(kind: Conducted, fleet: Fleet, plan: Plan) -> None:
    """Raise an error unless every client has one task."""
    if plan.concurrency != fleet.clients:
        sizes = f"got {plan.concurrency} and {fleet.clients} clients"
        raise InvalidInput(f"dispatcher {kind.name} keeps every client at work: concurrency must be n, {sizes}")


def check_no_links(kind: Conducted, fleet: Fleet, why: str) -> None:
    """Raise an error if the fleet has links."""
    if not (np.isinf(fleet.uplink_rate).all() and np.isinf(fleet.downlink_rate).all()):
        raise InvalidInput(f"dispatcher {kind.name} {why}, but this fleet has links; remove the links")
