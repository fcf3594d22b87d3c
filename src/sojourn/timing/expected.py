"""Which exact theory a simulated run is compared with, and how far that theory applies.

Routed tasks are compared with the routed network, or with the capped one under a cap. `idle` is a cap of 1; `pure` with
one task per client is a full cap of 1. For other dispatchers there is no theory here: they are compared with the routed
network.
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
    """Return the exact analysis of a run, with the cap that its dispatcher implies and with rates of whole tasks.

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
    """Return sentences on what the theory assumes, for a reader who compares it with a simulation."""
    said = []
    capped = exact.plan.capped
    if exact.exact_for_any_law:
        said.append("nobody waits: the theory is exact for any service law")
    elif not exact.exact:
        said.append("the theory assumes exponential service with these means, and is exact only for it")
    if not (dispatcher == "routed" or (capped and dispatcher in ("idle", "pure"))):
        said.append(f"the theory assumes routed tasks; {dispatcher} dispatches in another way")
    if capped and not isinf(server_rate):
        said.append("the theory under a cap assumes a server that takes no time")
    return said
