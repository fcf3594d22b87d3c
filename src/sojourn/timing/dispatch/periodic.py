"""periodic: every client works on its own; once every `waiting + interaction` the server calls `contacts` clients.

A client does up to K local steps from the model that it received last, then it is idle. The clients that are called,
drawn without replacement, are interrupted, return what they have done and get the new model. A step that was running is
lost, and counts as a gradient that was not used.
"""

from dataclasses import dataclass

import numpy as np

from sojourn.compiled import bare
from sojourn.dispatching import register
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.timing.dispatch.without_queues import Scratch, WithoutQueues, between, pick, work_within
from sojourn.timing.simulate.drive import TaskRows
from sojourn.timing.simulate.engine import Engine
from sojourn.trace import APPLIED


@bare
def play_periods(e: Engine, out: TaskRows, periods: int, contacts: int, period: float) -> None:
    """Play whole periods; every period fills `contacts` rows of `out`. Slot i is client i's task."""
    row = 0
    for _ in range(periods):
        now = e.world[0].clock + period
        e.world[0].clock = now
        pick(e, contacts)
        for i in range(contacts):
            client = e.order[i]
            task = e.slots[client]
            most = e.world[0].local_steps
            passed, work = work_within(e, client, task.nth, now - task.dispatched_at, most)
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


@register
@dataclass(frozen=True)
class Periodic(WithoutQueues):
    """Calls clients at fixed times."""

    name = "periodic"
    not_live = "interrupts clients at set times, and a live task runs to its end"

    contacts: int | None = None
    """Number of clients that the server calls each time."""
    waiting: float = 0.0
    """Time in seconds that the server waits between two calls."""
    interaction: float = 0.0
    """Time in seconds that the server takes to send and receive."""

    def __post_init__(self) -> None:
        self.check_time("waiting")
        self.check_time("interaction")
        self.check_count("contacts")
        if self.contacts is None or self.waiting + self.interaction <= 0:
            raise InvalidInput(
                "dispatcher periodic needs contacts and a positive waiting + interaction; "
                "write periodic(contacts=20, waiting=4, interaction=3)"
            )

    def tasks(self, fleet: Fleet, plan: Plan) -> int:
        """Return the number of clients called; every client works, and there may be no links."""
        tasks = between("contacts", self.contacts, fleet.clients, "clients")
        if plan.concurrency != fleet.clients:
            sizes = f"got {plan.concurrency} and {fleet.clients} clients"
            raise InvalidInput(f"dispatcher periodic keeps every client at work: concurrency must be n, {sizes}")
        if not (np.isinf(fleet.uplink_rate).all() and np.isinf(fleet.downlink_rate).all()):
            raise InvalidInput("dispatcher periodic has its interaction time instead of links; remove the links")
        return tasks

    def applied(self, tasks: int) -> int:
        """Return all of them."""
        return tasks

    def play(self, e: Engine, scratch: Scratch, out: TaskRows, number: int) -> None:
        """Play whole periods."""
        play_periods(e, out, number, scratch.back.size, self.waiting + self.interaction)
