"""The chain itself: exponential service at the client's own rate, routing by p, each of its own stream."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sojourn import Fleet, Plan, simulate
from sojourn.timing.simulate.jump_chain import CLASSES, bin_edges, network, staleness_bin

LUCK = 1e-4
FEW = Fleet.of(fast=(3, 8.0), middle=(2, 2.0), slow=(2, 0.5))
MANY = Fleet.of_rates(np.geomspace(0.5, 20, 25))
PLANS = {
    "three rates": (FEW, Plan.weighted(FEW, [3.0, 2.0, 0.6], 9)),
    "twenty-five rates": (MANY, Plan.weighted(MANY, MANY.rate, 20)),
}


@pytest.fixture(scope="module", params=PLANS)
def run(request):
    fleet, plan = PLANS[request.param]
    return fleet, plan, simulate(fleet, plan, 200_000, seed=11)


def test_service_times_are_exponential_with_the_rate_of_the_client(run):
    fleet, _, trace = run
    done = trace.applied
    served = (trace.finished_at - trace.started_at)[done]
    rate = fleet.rate[fleet.group_of_client]
    for client in range(fleet.clients):
        scaled = served[trace.client[done] == client] * rate[client]
        assert scaled.size > 300
        assert stats.kstest(scaled, "expon").pvalue > LUCK


def test_the_next_client_is_drawn_by_p(run):
    fleet, plan, trace = run
    sent = np.bincount(trace.client[trace.dispatched_step > 0], minlength=fleet.clients)
    p = plan.sampling[fleet.group_of_client]
    assert stats.chisquare(sent, sent.sum() * p / p.sum()).pvalue > LUCK


def test_the_next_client_does_not_depend_on_who_came_back(run):
    fleet, _, trace = run
    back = fleet.group_of_client[trace.client[trace.applied]]
    order = np.argsort(trace.dispatched_step, kind="stable")
    sent = fleet.group_of_client[trace.client[order]][-back.size :]  # the one sent out at the same step
    table = np.zeros((fleet.groups, fleet.groups))
    np.add.at(table, (back, sent), 1)
    assert stats.chi2_contingency(table).pvalue > LUCK


def test_service_does_not_depend_on_the_number_of_tasks_waiting(run):
    fleet, _, trace = run
    done = trace.applied
    served = ((trace.finished_at - trace.started_at) * fleet.rate[fleet.group_of_client[trace.client]])[done]
    waited = (trace.started_at > trace.dispatched_at)[done]
    assert stats.ks_2samp(served[waited], served[~waited]).pvalue > LUCK


@pytest.mark.parametrize("case", PLANS)
def test_the_first_to_finish_is_a_busy_client_by_its_rate(case):
    fleet, _ = PLANS[case]
    rate = fleet.rate[fleet.group_of_client]
    plan = Plan.uniform(fleet, fleet.clients)  # all clients busy
    runs = [simulate(fleet, plan, 1, start="one-each", seed=seed) for seed in range(1000)]
    first = np.bincount([trace.client[0] for trace in runs], minlength=fleet.clients)
    assert stats.chisquare(first, len(runs) * rate / rate.sum()).pvalue > LUCK
    times = np.array([trace.applied_at[0] for trace in runs])
    assert stats.kstest(times * rate.sum(), "expon").pvalue > LUCK


@settings(max_examples=200)
@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=60))
def test_rate_classes_are_few_and_bounded_by_their_largest_rate(rates):
    fleet = Fleet.of_rates(rates)
    net = network(fleet, Plan.uniform(fleet, 3))
    assert net.bound.size <= CLASSES
    for index, bound in enumerate(net.bound):
        members = fleet.rate[net.class_of == index]
        assert members.max() == bound
    room = np.append(net.class_first, fleet.clients)
    assert np.array_equal(np.diff(room), np.bincount(net.class_of))


@settings(max_examples=200)
@given(st.lists(st.sampled_from([0.1, 0.25, 1.0, 3.0, 8.0, 20.0]), min_size=1, max_size=60))
def test_few_distinct_rates_are_never_refused(rates):
    fleet = Fleet.of_rates(rates)
    net = network(fleet, Plan.uniform(fleet, 3))
    assert np.array_equal(net.bound[net.class_of], fleet.rate)


@settings(max_examples=500)
@given(st.one_of(st.integers(0, 2**40 - 1), st.integers(0, 5000), st.integers(0, 32).map(lambda e: 128 * 2**e - 1)))
def test_a_staleness_falls_into_its_bin(staleness):
    edges = bin_edges()
    index = int(staleness_bin(np.int64(staleness)))
    assert edges[index] <= staleness < edges[index + 1]
