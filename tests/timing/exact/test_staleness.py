"""Staleness: its exact law against a task followed step by step, and its four ways of counting."""

import itertools

import numpy as np
import pytest

from sojourn import Fleet, InvalidInput, Plan, analyze


def states(clients, tasks):
    return [x for x in itertools.product(range(tasks + 1), repeat=clients) if sum(x) == tasks]


def moved(y, source, target):
    result = list(y)
    result[source] -= 1
    result[target] += 1
    return tuple(result)


def steps_until_served(p, mu, tasks, client):
    """Expected server steps before a task at `client` is served, by (tasks ahead of it, all other tasks).

    h = sum over events of P(event) (1 + h afterwards), where the task's own service ends it: a linear system.
    """
    places = [(a, y) for y in states(len(p), tasks - 1) for a in range(y[client] + 1)]
    index = {place: k for k, place in enumerate(places)}
    matrix, right = np.eye(len(places)), np.zeros(len(places))
    for (ahead, y), row in index.items():
        busy = [j for j in range(len(p)) if y[j] > 0 or j == client]
        total = sum(mu[j] for j in busy)
        for j in busy:
            if j == client and ahead == 0:
                continue  # the followed task itself is served
            right[row] += mu[j] / total
            for k in range(len(p)):
                after = (ahead - (j == client), moved(y, j, k))
                matrix[row, index[after]] -= mu[j] / total * p[k]
    return dict(zip(places, np.linalg.solve(matrix, right), strict=True))


def followed_staleness(p, mu, tasks, client):
    """Mean staleness of a task sent to `client` when another task has just been served in the stationary network."""
    found = {x: np.prod((p / mu) ** x) for x in states(len(p), tasks)}
    steps = steps_until_served(p, mu, tasks, client)
    weight = value = 0.0
    for x, law in found.items():
        for j in range(len(p)):
            if x[j] > 0:
                others = tuple(np.array(x) - (np.arange(len(p)) == j))
                weight += law * mu[j]
                value += law * mu[j] * steps[others[client], others]
    return value / weight


@pytest.mark.parametrize(
    ("p", "mu", "tasks"),
    [
        ((0.5, 0.5), (1.0, 2.0), 3),
        ((0.9, 0.1), (1.0, 0.2), 5),
        ((0.2, 0.3, 0.5), (3.0, 0.5, 1.0), 4),
        ((0.6, 0.3, 0.1), (1.0, 1.0, 1.0), 3),
        ((0.25, 0.25, 0.1, 0.4), (1.0, 2.0, 3.0, 0.3), 3),
        ((0.3, 0.7), (1.0, 2.0), 1),
    ],
)
def test_staleness_is_what_a_task_followed_through_the_network_meets(p, mu, tasks):
    fleet = Fleet.of_rates(mu)
    analysis = analyze(fleet, Plan.weighted(fleet, p, tasks))
    followed = [followed_staleness(np.array(p), np.array(mu), tasks, client) for client in range(len(p))]
    np.testing.assert_allclose(analysis.staleness(), followed, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("reading", "count", "expected"),
    [
        # E_2[X] = (10/7, 4/7), p = 1/2
        ("indicator", "between", [10 / 7, 4 / 7]),
        ("conditional", "between", [20 / 7, 8 / 7]),
        ("indicator", "inclusive", [10 / 7 + 1 / 2, 4 / 7 + 1 / 2]),
        ("conditional", "inclusive", [27 / 7, 15 / 7]),
    ],
)
def test_the_four_ways_to_count_staleness_by_hand(reading, count, expected):
    fleet = Fleet.of(first=(1, 1.0), second=(1, 2.0))
    analysis = analyze(fleet, Plan.uniform(fleet, concurrency=3))
    assert analysis.staleness(reading, count) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("links", [np.inf, 0.5])
def test_inclusive_is_one_more_and_the_indicator_is_the_probability_times_the_conditional(links):
    fleet = Fleet(("a", "b"), [2, 3], [1.0, 2.0], uplink_rate=[links, links])
    plan = Plan.weighted(fleet, [1.0, 3.0], concurrency=7)
    analysis = analyze(fleet, plan)
    np.testing.assert_allclose(analysis.staleness(count="inclusive"), analysis.staleness() + 1, rtol=1e-13)
    for count in ("between", "inclusive"):
        indicator = plan.sampling * analysis.staleness("conditional", count)
        np.testing.assert_allclose(analysis.staleness("indicator", count), indicator, rtol=1e-13)


def test_staleness_says_by_default_what_a_trace_says():
    fleet = Fleet.of(first=(1, 1.0), second=(1, 2.0))
    analysis = analyze(fleet, Plan.uniform(fleet, concurrency=3))
    assert analysis.staleness().tolist() == analysis.staleness("conditional", "between").tolist()


def test_a_single_task_is_never_stale():
    fleet = Fleet.of(first=(1, 1.0), second=(2, 2.0))
    analysis = analyze(fleet, Plan.uniform(fleet, concurrency=1))
    assert analysis.staleness().tolist() == [0, 0]
    assert analysis.staleness(count="inclusive").tolist() == [1, 1]


def test_another_reading_or_count_is_refused_with_those_there_are():
    fleet = Fleet.of(first=(1, 1.0))
    analysis = analyze(fleet, Plan.uniform(fleet, concurrency=3))
    with pytest.raises(InvalidInput, match="reading must be conditional or indicator, got 'mean'"):
        analysis.staleness("mean")
    with pytest.raises(InvalidInput, match="count must be between or inclusive, got 'all'"):
        analysis.staleness(count="all")
