"""The closed network against the enumeration of all its states.

The stationary law is found from the transition rates alone (global balance), without the product form; the product
form and the mean value analysis must both agree with it.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.timing.exact import jackson
from sojourn.timing.exact.jackson import ClosedNetwork

ANY = settings(max_examples=60)
ACCURACY = {"rtol": 1e-9, "atol": 1e-12}


def states(stations, tasks):
    """Every way to place `tasks` tasks in `stations` stations."""
    return [x for x in itertools.product(range(tasks + 1), repeat=stations) if sum(x) == tasks]


def generator(p, mu, delay, tasks):
    """States (delay station last, where there is one) and the matrix of transition rates between them.

    A task finished at j goes to i with probability p_i: q(x, x + e_i - e_j) = p_i mu_j 1(x_j > 0). With a delay
    station it goes there first and leaves at rate 1/delay, each task on its own.
    """
    n = len(p)
    found = states(n + (delay > 0), tasks)
    index = {x: k for k, x in enumerate(found)}
    rates = np.zeros((len(found), len(found)))

    def move(x, source, target, rate):
        moved = list(x)
        moved[source] -= 1
        moved[target] += 1
        rates[index[x], index[tuple(moved)]] += rate
        rates[index[x], index[x]] -= rate

    for x in found:
        for j in range(n):
            if x[j] > 0 and delay > 0:
                move(x, j, n, mu[j])
            elif x[j] > 0:
                for i in range(n):
                    move(x, j, i, p[i] * mu[j])
        if delay > 0 and x[n] > 0:
            for i in range(n):
                move(x, n, i, x[n] / delay * p[i])
    return np.array(found), rates


def stationary(rates):
    """The law pi with pi Q = 0 and sum 1, by least squares."""
    system = np.vstack([rates.T, np.ones(len(rates))])
    return np.linalg.lstsq(system, np.append(np.zeros(len(rates)), 1.0), rcond=None)[0]


def product_form(found, p, mu, delay):
    """Weights prod theta_i^{x_i}, times delay^x / x! for the infinite server."""
    theta = np.append(np.asarray(p) / mu, [delay] if delay > 0 else [])
    weight = np.prod(theta**found, axis=1)
    if delay > 0:
        weight = weight / [math.factorial(x) for x in found[:, -1]]
    return weight / weight.sum()


@st.composite
def small_networks(draw, most=4):
    """p, mu, delay, C and the sizes of groups of equal clients that make up the clients."""
    sizes = draw(st.lists(st.integers(1, 2), min_size=1, max_size=3).filter(lambda s: sum(s) <= most))
    positive = st.floats(0.1, 10)
    weight = np.repeat(draw(st.lists(positive, min_size=len(sizes), max_size=len(sizes))), sizes)
    mu = np.repeat(draw(st.lists(positive, min_size=len(sizes), max_size=len(sizes))), sizes)
    delay = draw(st.one_of(st.just(0.0), positive))
    return weight / weight.sum(), mu, delay, draw(st.integers(1, most)), np.array(sizes)


def solved(p, mu, delay, tasks, sizes):
    first = np.cumsum(sizes) - sizes
    return ClosedNetwork.solve((p / mu)[first], sizes, tasks, delay), first


@ANY
@given(small_networks())
def test_the_product_form_is_in_global_balance(network):
    p, mu, delay, tasks, _ = network
    found, rates = generator(p, mu, delay, tasks)
    law = product_form(found, p, mu, delay)
    flow = np.abs(np.diag(rates)) @ law
    assert np.abs(law @ rates).max() < 1e-13 * max(flow, 1)
    np.testing.assert_allclose(stationary(rates), law, **ACCURACY)


@ANY
@given(small_networks())
def test_throughput_and_utilisation_are_those_of_the_enumerated_network(network):
    p, mu, delay, tasks, _ = network
    closed, first = solved(*network)
    for population in range(1, tasks + 1):
        found, rates = generator(p, mu, delay, population)
        busy = stationary(rates) @ (found[:, : len(p)] > 0)
        np.testing.assert_allclose(closed.throughput_by_population[population], busy @ mu, **ACCURACY)
    assert closed.throughput == closed.throughput_by_population[tasks]
    assert closed.throughput_before == closed.throughput_by_population[tasks - 1]
    np.testing.assert_allclose(closed.utilisation, busy[first], **ACCURACY)


@ANY
@given(small_networks())
def test_mean_queues_with_all_tasks_and_with_one_less_are_those_of_the_enumerated_network(network):
    p, mu, delay, tasks, _ = network
    closed, first = solved(*network)
    for population, queue in ((tasks, closed.queue), (tasks - 1, closed.queue_before)):
        found, rates = generator(p, mu, delay, population)
        np.testing.assert_allclose(queue, stationary(rates) @ found[:, first], **ACCURACY)


@ANY
@given(small_networks())
def test_the_law_of_each_queue_is_that_of_the_enumerated_network(network):
    p, mu, delay, tasks, _ = network
    closed, first = solved(*network)
    found, rates = generator(p, mu, delay, tasks)
    law = stationary(rates)
    for group, client in enumerate(first):
        expected = [law @ (found[:, client] == k) for k in range(tasks + 1)]
        np.testing.assert_allclose(closed.distribution(group), expected, **ACCURACY)
        np.testing.assert_allclose(closed.tail(group), np.cumsum(expected[::-1])[::-1], **ACCURACY)


@ANY
@given(small_networks())
def test_variances_and_covariances_are_those_of_the_enumerated_network(network):
    p, mu, delay, tasks, sizes = network
    closed, first = solved(*network)
    found, rates = generator(p, mu, delay, tasks)
    law = stationary(rates)
    centred = found - law @ found
    exact = (centred * law[:, None]).T @ centred
    variance, pair = closed.covariances()
    np.testing.assert_allclose(variance, np.diag(exact)[first], **ACCURACY)
    for g, h in itertools.product(range(len(sizes)), repeat=2):
        if g != h or sizes[g] > 1:  # the covariance within a group is of two different clients
            np.testing.assert_allclose(pair[g, h], exact[first[g], first[h] + (g == h)], **ACCURACY)


def test_two_clients_and_three_tasks_by_hand():
    # theta = (1/2, 1/4); H_c = sum_k theta_1^k theta_2^{c-k}: H_2 = 1/4 + 1/8 + 1/16 = 7/16, H_3 = 1/8 + 1/16 + 1/32
    # + 1/64 = 15/64; Lambda(3) = H_2/H_3 = 28/15. E_2[X_1] = (2/4 + 1/8)/(7/16) = 10/7. P(X_1 = 0) = 1/64 / (15/64).
    network = ClosedNetwork.solve(np.array([0.5, 0.25]), np.array([1, 1]), population=3)
    assert network.throughput == pytest.approx(28 / 15, rel=1e-14)
    assert network.queue_before == pytest.approx([10 / 7, 4 / 7], rel=1e-14)
    assert network.distribution(0) == pytest.approx(np.array([1, 2, 4, 8]) / 15, rel=1e-13)


def test_one_task_alone_finds_every_queue_empty():
    # with C = 1 a cycle takes Z + sum theta = 2 + 0.5 + 2 * 0.25 = 3
    network = ClosedNetwork.solve(np.array([0.5, 0.25]), np.array([1, 2]), population=1, delay=2.0)
    assert network.throughput == pytest.approx(1 / 3, rel=1e-15)
    assert network.queue == pytest.approx([0.5 / 3, 0.25 / 3], rel=1e-15)
    assert network.queue_before.tolist() == [0, 0]
    assert network.throughput_before == 0


def test_equal_clients_share_the_tasks_evenly():
    # n equal queues of load 1/n: C tasks in C + n - 1 choose C equally likely states; Lambda = n C / (C + n - 1)
    network = ClosedNetwork.solve(np.array([1e-6]), np.array([10**6]), population=1000)
    assert network.throughput == pytest.approx(1e6 * 1000 / 1_000_999, rel=1e-12)
    assert network.queue == pytest.approx([1e-3], rel=1e-12)
    assert network.queue_before == pytest.approx([999e-6], rel=1e-12)


def test_solving_in_segments_reports_progress_and_changes_nothing(monkeypatch):
    load, count = np.array([0.3, 0.2, 0.1]), np.array([1, 2, 3])
    whole = ClosedNetwork.solve(load, count, population=100, delay=0.5)
    monkeypatch.setattr(jackson, "_SEGMENT", 3 * 40)
    reports = []
    pieces = ClosedNetwork.solve(load, count, 100, 0.5, progress=lambda done, total: reports.append((done, total)))
    assert [done for done, _ in reports] == [40, 80, 99]
    assert {total for _, total in reports} == {100}
    np.testing.assert_allclose(pieces.throughput_by_population, whole.throughput_by_population, rtol=1e-14)
    np.testing.assert_allclose(pieces.queue, whole.queue, rtol=1e-14)
    np.testing.assert_allclose(pieces.queue_before, whole.queue_before, rtol=1e-14)


@pytest.mark.parametrize(("error", "solver"), [(0.9e-10, "contour"), (1.1e-10, "mva"), (math.nan, "mva")])
def test_a_contour_is_kept_only_where_ten_digits_are_certain(monkeypatch, error, solver):
    right = jackson.ContourNetwork.of
    monkeypatch.setattr(jackson, "_QUICK", 0)
    monkeypatch.setattr(jackson.ContourNetwork, "of", lambda *given: replace(right(*given), error=error))
    found = ClosedNetwork.solve(np.array([1.0, 0.4]), np.array([2, 3]), 300)
    assert found.solver == solver
