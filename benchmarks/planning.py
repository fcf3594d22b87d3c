"""The planner: the cost of a gradient in evaluations, a whole plan against finite differences, and large plans."""

from dataclasses import replace
from time import perf_counter, thread_time

import numpy as np
from figure import Figure, in_units

from sojourn import Fleet, Plan, goal, make_plan
from sojourn.planning.bound.objective import Objective, Prediction

GOAL = goal(time=1000)
HEAD = "| plan | tasks | value | concurrencies tried | time |\n|---|---|---|---|---|"


def gradient_cost(clients: int, tasks: int, rounds: int, links: bool = False) -> list[Figure]:
    """Time an evaluation of the whole objective first, then one with its exact gradient."""
    fleet = rates(clients)
    objective = GOAL
    if links:
        fleet = replace(fleet, uplink_rate=2 * fleet.rate, downlink_rate=3 * fleet.rate)
        objective = replace(GOAL, server_rate=float(fleet.rate.sum()) / 2)
    plan = replace(Plan.by_speed(fleet, tasks), fleet_hash=None)
    sides = Figure("evaluation", []), Figure("evaluation and gradient", [], most=5.0)
    pieces = max(1, 2_000_000 // (clients * tasks))
    for _ in range(rounds):
        for figure, gradient in zip(sides, (False, True), strict=True):
            began = thread_time()
            for _ in range(pieces):
                objective.predict(fleet, plan, gradient=gradient)
            figure.seconds.append((thread_time() - began) / pieces)
    return list(sides)


class Differences:
    """The same objective with its gradient by forward differences."""

    def __init__(self, objective: Objective) -> None:
        self.inner = objective
        self.name = objective.name

    def predict(self, fleet: Fleet, plan: Plan, gradient: bool = False) -> Prediction:
        """Do one more evaluation per client if a gradient is requested."""
        here = self.inner.predict(fleet, plan)
        if not gradient:
            return here
        slope = np.empty(fleet.groups)
        for g in range(fleet.groups):  # what one client gains is taken from all in proportion
            step = 1e-6 * plan.sampling[g]
            moved = plan.sampling.copy()
            moved[g] += step
            value = self.inner.predict(
                fleet, Plan(fleet.name, fleet.count, moved / moved.sum(), plan.concurrency)
            ).value
            slope[g] = (value - here.value) / step
        return replace(here, gradient=slope)


def against_differences(clients: int) -> list[Figure]:
    """Time a full-simplex plan with joint concurrency, once with each kind of gradient."""
    fleet = rates(clients)
    ours, theirs = Figure("sojourn, exact gradients", []), Figure("finite differences", [], 20.0)
    values = []
    for figure, objective in ((ours, GOAL), (theirs, Differences(GOAL))):
        began = perf_counter()
        values.append(make_plan(fleet, objective).prediction.value)
        figure.seconds.append(perf_counter() - began)
    if abs(values[1] / values[0] - 1) > 1e-3:
        raise SystemExit(f"the two searches disagree: {values}")
    return [ours, theirs]


def at_scale() -> list[str]:
    """Return rows about plans for many clients."""
    groups = Fleet(tuple(f"g{i}" for i in range(20)), [5000] * 20, np.exp(np.linspace(-2, 2, 20)))
    cases = {
        "1000 distinct clients": rates(1000),
        "1e5 clients in 20 speed groups": groups,
        "1e5 distinct clients, through bins": rates(100_000),
    }
    rows = []
    for name, fleet in cases.items():
        began = perf_counter()
        planned = make_plan(fleet, GOAL)
        seconds = perf_counter() - began
        bins = "" if planned.binning is None else f" (bins off by {planned.binning.error:.0e})"
        cells = (
            name,
            str(planned.plan.concurrency),
            f"{planned.prediction.value:.6g}{bins}",
            str(len(planned.searched)),
        )
        rows.append("| " + " | ".join((*cells, in_units(seconds))) + " |")
    return rows


def rates(clients: int) -> Fleet:
    """Distinct clients with lognormal rates."""
    return Fleet.of_rates(np.exp(np.random.default_rng(0).normal(0, 1, clients)))
