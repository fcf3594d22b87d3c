"""Links: uplink and downlink as stations where no task waits for another."""

import itertools

import numpy as np
import pytest

from sojourn import Fleet, Plan, analyze


def solve_every_station(p, mu, uplink, downlink, tasks):
    """Mean tasks (on the downlink, at the client, on the uplink) of each client, and the throughput.

    From the transition rates alone, with a station for each link: downlink -> client -> uplink -> any downlink.
    """
    n = len(p)
    found = [x for x in itertools.product(range(tasks + 1), repeat=3 * n) if sum(x) == tasks]
    index = {x: k for k, x in enumerate(found)}
    rates = np.zeros((len(found), len(found)))

    def move(x, source, target, rate):
        y = list(x)
        y[source] -= 1
        y[target] += 1
        rates[index[x], index[tuple(y)]] += rate
        rates[index[x], index[x]] -= rate

    for x, i in itertools.product(found, range(n)):
        if x[i]:
            move(x, i, n + i, x[i] * downlink[i])
        if x[n + i]:
            move(x, n + i, 2 * n + i, mu[i])
        if x[2 * n + i]:
            for j in range(n):
                move(x, 2 * n + i, j, x[2 * n + i] * uplink[i] * p[j])
    system = np.vstack([rates.T, np.ones(len(found))])
    law = np.linalg.lstsq(system, np.append(np.zeros(len(found)), 1.0), rcond=None)[0]
    mean = (law @ np.array(found)).reshape(3, n)
    return mean, float(mean[2] @ uplink)


@pytest.mark.parametrize("tasks", [1, 2, 3])
def test_merged_links_give_the_same_as_a_station_for_each_link(tasks):
    p, mu = np.array([0.32, 0.68]), np.array([1.0, 3.0])
    uplink, downlink = np.array([0.7, 5.0]), np.array([2.0, 0.4])
    fleet = Fleet(("a", "b"), [1, 1], mu, uplink_rate=uplink, downlink_rate=downlink)
    analysis = analyze(fleet, Plan.weighted(fleet, p, tasks))
    (down, queue, up), throughput = solve_every_station(p, mu, uplink, downlink, tasks)
    assert analysis.throughput == pytest.approx(throughput, rel=1e-10)
    np.testing.assert_allclose(analysis.queue, queue, rtol=1e-9)
    np.testing.assert_allclose(analysis.on_links, down + up, rtol=1e-9)


@pytest.mark.parametrize("tasks", [2, 3, 4])
def test_indicator_staleness_is_all_the_tasks_of_a_client_in_a_network_with_one_task_less(tasks):
    p, mu = np.array([0.32, 0.68]), np.array([1.0, 3.0])
    uplink, downlink = np.array([0.7, 5.0]), np.array([2.0, 0.4])
    fleet = Fleet(("a", "b"), [1, 1], mu, uplink_rate=uplink, downlink_rate=downlink)
    analysis = analyze(fleet, Plan.weighted(fleet, p, tasks))
    mean, _ = solve_every_station(p, mu, uplink, downlink, tasks - 1)
    np.testing.assert_allclose(analysis.staleness("indicator"), mean.sum(axis=0), rtol=1e-9)


def test_the_published_fleet_with_links():
    # Alahyane, Comte, Jonckheere, Moulines, arXiv 2603.26231: five types of client, uniform sampling, 100 tasks
    fleet = Fleet(
        name=("A", "B", "C", "D", "E"),
        count=[15, 15, 20, 40, 10],
        rate=[10, 0.3, 5, 0.15, 12],
        uplink_rate=[2, 9, 6, 0.1, 10],
        downlink_rate=[2.5, 10, 7, 0.12, 11],
    )
    analysis = analyze(fleet, Plan.uniform(fleet, concurrency=100))
    assert analysis.throughput == pytest.approx(7.40595, abs=5e-6)
    assert analysis.staleness() == pytest.approx([7.358, 33.914, 3.768, 229.634, 2.020], abs=5e-4)


def test_links_slow_the_network_and_lengthen_the_sojourn_by_their_own_time_at_least():
    plain = Fleet.of(a=(2, 1.0), b=(2, 3.0))
    linked = Fleet(("a", "b"), [2, 2], [1.0, 3.0], uplink_rate=[2.0, 2.0], downlink_rate=[4.0, 4.0])
    without = analyze(plain, Plan.uniform(plain, concurrency=5))
    with_links = analyze(linked, Plan.uniform(linked, concurrency=5))
    assert with_links.throughput < without.throughput
    # 1/2 on the way up and 1/4 on the way down, waited for or not
    np.testing.assert_allclose(with_links.sojourn - with_links.waiting - 1 / linked.rate, 0.75, rtol=1e-12)
    assert (with_links.waiting < without.waiting).all()


def test_instant_links_are_no_links():
    plain = Fleet.of(a=(2, 1.0), b=(2, 3.0))
    linked = Fleet(("a", "b"), [2, 2], [1.0, 3.0], uplink_rate=[1e12, 1e12], downlink_rate=[1e12, 1e12])
    without = analyze(plain, Plan.uniform(plain, concurrency=5))
    with_links = analyze(linked, Plan.uniform(linked, concurrency=5))
    assert with_links.throughput == pytest.approx(without.throughput, rel=1e-10)
    np.testing.assert_allclose(with_links.staleness(), without.staleness(), rtol=1e-10)
