"""Laws that every simulated trace obeys, whatever the fleet, the plan, the start and the seed."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sojourn import Fleet, InvalidInput, Law, Plan, simulate
from sojourn.timing.simulate import jump_chain
from sojourn.timing.simulate.start import STARTS
from sojourn.trace import APPLIED, IN_FLIGHT

LAWFUL = settings(max_examples=60)


@st.composite
def fleets(draw):
    if draw(st.booleans()):
        groups = draw(st.integers(1, 4))
        count = draw(st.lists(st.integers(1, 4), min_size=groups, max_size=groups))
    else:  # more distinct rates than rate classes: composition and rejection
        groups = draw(st.integers(17, 24))
        count = [1] * groups
    rate = draw(st.lists(st.floats(0.01, 100), min_size=groups, max_size=groups))
    return Fleet(tuple(f"group-{g}" for g in range(groups)), np.array(count), np.array(rate))


@st.composite
def runs(draw):
    """A fleet, a plan for it, a number of steps, and the trace."""
    fleet = draw(fleets())
    weights = draw(st.lists(st.floats(0.05, 20), min_size=fleet.groups, max_size=fleet.groups))
    plan = Plan.weighted(fleet, weights, draw(st.integers(1, 15)))
    start = draw(st.sampled_from(sorted(STARTS)))
    assume(start != "one-each" or plan.concurrency <= fleet.clients)
    steps = draw(st.integers(1, 300))
    return fleet, plan, steps, simulate(fleet, plan, steps, start=start, seed=draw(st.integers(0, 2**64)))


def in_order_of_dispatch(trace, client):
    """Rows of one client; only initial tasks share a step, and they keep their order."""
    mine = np.flatnonzero(trace.client == client)
    return mine[np.argsort(trace.dispatched_step[mine], kind="stable")]


@LAWFUL
@given(runs())
def test_at_every_step_exactly_c_tasks_are_in_flight(run):
    _, plan, steps, trace = run
    gone = np.where(trace.applied_step < 0, steps + 1, trace.applied_step + 1)
    for step in range(steps + 1):
        assert ((trace.dispatched_step <= step) & (step < gone)).sum() == plan.concurrency


@LAWFUL
@given(runs())
def test_every_step_applies_one_task_and_dispatches_one(run):
    _, plan, steps, trace = run
    assert np.array_equal(trace.applied_step[trace.applied], np.arange(steps))
    expected = np.concatenate([np.zeros(plan.concurrency, dtype=int), np.arange(1, steps + 1)])
    assert np.array_equal(np.sort(trace.dispatched_step), expected)


@LAWFUL
@given(runs())
def test_a_task_is_dispatched_the_moment_the_update_before_it_is_applied(run):
    _, _, _, trace = run
    moments = np.concatenate([[0.0], trace.applied_at[trace.applied]])
    assert np.array_equal(trace.dispatched_at, moments[trace.dispatched_step])


@LAWFUL
@given(runs())
def test_each_client_serves_first_come_first_served(run):
    fleet, _, _, trace = run
    for client in range(fleet.clients):
        rows = in_order_of_dispatch(trace, client)
        applied = trace.applied[rows]
        # those that came back are the oldest, and came back in the order in which they were sent
        assert not (np.diff(applied.astype(int)) > 0).any()
        assert (np.diff(trace.applied_step[rows][applied]) > 0).all()


@LAWFUL
@given(runs())
def test_a_task_starts_when_it_is_there_and_the_one_before_it_is_done(run):
    fleet, _, _, trace = run
    for client in range(fleet.clients):
        rows = in_order_of_dispatch(trace, client)
        before = np.concatenate([[0.0], trace.finished_at[rows][:-1]])
        started = np.maximum(trace.dispatched_at[rows], before)  # NaN where the one before is not done
        assert np.array_equal(trace.started_at[rows], started, equal_nan=True)


@LAWFUL
@given(runs())
def test_a_client_serves_one_task_at_a_time(run):
    fleet, _, _, trace = run
    for client in range(fleet.clients):
        mine = trace.applied & (trace.client == client)
        order = np.argsort(trace.started_at[mine])
        assert (trace.started_at[mine][order][1:] >= trace.finished_at[mine][order][:-1]).all()
        assert (~np.isnan(trace.started_at) & ~trace.applied & (trace.client == client)).sum() <= 1


@LAWFUL
@given(runs())
def test_the_clock_never_goes_back(run):
    _, _, _, trace = run
    done = trace.applied
    assert (np.diff(trace.applied_at[done]) >= 0).all()
    assert (trace.dispatched_at[done] <= trace.started_at[done]).all()
    assert (trace.started_at[done] <= trace.finished_at[done]).all()
    assert np.array_equal(trace.finished_at[done], trace.applied_at[done])


@LAWFUL
@given(runs())
def test_tasks_in_flight_come_last_without_an_end(run):
    _, plan, steps, trace = run
    assert len(trace) == steps + plan.concurrency
    assert (trace.fate[:steps] == APPLIED).all()
    assert (trace.fate[steps:] == IN_FLIGHT).all()
    assert (trace.applied_step[steps:] == -1).all()
    assert np.isnan(trace.finished_at[steps:]).all()
    assert np.isnan(trace.applied_at[steps:]).all()
    assert (trace.work == (trace.fate == APPLIED)).all()
    for column in (trace.dispatched_at, trace.started_at[:steps], trace.finished_at[:steps], trace.applied_at[:steps]):
        assert np.isfinite(column).all()


@LAWFUL
@given(runs())
def test_every_client_with_tasks_in_flight_is_serving_its_oldest(run):
    _, _, steps, trace = run
    client, started = trace.client[steps:], trace.started_at[steps:]
    assert (np.diff(client) >= 0).all()
    first = np.concatenate([[True], np.diff(client) > 0])
    assert np.array_equal(~np.isnan(started), first)
    last = trace.applied_at[steps - 1]
    assert (started[first] <= last).all()


@LAWFUL
@given(runs())
def test_prob_is_the_sampling_probability_of_the_client(run):
    fleet, plan, _, trace = run
    assert np.array_equal(trace.prob, plan.sampling[fleet.group_of_client[trace.client]])


@LAWFUL
@given(runs())
def test_staleness_and_the_ages_of_tasks_in_flight_sum_to_c_minus_one_a_step(run):
    # At each of the T steps C tasks are in flight and one is applied; the C - 1 others grow older by one. A task
    # applied has grown older `staleness` times, one in flight T - dispatched_step times. Hence, exactly:
    #     sum of staleness + sum over tasks in flight of (T - dispatched_step) = (C - 1) T
    _, plan, steps, trace = run
    assert (trace.staleness >= 0).all()
    ages = steps - trace.dispatched_step[~trace.applied]
    assert int(trace.staleness.sum()) + int(ages.sum()) == (plan.concurrency - 1) * steps


@LAWFUL
@given(runs())
def test_scaling_all_rates_scales_the_clock_and_nothing_else(run):
    fleet, plan, steps, trace = run
    faster = fleet.with_rates(fleet.rate * 8)  # a power of two: no rounding
    same = Plan(plan.name, plan.count, plan.sampling, plan.concurrency)
    start, seed = trace.metadata["start"], trace.metadata["seed"]
    again = simulate(faster, same, steps, start=start, seed=seed)
    assert np.array_equal(again.client, trace.client)
    assert np.array_equal(again.dispatched_step, trace.dispatched_step)
    for column in ("dispatched_at", "started_at", "finished_at", "applied_at"):
        assert np.array_equal(getattr(again, column) * 8, getattr(trace, column), equal_nan=True)


@pytest.mark.parametrize("start", sorted(STARTS))
def test_the_initial_tasks_are_where_the_start_puts_them(start):
    fleet = Fleet.of(fast=(4, 5.0), slow=(6, 1.0))
    plan = Plan.of(fleet, {"fast": 0.01, "slow": 0.16}, concurrency=10)
    totals = np.zeros(fleet.clients)
    runs = 400
    for seed in range(runs):
        trace = simulate(fleet, plan, 1, start=start, seed=seed)
        initial = np.bincount(trace.client[trace.dispatched_step == 0], minlength=fleet.clients)
        if start in ("even", "one-each"):
            assert initial.tolist() == [1] * fleet.clients
        totals += initial
    # by p the four fast clients hold 4 p C = .4 tasks together; stationary even fewer (they serve 5 times as fast)
    low, high = {"even": (4, 4), "one-each": (4, 4), "routed": (0.27, 0.53), "stationary": (0.02, 0.13)}[start]
    assert low <= totals[:4].sum() / runs <= high


def test_a_single_client_serves_its_queue_in_the_order_of_dispatch():
    # n = 1: every task waits for the C - 1 before it; the initial ones have staleness 0, 1, ..., C - 1
    fleet = Fleet.of(only=(1, 2.0))
    trace = simulate(fleet, Plan.uniform(fleet, 4), 10, seed=1)
    assert trace.staleness.tolist() == [0, 1, 2, 3, 3, 3, 3, 3, 3, 3]
    assert trace.dispatched_step.tolist() == [0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]


def test_a_single_task_is_never_stale():
    fleet = Fleet.of(fast=(2, 4.0), slow=(2, 1.0))
    trace = simulate(fleet, Plan.uniform(fleet, 1), 100, seed=1)
    assert (trace.staleness == 0).all()
    assert np.array_equal(trace.started_at, trace.dispatched_at)


def test_other_laws_are_refused_by_the_jump_chain():
    fleet = Fleet(("steady",), np.array([3]), np.array([1.0]), law=(Law("deterministic"),))
    with pytest.raises(InvalidInput, match=r"^the jump chain needs exponential service and no links; this fleet has"):
        jump_chain.network(fleet, Plan.uniform(fleet, 4))


def test_a_plan_for_another_fleet_is_refused():
    fleet, other = Fleet.of(a=(2, 1.0)), Fleet.of(a=(2, 3.0))
    with pytest.raises(InvalidInput, match=r"^the plan was made for fleet \w+, this is fleet \w+; make a new plan"):
        simulate(fleet, Plan.uniform(other, 4), 10)
