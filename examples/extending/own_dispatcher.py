"""Your own dispatcher in one file: two clients are drawn, and the one with fewer tasks gets the next one.

    python examples/extending/own_dispatcher.py

`choose` is compiled and called by the event engine. On the command line, name the dispatcher by its place:
PYTHONPATH=examples/extending sojourn simulate fleet.csv --dispatcher own_dispatcher:TwoChoices --start even
"""

from dataclasses import dataclass

import numpy as np

from sojourn import Dispatcher, Fleet, Plan, Scenario, measure
from sojourn.dispatching import DispatcherKind, register
from sojourn.random import MOVE, mix, unit
from sojourn.testing import check_dispatcher


@register
@dataclass(frozen=True)
class TwoChoices(DispatcherKind):
    """Mitzenmacher's power of two choices: far shorter queues than one random choice."""

    name = "two-choices"

    @staticmethod
    def choose(state, finisher, key):
        """Draw two, take the one with fewer tasks (the first if they are equal), and return the probability of that."""
        clients = state.tasks.size
        key += MOVE
        first = np.int64(unit(mix(key)) * clients)
        key += MOVE
        second = np.int64(unit(mix(key)) * clients)
        client = second if state.tasks[second] < state.tasks[first] else first
        as_many = more = 0  # clients with as many tasks or more, and with more
        for other in range(clients):
            as_many += state.tasks[other] >= state.tasks[client]
            more += state.tasks[other] > state.tasks[client]
        return client, (as_many + more) / clients**2, key


def main():
    check_dispatcher("two-choices")
    print("check_dispatcher: TwoChoices is a dispatcher")
    fleet = Fleet.of(phones=(20, 1.0))
    plan = Plan.uniform(fleet, concurrency=40)
    for text in ("routed", "two-choices"):
        scenario = Scenario(dispatcher=Dispatcher.parse(text))
        summary = measure(fleet, plan, 100_000, start="even", scenario=scenario, seed=1)
        print(f"{text}: throughput {float(summary.throughput.value):.1f} of 20")


if __name__ == "__main__":
    main()
