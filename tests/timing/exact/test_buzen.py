"""Two roads to one network: mean value analysis and Buzen's convolution share no line and must agree."""

import math

import buzen
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.timing.exact.jackson import ClosedNetwork

ANY = settings(max_examples=100)


@st.composite
def networks(draw):
    groups = draw(st.integers(1, 6))
    load = np.array(draw(st.lists(st.floats(1e-3, 1e3), min_size=groups, max_size=groups)))
    count = np.array(draw(st.lists(st.integers(1, 8), min_size=groups, max_size=groups)))
    return load, count, draw(st.integers(1, 80))


def test_the_constants_of_two_queues_by_hand():
    # theta = (1/2, 1/4): H_0..H_3 = 1, 3/4, 7/16, 15/64
    logs = buzen.log_constants(np.array([0.5, 0.25]), np.array([1, 1]), population=3)
    assert np.exp(logs) == pytest.approx([1, 3 / 4, 7 / 16, 15 / 64], rel=1e-13)


def test_the_constants_of_equal_queues_count_the_states():
    # theta = 1 for all of 50 queues: H_c is the number of ways to place c tasks, (c + 49) choose c
    logs = buzen.log_constants(np.array([1.0]), np.array([50]), population=200)
    assert logs == pytest.approx([math.log(math.comb(c + 49, c)) for c in range(201)], rel=1e-12, abs=1e-10)


@ANY
@given(networks())
def test_the_tilted_queues_hold_the_population_on_average(network):
    load, count, population = network
    ratio = load * buzen.tilt(load, count, population)
    assert ((ratio > 0) & (ratio < 1)).all()
    assert (count * ratio / (1 - ratio)).sum() == pytest.approx(population, rel=1e-9)


@ANY
@given(networks())
def test_mean_queues_are_the_same_by_both_roads(network):
    load, count, population = network
    expected = ClosedNetwork.solve(load, count, population).queue
    np.testing.assert_allclose(buzen.mean_queues(load, count, population), expected, rtol=1e-9)


@ANY
@given(networks())
def test_throughput_is_the_ratio_of_neighbouring_constants(network):
    load, count, population = network
    logs = buzen.log_constants(load, count, population)
    expected = ClosedNetwork.solve(load, count, population).throughput_by_population[1:]
    np.testing.assert_allclose(np.exp(logs[:-1] - logs[1:]), expected, rtol=1e-9)


@pytest.mark.parametrize("spread", [0.01, 1.0, 3.0])
def test_both_roads_agree_for_two_hundred_different_clients_and_two_thousand_tasks(spread):
    load = np.exp(spread * np.sin(np.arange(1, 201))) / 200
    count = np.ones(200, dtype=np.int64)
    network = ClosedNetwork.solve(load, count, population=2000)
    np.testing.assert_allclose(buzen.mean_queues(load, count, 2000), network.queue, rtol=1e-9)
    np.testing.assert_allclose(buzen.mean_queues(load, count, 1999), network.queue_before, rtol=1e-9)
    logs = buzen.log_constants(load, count, 2000)
    with np.errstate(invalid="ignore"):
        ratio = np.exp(logs[:-1] - logs[1:])
    certain = np.isfinite(logs[:-1])
    assert certain[1000:].all()
    np.testing.assert_allclose(ratio[certain], network.throughput_by_population[1:][certain], rtol=1e-9)
