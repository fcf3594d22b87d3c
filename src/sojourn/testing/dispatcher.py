"""Check what every dispatcher must satisfy: existing clients, C tasks in flight, probabilities, one run per seed."""

import pickle
from dataclasses import replace

import numpy as np

from sojourn.dispatching import DispatcherKind
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.scenario import Dispatcher, Scenario
from sojourn.testing.failure import CheckFailed, claim
from sojourn.timing.dispatch.without_queues import WithoutQueues
from sojourn.timing.simulate.record import simulate
from sojourn.trace import COLUMNS, Trace

ERRORS = 5.0  # standard errors by which a mean may differ


def check_dispatcher(dispatcher: Dispatcher | DispatcherKind | str, steps: int = 2000, seed: int = 0) -> None:
    """Check a dispatcher of your own; raise `CheckFailed` with a sentence that says which property fails, and how.

    The check simulates `steps` updates of a fleet of 10 clients with 5, 10 and 30 tasks, and looks at what was
    dispatched.

    >>> check_dispatcher("idle", steps=500)
    """
    made = _made(dispatcher)
    _text(made)
    fleet = Fleet.of(fast=(6, 4.0), slow=(4, 1.0))
    fitting = [
        plan
        for tasks in (5, 10, 30)
        if _fits(made, fleet, plan := replace(Plan.uniform(fleet, tasks), sampling=np.array([0.08, 0.13])))
    ]
    claim(fitting, f"dispatcher {made} must work with 10 clients and 5, 10 or 30 tasks, but its check refuses all")
    for plan in fitting:
        trace = _run(made, fleet, plan, steps, seed)
        _clients(made, trace, fleet)
        _probabilities(made, trace, fleet)
        _in_flight(made, trace, plan)
        _repeatable(made, trace, _run(made, fleet, plan, steps, seed), _run(made, fleet, plan, steps, seed + 1))
    _pickled(made)


def _made(dispatcher: Dispatcher | DispatcherKind | str) -> Dispatcher:
    if isinstance(dispatcher, str):
        return Dispatcher.parse(dispatcher)
    return dispatcher if isinstance(dispatcher, Dispatcher) else Dispatcher.of(dispatcher)


def _fits(made: Dispatcher, fleet: Fleet, plan: Plan) -> bool:
    try:
        made.kind.check(fleet, plan)
        if isinstance(made.kind, WithoutQueues):
            made.kind.tasks(fleet, plan)
    except InvalidInput:
        return False
    return True


def _run(made: Dispatcher, fleet: Fleet, plan: Plan, steps: int, seed: int) -> Trace:
    try:
        scenario = Scenario(dispatcher=made)
        return simulate(fleet, plan, steps, start="even", seed=seed, scenario=scenario, engine="events")
    except InvalidInput as error:
        raise CheckFailed(f"dispatcher {made} with {plan.concurrency} tasks: {error}") from error


def _clients(made: Dispatcher, trace: Trace, fleet: Fleet) -> None:
    wrong = trace.client[(trace.client < 0) | (trace.client >= fleet.clients)]
    claim(wrong.size == 0, f"dispatcher {made} must choose clients from 0 to {fleet.clients - 1}, got {wrong[:1]}")


def _probabilities(made: Dispatcher, trace: Trace, fleet: Fleet) -> None:
    """Check probabilities: the mean of 1/prob is the number of clients that could be drawn."""
    p = trace.prob
    claim(((p > 0) & (p <= 1)).all(), f"dispatcher {made}: prob must lie in (0, 1], got {p[~((p > 0) & (p <= 1))][:1]}")
    could, error = (1 / p).mean(), (1 / p).std() / np.sqrt(p.size)
    claim(
        could <= fleet.clients + ERRORS * error + 1e-9,
        f"dispatcher {made}: the mean of 1 / prob must be at most the {fleet.clients} clients, got {could:.4g} with "
        f"standard error {error:.2g}; prob is too small for how often clients are chosen",
    )


def _in_flight(made: Dispatcher, trace: Trace, plan: Plan) -> None:
    """Check that the next task is sent whenever one ends, so that the plan's number of tasks is in flight."""
    if isinstance(made.kind, WithoutQueues) or made.name == "groups":
        return  # its tasks belong to whole rounds, periods or groups
    ended = ~np.isnan(trace.applied_at)
    left = int((~ended).sum())
    claim(left == plan.concurrency, f"dispatcher {made} must leave {plan.concurrency} tasks in flight, got {left}")
    sent = np.sort(trace.dispatched_at)
    claim(
        (sent[: plan.concurrency] == 0).all() and (sent[plan.concurrency :] == np.sort(trace.applied_at[ended])).all(),
        f"dispatcher {made} must send a task whenever one ends, but does not",
    )


def _repeatable(made: Dispatcher, trace: Trace, again: Trace, other: Trace) -> None:
    same = all(np.array_equal(getattr(trace, key), getattr(again, key), equal_nan=True) for key in COLUMNS)
    claim(same, f"dispatcher {made} must give the same run for the same seed, but does not")
    claim(
        not np.array_equal(trace.dispatched_at, other.dispatched_at),
        f"dispatcher {made} must give another run for another seed, but does not",
    )


def _text(made: Dispatcher) -> None:
    text = str(made)
    try:
        again = Dispatcher.parse(text)
    except InvalidInput as error:
        raise CheckFailed(f"dispatcher {text}: its text form cannot be read back ({error})") from error
    claim(again == made, f"dispatcher {text}: its text form must read back as the same dispatcher, got {again}")


def _pickled(made: Dispatcher) -> None:
    """Check that the dispatcher can be pickled, since other processes receive it that way."""
    try:
        again = pickle.loads(pickle.dumps(made))
    except Exception as error:
        raise CheckFailed(
            f"dispatcher {made} cannot be pickled ({error}); define its class at the top of a module"
        ) from error
    claim(again == made, f"dispatcher {made} must be the same after pickle, got {again}")
