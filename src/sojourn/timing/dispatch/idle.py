"""idle: draw a client without a task, by the plan's weights; no task waits, so there may be no more tasks than clients.

This is the same as routed tasks with a cap of 1.
"""

from dataclasses import dataclass

from sojourn.dispatching import DispatcherKind, register
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan


@register
@dataclass(frozen=True)
class Idle(DispatcherKind):
    """Draws among idle clients by the plan's weights."""

    name = "idle"
    not_live = ""

    def check(self, fleet: Fleet, plan: Plan) -> None:
        """Raise an error unless C <= n."""
        if plan.concurrency > fleet.clients:
            sizes = f"{plan.concurrency} > {fleet.clients}"
            raise InvalidInput(f"dispatcher idle needs concurrency <= clients, got {sizes}; lower the concurrency")
