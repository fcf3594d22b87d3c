"""Where the C tasks are at the beginning: even, routed, stationary, one each."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from sojourn import Fleet, InvalidInput, Law, Plan, analyze
from sojourn.timing.simulate import start as start_module
from sojourn.timing.simulate.start import STARTS, place

LUCK = 1e-4


@pytest.fixture
def tilt_remembered(monkeypatch):
    """Thousands of draws from one plan: solve for its tilt once, as it is the same for all of them."""
    solve, known = getattr(start_module, "tilt", None), {}

    def remembered(load, count, population):
        key = (load.tobytes(), count.tobytes(), population)
        if key not in known:
            known[key] = solve(load, count, population)
        return known[key]

    monkeypatch.setattr(start_module, "tilt", remembered, raising=False)


@st.composite
def networks(draw):
    groups = draw(st.integers(1, 5))
    columns = st.lists(st.floats(0.05, 20), min_size=groups, max_size=groups)
    count = draw(st.lists(st.integers(1, 6), min_size=groups, max_size=groups))
    fleet = Fleet(tuple(f"group-{g}" for g in range(groups)), np.array(count), np.array(draw(columns)))
    return fleet, Plan.weighted(fleet, draw(columns), draw(st.integers(1, 60)))


def draws(start, fleet, plan, times, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([place(start, fleet, plan, rng) for _ in range(times)])


@settings(max_examples=200)
@given(networks(), st.sampled_from(sorted(STARTS)), st.integers(0, 2**32))
def test_every_start_places_all_tasks_and_no_more(network, start, seed):
    fleet, plan = network
    assume(start != "one-each" or plan.concurrency <= fleet.clients)
    queues = place(start, fleet, plan, np.random.default_rng(seed))
    assert queues.shape == (fleet.clients,)
    assert queues.dtype == np.int64
    assert queues.min() >= 0
    assert queues.sum() == plan.concurrency


@settings(max_examples=100)
@given(networks(), st.integers(0, 2**32))
def test_an_even_start_differs_by_at_most_one_task(network, seed):
    fleet, plan = network
    queues = place("even", fleet, plan, np.random.default_rng(seed))
    assert queues.max() - queues.min() <= 1


def test_the_remainder_of_an_even_start_falls_on_all_clients_alike():
    fleet = Fleet.of(fast=(3, 4.0), slow=(4, 1.0))
    found = draws("even", fleet, Plan.by_speed(fleet, 17), 7000)  # 2 each and 3 more
    assert stats.chisquare((found - 2).sum(axis=0)).pvalue > LUCK


@settings(max_examples=100)
@given(networks(), st.integers(0, 2**32))
def test_one_each_gives_no_client_two_tasks(network, seed):
    fleet, plan = network
    assume(plan.concurrency <= fleet.clients)
    queues = place("one-each", fleet, plan, np.random.default_rng(seed))
    assert set(queues.tolist()) <= {0, 1}


def test_one_each_chooses_all_clients_alike():
    fleet = Fleet.of(fast=(3, 4.0), slow=(4, 1.0))
    found = draws("one-each", fleet, Plan.by_speed(fleet, 3), 7000)
    assert stats.chisquare(found.sum(axis=0)).pvalue > LUCK


def test_one_each_refuses_more_tasks_than_clients():
    fleet = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))
    with pytest.raises(InvalidInput, match=r"^start one-each needs concurrency <= clients, got 11 > 10; use even$"):
        place("one-each", fleet, Plan.uniform(fleet, 11), np.random.default_rng(0))


def test_a_routed_start_is_multinomial():
    fleet = Fleet.of(fast=(2, 4.0), slow=(3, 1.0))
    plan = Plan.of(fleet, {"fast": 0.35, "slow": 0.1}, concurrency=12)
    found = draws("routed", fleet, plan, 20_000)
    p = plan.sampling[fleet.group_of_client]
    # the sum of multinomials is multinomial; and one client's count is binomial, with variance C p (1 - p)
    assert stats.chisquare(found.sum(axis=0), p * found.sum()).pvalue > LUCK
    binomial = stats.binom(plan.concurrency, p[0]).pmf(np.arange(plan.concurrency + 1))
    seen = np.bincount(found[:, 0], minlength=plan.concurrency + 1)
    likely = binomial * len(found) > 5
    assert stats.chisquare(seen[likely], binomial[likely] * seen[likely].sum() / binomial[likely].sum()).pvalue > LUCK


@pytest.mark.parametrize(
    ("fleet", "weights", "concurrency"),
    [
        (Fleet.of(pair=(2, 1.0), single=(1, 3.0)), [1.0, 2.0], 4),
        (Fleet.of(single=(1, 3.0), pair=(2, 1.0)), [5.0, 1.0], 5),
        (Fleet.of(only=(3, 0.7)), [1.0], 4),
        (Fleet.of_rates([1.0, 2.0, 9.0]), [1.0, 3.0, 1.0], 1),
        (Fleet.of_rates([1.0, 2.0, 9.0]), [1.0, 3.0, 1.0], 5),
    ],
    ids=["a pair and one", "one and a pair", "one group", "one task", "three singles"],
)
@pytest.mark.usefixtures("tilt_remembered")
def test_a_stationary_start_has_the_product_form_state_by_state(fleet, weights, concurrency):
    plan = Plan.weighted(fleet, weights, concurrency)
    load = (plan.sampling / fleet.rate)[fleet.group_of_client]
    every = itertools.product(range(concurrency + 1), repeat=fleet.clients)
    states = np.array([state for state in every if sum(state) == concurrency])
    weight = (load**states).prod(axis=1)
    found = draws("stationary", fleet, plan, 4000)
    number = (concurrency + 1) ** np.arange(fleet.clients)
    place_of = {key: index for index, key in enumerate((states @ number).tolist())}
    seen = np.bincount([place_of[key] for key in (found @ number).tolist()], minlength=len(states))
    assert stats.chisquare(seen, len(found) * weight / weight.sum()).pvalue > LUCK


@pytest.mark.parametrize("concurrency", [7, 60, 500])
@pytest.mark.usefixtures("tilt_remembered")
def test_a_stationary_start_has_the_exact_means_variances_and_covariances(concurrency):
    fleet = Fleet.of(fast=(30, 2.0), slow=(20, 1.0), single=(1, 0.6))
    plan = Plan.weighted(fleet, [1.0, 0.8, 0.7], concurrency)
    analysis = analyze(fleet, plan)
    variance, covariance = analysis.queue_covariances()
    found = draws("stationary", fleet, plan, 1500).astype(float)
    mean = analysis.queue[fleet.group_of_client]
    by_group = np.split(found, fleet.first_client[1:], axis=1)
    off_by_group = np.split(found - mean, fleet.first_client[1:], axis=1)
    for group in range(fleet.groups):
        assert_mean(by_group[group].mean(axis=1), analysis.queue[group])
        assert_mean((off_by_group[group] ** 2).mean(axis=1), variance[group])
    # two different clients: one fast and one slow, and two fast ones
    assert_mean(off_by_group[0].mean(axis=1) * off_by_group[1].mean(axis=1), covariance[0, 1])
    assert_mean(off_by_group[0][:, ::2].mean(axis=1) * off_by_group[0][:, 1::2].mean(axis=1), covariance[0, 0])


def assert_mean(observed, exact):
    error = observed.std(ddof=1) / np.sqrt(observed.size)
    assert abs(observed.mean() - exact) < 4 * error


def test_a_stationary_start_of_a_hundred_thousand_clients_is_drawn_at_once():
    fleet = Fleet.of(fast=(90_000, 5.0), slow=(10_000, 1.0))
    plan = Plan.uniform(fleet, 50_000)
    queues = place("stationary", fleet, plan, np.random.default_rng(0))
    analysis = analyze(fleet, plan)
    # the total of the slow group has a standard deviation of a few hundred tasks
    own, between = analysis.queue_covariances()
    variance = 10_000 * own[1] + 10_000 * 9_999 * between[1, 1]
    assert queues.sum() == 50_000
    assert abs(queues[90_000:].sum() - 10_000 * analysis.queue[1]) < 4 * np.sqrt(variance)


def test_an_unknown_start_is_refused_with_the_known_ones():
    fleet = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))
    message = r"^start must be one of even, routed, stationary, one-each, got 'fair'$"
    with pytest.raises(InvalidInput, match=message):
        place("fair", fleet, Plan.uniform(fleet, 4), np.random.default_rng(0))


def test_a_stationary_start_needs_exponential_service():
    fleet = Fleet(("steady",), np.array([3]), np.array([1.0]), law=(Law("deterministic"),))
    with pytest.raises(
        InvalidInput, match=r"^start stationary needs exponential service and no links, .*; use even or"
    ):
        place("stationary", fleet, Plan.uniform(fleet, 4), np.random.default_rng(0))
