"""What a plan means for a fleet: check values, and laws that hold for any fleet."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn import Fleet, InvalidInput, Law, Plan, analyze

ANY = settings(max_examples=100)
VALUES = ("queue", "on_links", "utilisation", "sojourn", "waiting")


@st.composite
def cases(draw, links=True):
    """A fleet of up to five groups, with or without links, and a plan for it."""
    size = draw(st.integers(1, 5))

    def column(values):
        return np.array(draw(st.lists(values, min_size=size, max_size=size)))

    rate = st.floats(0.01, 100)
    fleet = Fleet(
        name=tuple("abcde"[:size]),
        count=column(st.integers(1, 6)),
        rate=column(rate),
        uplink_rate=column(st.one_of(st.just(np.inf), rate) if links else st.just(np.inf)),
        downlink_rate=column(st.one_of(st.just(np.inf), rate) if links else st.just(np.inf)),
    )
    return fleet, Plan.weighted(fleet, column(rate), concurrency=draw(st.integers(1, 60)))


def assert_same(left, right, order=slice(None)):
    assert left.throughput == pytest.approx(right.throughput, rel=1e-11)
    for key in VALUES:
        np.testing.assert_allclose(getattr(left, key), getattr(right, key)[order], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(left.staleness(), right.staleness()[order], rtol=1e-9, atol=1e-12)


# values to six digits: a 60-digit mean value analysis and a long simulation agree on them


def test_two_clients_of_rates_one_and_two():
    fleet = Fleet.of(first=(1, 1.0), second=(1, 2.0))
    analysis = analyze(fleet, Plan.uniform(fleet, concurrency=3))
    assert analysis.throughput == pytest.approx(1.866667, abs=5e-7)
    assert analysis.staleness("indicator") == pytest.approx([1.428571, 0.571429], abs=5e-7)
    assert analysis.staleness() == pytest.approx([2.857143, 1.142857], abs=5e-7)


def test_the_papers_two_clusters():
    fleet = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))
    analysis = analyze(fleet, Plan.uniform(fleet, concurrency=1000))
    assert analysis.throughput == pytest.approx(9.959161, abs=5e-7)
    assert analysis.staleness() == pytest.approx([48.792209, 1949.207791], abs=5e-7)


def test_the_papers_three_clusters():
    fleet = Fleet.of(fast=(3, 10.0), medium=(3, 1.2), slow=(3, 1.0))
    analysis = analyze(fleet, Plan.uniform(fleet, concurrency=1000))
    assert analysis.throughput == pytest.approx(8.981758, abs=5e-7)
    assert analysis.staleness() == pytest.approx([0.997746, 44.454980, 2951.547274], abs=5e-7)


def test_the_papers_stationarity_fleet():
    fleet = Fleet.of(fast=(5, 10.0), slow=(5, 1.0))
    analysis = analyze(fleet, Plan.uniform(fleet, concurrency=10))
    assert analysis.staleness("conditional")[0] == pytest.approx(0.730288, abs=5e-7)
    assert analysis.staleness("indicator")[0] == pytest.approx(0.0730288, abs=5e-8)


def test_a_million_clients_are_analysed_as_one_group():
    # equal clients, C = n = 10^6: queue 1 on average, Lambda = n C / (C + n - 1)
    fleet = Fleet.of(x=(10**6, 1.0))
    analysis = analyze(fleet, Plan.uniform(fleet, concurrency=10**6))
    assert analysis.queue == pytest.approx([1.0], rel=1e-9)
    assert analysis.throughput == pytest.approx(1e12 / (2e6 - 1), rel=1e-9)
    assert analysis.staleness() == pytest.approx([1e6 - 1], rel=1e-9)


# laws for any fleet


@ANY
@given(cases())
def test_the_mean_staleness_over_all_tasks_is_one_less_than_the_tasks_in_flight(case):
    fleet, plan = case
    analysis = analyze(fleet, plan)
    expected = pytest.approx(plan.concurrency - 1, rel=1e-10, abs=1e-10)
    assert (fleet.count * plan.sampling * analysis.staleness()).sum() == expected
    assert (fleet.count * analysis.staleness("indicator")).sum() == expected


@ANY
@given(cases())
def test_the_tasks_at_the_clients_and_on_the_links_are_all_the_tasks(case):
    fleet, plan = case
    analysis = analyze(fleet, plan)
    assert (fleet.count * (analysis.queue + analysis.on_links)).sum() == pytest.approx(plan.concurrency, rel=1e-10)


@ANY
@given(cases(links=False))
def test_without_links_no_task_is_on_a_link(case):
    analysis = analyze(*case)
    assert (analysis.on_links == 0).all()
    assert (analysis.fleet.count * analysis.queue).sum() == pytest.approx(analysis.plan.concurrency, rel=1e-10)


@ANY
@given(cases())
def test_what_enters_a_client_leaves_it(case):
    fleet, plan = case
    analysis = analyze(fleet, plan)
    np.testing.assert_allclose(analysis.throughput * plan.sampling, fleet.rate * analysis.utilisation, rtol=1e-12)
    assert (analysis.utilisation <= 1 + 1e-12).all()


@ANY
@given(cases())
def test_sojourn_obeys_littles_law(case):
    fleet, plan = case
    analysis = analyze(fleet, plan)
    flow = analysis.throughput * plan.sampling
    np.testing.assert_allclose(analysis.sojourn, (analysis.queue + analysis.on_links) / flow, rtol=1e-10)
    np.testing.assert_allclose(analysis.waiting + 1 / fleet.rate, analysis.queue / flow, rtol=1e-10)


@ANY
@given(cases(), st.randoms(use_true_random=False))
def test_permuting_the_groups_permutes_the_results(case, random):
    fleet, plan = case
    order = list(range(fleet.groups))
    random.shuffle(order)
    shuffled = Fleet(
        name=[fleet.name[k] for k in order],
        count=fleet.count[order],
        rate=fleet.rate[order],
        uplink_rate=fleet.uplink_rate[order],
        downlink_rate=fleet.downlink_rate[order],
    )
    assert_same(
        analyze(shuffled, Plan.weighted(shuffled, plan.sampling[order], plan.concurrency)), analyze(fleet, plan), order
    )


@ANY
@given(cases())
def test_merging_equal_clients_into_groups_changes_nothing(case):
    fleet, plan = case
    single = fleet.expanded()
    weights = np.repeat(plan.sampling, fleet.count)
    apart = analyze(single, Plan.weighted(single, weights, plan.concurrency))
    assert_same(apart, analyze(fleet, plan), order=fleet.group_of_client)


@ANY
@given(cases(), st.floats(0.01, 100))
def test_a_faster_clock_scales_rates_and_times_and_leaves_staleness(case, factor):
    fleet, plan = case
    fast = replace(
        fleet.with_rates(fleet.rate * factor),
        uplink_rate=fleet.uplink_rate * factor,
        downlink_rate=fleet.downlink_rate * factor,
    )
    slow_time = analyze(fleet, plan)
    fast_time = analyze(fast, Plan.weighted(fast, plan.sampling, plan.concurrency))
    assert fast_time.throughput == pytest.approx(factor * slow_time.throughput, rel=1e-11)
    for key in ("sojourn", "waiting"):
        np.testing.assert_allclose(getattr(fast_time, key) * factor, getattr(slow_time, key), rtol=1e-9, atol=1e-12)
    for key in ("queue", "on_links", "utilisation"):
        np.testing.assert_allclose(getattr(fast_time, key), getattr(slow_time, key), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fast_time.staleness(), slow_time.staleness(), rtol=1e-9, atol=1e-12)


@ANY
@given(cases())
def test_more_tasks_in_flight_never_lower_the_throughput(case):
    analysis = analyze(*case)
    flows = analysis.network.throughput_by_population
    assert (np.diff(flows) >= -1e-13 * flows[-1]).all()
    assert flows[-1] <= (analysis.fleet.count * analysis.fleet.rate).sum() * (1 + 1e-12)


@ANY
@given(cases())
def test_the_law_of_a_queue_has_its_mean_and_its_variance(case):
    analysis = analyze(*case)
    k = np.arange(analysis.plan.concurrency + 1)
    variance, _ = analysis.queue_covariances()
    for group, name in enumerate(analysis.fleet.name):
        law = analysis.queue_distribution(name)
        mean = law @ k
        assert law.sum() == pytest.approx(1, abs=1e-12)
        assert mean == pytest.approx(analysis.queue[group], rel=1e-9)
        assert law @ (k - mean) ** 2 == pytest.approx(variance[group], rel=1e-8, abs=1e-9)


@ANY
@given(cases())
def test_a_queue_covaries_with_all_queues_together_as_with_the_links(case):
    # all tasks together are constant, so without links each row of the covariance matrix sums to zero; with links to
    # minus the covariance with the tasks on them, Lambda Z (E_{C-1}[X] - E_C[X]) with Z the delay
    analysis = analyze(*case)
    count, network = analysis.fleet.count, analysis.network
    variance, pair = analysis.queue_covariances()
    rows = variance - np.diag(pair) + pair @ count
    with_links = analysis.throughput * network.delay * (network.queue_before - network.queue)
    scale = variance.max() + 1e-3
    np.testing.assert_allclose(rows, -with_links, rtol=1e-8, atol=1e-10 * scale)
    np.testing.assert_allclose(pair, pair.T, rtol=1e-8, atol=1e-10 * scale)


def test_the_numbers_are_exact_only_for_exponential_service():
    fleet = Fleet.of(a=(2, 1.0))
    assert analyze(fleet, Plan.uniform(fleet, 3)).exact
    other = replace(fleet, law=(Law("deterministic"),))
    assert not analyze(other, Plan.uniform(other, 3)).exact


def test_progress_is_reported_to_the_caller():
    fleet = Fleet.of(a=(2, 1.0))
    reports = []
    analyze(fleet, Plan.uniform(fleet, 30), progress=lambda done, total: reports.append((done, total)))
    assert reports == [(29, 30)]


def test_a_plan_for_another_fleet_is_refused():
    fleet, other = Fleet.of(a=(2, 1.0)), Fleet.of(a=(2, 2.0))
    with pytest.raises(InvalidInput, match="the plan was made for fleet"):
        analyze(other, Plan.uniform(fleet, 3))


def test_a_group_that_is_not_there_has_no_queue():
    fleet = Fleet.of(a=(2, 1.0))
    with pytest.raises(InvalidInput, match="the fleet has no group 'b'"):
        analyze(fleet, Plan.uniform(fleet, 3)).queue_distribution("b")
