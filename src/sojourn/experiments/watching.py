"""What a page is told about a run before it looks: who is in it, what it was given, and what theory promises."""

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.errors import SojournError
from sojourn.experiments.observe import Known
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.scenario import Scenario
from sojourn.timing.expected import expected
from sojourn.timing.shares import as_served
from sojourn.watched import Described, Promise

ALL = "all clients"  # the group of a run whose fleet is not known


def described(
    folder: Path, live: bool, config: Mapping[str, Any], policy: Known, clients: int | None = None
) -> Described:
    """Describe the run in a folder; `clients` is their number if its fleet is not known."""
    updates, time = (float(config.get(key) or inf) for key in ("steps", "time"))
    fleet = policy.fleet
    if fleet is None or (clients is not None and fleet.clients != clients):
        many = clients or 0
        names = tuple(f"client {one}" for one in range(many))
        return Described(
            str(folder), live, (ALL,), np.zeros(many, np.int64), names, None, updates, time, notes=policy.notes
        )
    told = None
    if policy.given is not None and policy.scenario is not None:
        served = as_served(policy.given, policy.scenario)
        told = np.repeat(1 / served.rate + served.link_time, served.count)
    names = tuple(map(fleet.client_name, range(fleet.clients)))
    return Described(
        str(folder), live, fleet.name, fleet.group_of_client, names, told, updates, time, notes=policy.notes
    )


def promised(fleet: Fleet | None, plan: Plan | None, scenario: Scenario | None) -> tuple[Promise, ...]:
    """Return what theory promises for a plan that never changes; nothing if it cannot be told."""
    if fleet is None or plan is None or scenario is None:
        return ()
    try:
        exact = expected(fleet, plan, scenario)
    except SojournError:
        return ()
    share = (fleet.count * exact.share).tolist()
    return (Promise(0.0, 0, "start", plan.concurrency, exact.throughput, share, exact.staleness().tolist()),)
