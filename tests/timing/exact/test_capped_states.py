"""Capped networks against the enumeration of all their states, jump-over rule, links and first-come queues included."""

import itertools

import numpy as np
import pytest
from capped_states import QUEUE, States
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn import Fleet
from sojourn.timing.exact.capped import capped_network

ANY = settings(max_examples=30)
ACCURACY = {"rtol": 1e-9, "atol": 1e-11}
NO = np.inf

# w, mu, mean time down, mean time up, cap, tasks
CASES = {
    "five clients, mixed caps": ([0.3, 0.1, 0.2, 0.25, 0.15], [5, 2, 1, 1, 0.3], [0] * 5, [0] * 5, [1, 3, 2, 1, 2], 4),
    "nobody waits": ([3.0, 1.0, 2.0, 1.0, 0.5], [1, 2, 0.3, 4, 1], [0] * 5, [0] * 5, [1] * 5, 3),
    "to the finisher": ([3.0, 1.0, 2.0], [1, 2, 0.3], [0] * 3, [0] * 3, [1] * 3, 3),
    "full, with queues": ([3.0, 1.0], [1, 0.3], [0] * 2, [0] * 2, [2, 3], 5),
    "one cap among none": ([1.0, 2.0, 1.0], [1, 2, 0.5], [0] * 3, [0] * 3, [NO, 1, NO], 5),
    "no cap": ([1.0, 2.0, 1.0], [1, 2, 0.5], [0] * 3, [0] * 3, [NO] * 3, 4),
    "links at every client": ([0.5, 0.2, 0.3], [2, 1, 0.5], [0.3, 0.2, 1], [0.7, 0.1, 0.4], [2, 1, 3], 4),
    "links and no cap": ([0.5, 0.2], [2, 1], [0.3, 0.2], [0.7, 0.1], [NO, 2], 4),
    "links here and there": ([0.5, 0.2, 0.3], [2, 1, 0.5], [0.3, 0, 0], [0, 0, 2.0], [2, 2, 2], 4),
    "factors that vanish on the circle": ([1.0, 1.0], [2, 2], [0] * 2, [0] * 2, [3, 3], 3),
    "one task": ([1.0, 5.0], [1, 2], [0, 1], [0, 0], [1, 2], 1),
    "one client": ([1.0], [2.0], [1.0], [0.5], [4], 4),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def both(w, mu, down, up, cap, tasks):
    with np.errstate(divide="ignore"):
        fleet = Fleet(
            tuple("abcdefgh"[: len(w)]),
            np.ones(len(w), dtype=int),
            np.asarray(mu, dtype=float),
            downlink_rate=1 / np.asarray(down, dtype=float),
            uplink_rate=1 / np.asarray(up, dtype=float),
        )
    return States(w, mu, down, up, cap, tasks), capped_network(fleet, w, tasks, cap)


def compare(case):
    states, solved = both(*case)
    flow, _ = states.entries()
    np.testing.assert_allclose(solved.entries, flow, **ACCURACY)
    np.testing.assert_allclose(solved.held, states.held, **ACCURACY)
    np.testing.assert_allclose(solved.queue, states.queue, **ACCURACY)
    np.testing.assert_allclose(solved.busy, states.busy, **ACCURACY)
    np.testing.assert_allclose(solved.staleness, states.staleness(), **ACCURACY)
    assert solved.error < 1e-12


@every_case
def test_every_mean_is_that_of_the_enumerated_network(case):
    compare(case)


@every_case
def test_times_are_those_of_littles_law_in_the_enumerated_network(case):
    states, solved = both(*case)
    flow, _ = states.entries()
    np.testing.assert_allclose(solved.sojourn, states.held / flow, **ACCURACY)
    np.testing.assert_allclose(solved.waiting, (states.queue - states.busy) / flow, rtol=1e-8, atol=1e-10)


@every_case
def test_laws_of_what_a_client_holds_and_of_its_queue_are_those_of_the_enumerated_network(case):
    states, solved = both(*case)
    for i, name in enumerate(solved.fleet.name):
        for law, number in (
            (solved.held_distribution(name), states.array[:, i].sum(axis=1)),
            (solved.queue_distribution(name), states.array[:, i, QUEUE]),
        ):
            np.testing.assert_allclose(law, [states.law @ (number == k) for k in range(law.size)], **ACCURACY)
            assert law.sum() == pytest.approx(1, abs=1e-13)


@every_case
def test_covariances_are_those_of_the_enumerated_network(case):
    states, solved = both(*case)
    variance, pair = solved.covariances()
    np.testing.assert_allclose(variance, np.diag(states.covariance), **ACCURACY)
    for i, j in itertools.permutations(range(states.n), 2):
        assert pair[i, j] == pytest.approx(states.covariance[i, j], abs=1e-10)


@st.composite
def networks(draw, most, linked):
    """Up to so many different clients with caps from 1 to 3 or none."""
    n = draw(st.integers(1, most))
    positive = st.floats(0.1, 10)
    columns = [draw(st.lists(positive, min_size=n, max_size=n)) for _ in range(2)]
    link = st.one_of(st.just(0.0), positive) if linked else st.just(0.0)
    links = [draw(st.lists(link, min_size=n, max_size=n)) for _ in range(2)]
    cap = draw(st.lists(st.sampled_from([1, 2, 3, NO]), min_size=n, max_size=n))
    return *columns, *links, cap, int(draw(st.integers(1, int(min(5 - linked, sum(cap))))))


@ANY
@given(networks(5, False))
def test_any_network_of_up_to_five_clients_and_tasks(network):
    compare(network)


@ANY
@given(networks(2, True))
def test_any_network_of_two_clients_with_links(network):
    compare(network)


def test_equal_clients_are_one_group():
    w, mu, cap = [1.0, 1.0, 1.0, 3.0, 3.0], [2.0, 2.0, 2.0, 0.5, 0.5], [1, 1, 1, 2, 2]
    states = States(w, mu, [0] * 5, [0] * 5, cap, 4)
    solved = capped_network(Fleet.of(fast=(3, 2.0), slow=(2, 0.5)), [1.0, 3.0], 4, [1, 2])
    flow, _ = states.entries()
    first = [0, 3]
    np.testing.assert_allclose(solved.entries, flow[first], **ACCURACY)
    np.testing.assert_allclose(solved.staleness, states.staleness()[first], **ACCURACY)
    variance, pair = solved.covariances()
    np.testing.assert_allclose(variance, np.diag(states.covariance)[first], **ACCURACY)
    np.testing.assert_allclose(pair, states.covariance[np.ix_(first, [1, 4])], **ACCURACY)


def test_a_client_that_holds_one_task_may_serve_it_in_two_stages_also_among_clients_with_queues():
    # half the service as a link: an Erlang law of shape 2 and the same mean; only means count for a cap of 1
    w, cap, tasks = [1.0, 2.0, 1.0], [1, 1, 3], 4
    staged = States(w, [2.0, 4.0, 0.5], [0.5, 0.25, 0.0], [0.0] * 3, cap, tasks)
    solved = capped_network(Fleet.of_rates([1.0, 2.0, 0.5]), w, tasks, cap)
    np.testing.assert_allclose(solved.entries, staged.entries()[0], **ACCURACY)
    np.testing.assert_allclose(solved.held, staged.held, **ACCURACY)
    np.testing.assert_allclose(solved.staleness, staged.staleness(), **ACCURACY)
