"""Which exact theory a simulated run is held against, and how far it reaches.

Routed tasks have the routed network, or the capped one under a cap. `idle` is a cap of 1; `pure` with one task a client
is a cap of 1 that is full. Other dispatchers have no theory here: they are shown beside the routed network.
"""

from dataclasses import replace
from math import isinf

import numpy as np

from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.scenario import Scenario
from sojourn.timing.exact.analysis import Analysis, analyze
from sojourn.timing.shares import as_dispatched, as_served


def expected(fleet: Fleet, plan: Plan, scenario: Scenario) -> Analysis:
    """The exact analysis of a run, with the cap that its dispatcher brings and whole tasks served.

    >>> from sojourn.scenario import Dispatcher
    >>> fleet = Fleet.of(fast=(90, 8.0), slow=(10, 1.0))
    >>> round(expected(fleet, Plan.uniform(fleet, 50), Scenario(Dispatcher("idle"))).throughput, 3)
    338.867
    """
    held = replace(as_dispatched(plan, scenario), fleet_hash=None)
    if scenario.dispatcher.name == "pure" and plan.concurrency == fleet.clients:
        held = replace(held, cap=np.ones(fleet.groups))
    server = None if isinf(scenario.server_rate) or held.capped else scenario.server_rate
    return analyze(as_served(fleet, scenario), held, server_rate=server)


def reach(exact: Analysis, dispatcher: str, server_rate: float) -> list[str]:
    """What a reader should know of the theory beside a simulation, as sentences."""
    said = []
    capped = exact.plan.capped
    if exact.exact_for_any_law:
        said.append("nobody waits: the theory is exact for any service law")
    elif not exact.exact:
        said.append("the theory is that of exponential service with these means, and exact only for it")
    if not (dispatcher == "routed" or (capped and dispatcher in ("idle", "pure"))):
        said.append(f"the theory is that of routed tasks; {dispatcher} is another way to dispatch")
    if capped and not isinf(server_rate):
        said.append("the theory under a cap is that of a server that takes no time")
    return said
