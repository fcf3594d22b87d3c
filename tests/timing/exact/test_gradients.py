"""Gradients against central differences: one client of a group is moved, the others stay."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any_fleet import linked_fleet
from sojourn import Fleet, InvalidInput, Plan, analyze
from sojourn.timing.exact.jackson import ClosedNetwork

ANY = settings(max_examples=40)
STEP = 1e-3  # of the moved value; the difference below is of fourth order


@st.composite
def cases(draw):
    rate = st.floats(0.1, 10)
    fleet, column = linked_fleet(draw, rate)
    plan = Plan.weighted(fleet, column(rate), concurrency=draw(st.integers(1, 20)))
    return fleet, plan, column(st.floats(-2, 2))


def network(fleet, plan, wrt, group, factor):
    """The network of single clients in which p or mu of the first client of `group` is `factor` times as large."""
    single = fleet.expanded()
    client = fleet.first_client[group]
    p, mu = np.repeat(plan.sampling, fleet.count), single.rate.copy()
    (p if wrt == "sampling" else mu)[client] *= factor
    delay = float((p * (1 / single.uplink_rate + 1 / single.downlink_rate)).sum())
    return ClosedNetwork.solve(p / mu, single.count, plan.concurrency, delay)


def differences(value, fleet, plan, wrt):
    """Derivative of value(network) by the p or mu of one client of each group."""
    result = []
    for group, at in enumerate(plan.sampling if wrt == "sampling" else fleet.rate):
        near, far = (
            value(network(fleet, plan, wrt, group, 1 + h)) - value(network(fleet, plan, wrt, group, 1 - h))
            for h in (STEP, 2 * STEP)
        )
        result.append((8 * near - far) / (12 * STEP * at))
    return np.array(result)


def assert_gradient(given_values, expected, scale):
    # rounding in the difference is about 1e-15 of the value over the step
    np.testing.assert_allclose(given_values, expected, rtol=1e-6, atol=1e-10 * scale)


@pytest.mark.parametrize("wrt", ["sampling", "rate"])
@ANY
@given(case=cases())
def test_the_gradient_of_the_throughput_is_its_slope(wrt, case):
    fleet, plan, _ = case
    analysis = analyze(fleet, plan)
    scale = analysis.throughput / min(plan.sampling.min(), fleet.rate.min())
    slope = differences(lambda net: net.throughput, fleet, plan, wrt)
    assert_gradient(analysis.throughput_gradient(wrt), slope, scale)


@pytest.mark.parametrize("wrt", ["sampling", "rate"])
@ANY
@given(case=cases())
def test_the_gradient_of_weighted_queues_is_their_slope(wrt, case):
    fleet, plan, weights = case
    each = np.repeat(weights, fleet.count)
    analysis = analyze(fleet, plan)
    scale = plan.concurrency / min(plan.sampling.min(), fleet.rate.min())
    slope = differences(lambda net: each @ net.queue, fleet, plan, wrt)
    assert_gradient(analysis.queue_gradient(weights, wrt), slope, scale)


def test_the_gradients_of_two_clients_with_one_task_by_hand():
    # C = 1: Lambda = 1 / (theta_1 + theta_2), theta_i = p_i / mu_i, here 1/2 and 1/4, so Lambda = 4/3
    # dLambda/dp_i = -Lambda^2 / mu_i = -16/9 (1, 1/2); dLambda/dmu_i = Lambda^2 p_i / mu_i^2 = 16/9 (1/2, 1/8)
    fleet = Fleet.of(first=(1, 1.0), second=(1, 2.0))
    analysis = analyze(fleet, Plan.uniform(fleet, concurrency=1))
    assert analysis.throughput_gradient() == pytest.approx([-16 / 9, -8 / 9], rel=1e-13)
    assert analysis.throughput_gradient("rate") == pytest.approx([8 / 9, 2 / 9], rel=1e-13)
    # E[X_1] = theta_1 Lambda = 2/3; dE[X_1]/dp_1 = (Lambda - theta_1 Lambda^2) / mu_1 = 4/3 - 8/9 = 4/9
    # dE[X_1]/dp_2 = -theta_1 Lambda^2 / mu_2 = -4/9
    assert analysis.queue_gradient([1.0, 0.0]) == pytest.approx([4 / 9, -4 / 9], rel=1e-13)
    assert analysis.staleness_gradient([1.0, 0.0]).tolist() == [0, 0]


@ANY
@given(case=cases())
def test_scaling_every_probability_together_is_a_slower_clock(case):
    # Lambda(a p) = Lambda(p) / a, so sum p dLambda/dp = -Lambda; queues do not change, so sum p dE[W]/dp = 0
    fleet, plan, weights = case
    analysis = analyze(fleet, plan)
    share = fleet.count * plan.sampling
    assert share @ analysis.throughput_gradient() == pytest.approx(-analysis.throughput, rel=1e-10)
    assert share @ analysis.queue_gradient(weights) == pytest.approx(0, abs=1e-9 * plan.concurrency**2)


def test_the_gradient_by_something_else_is_refused():
    fleet = Fleet.of(first=(1, 1.0))
    analysis = analyze(fleet, Plan.uniform(fleet, concurrency=2))
    with pytest.raises(InvalidInput, match="wrt must be sampling or rate, got 'count'"):
        analysis.throughput_gradient("count")
    with pytest.raises(InvalidInput, match="wrt must be sampling or rate, got 'count'"):
        analysis.queue_gradient([1.0], "count")
