"""A busy server: one more queue that every task passes after its uplink."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any_fleet import linked_fleet
from sojourn import Fleet, InvalidInput, Plan, analyze
from sojourn.timing.exact.jackson import ClosedNetwork

ANY = settings(max_examples=40)
STEP = 1e-3  # of the moved value; the differences below are of fourth order
TWO_CLIENTS = Fleet(("first", "second"), [1, 1], rate=[1.0, 3.0], uplink_rate=[1.0, 3.0], downlink_rate=[1.0, 3.0])


def placed(stations, tasks):
    """Every way to place `tasks` tasks in `stations` stations."""
    return [x for x in itertools.product(range(tasks + 1), repeat=stations) if sum(x) == tasks]


def enumerated(p, mu, uplink, downlink, server, tasks):
    """Mean tasks at (downlinks, clients, uplinks, server) and sum of all weights, from the product form.

    A station with one server has the factor load^x, one with infinitely many load^x / x!.
    """
    n = len(p)
    load = np.concatenate([p / downlink, p / mu, p / uplink, [1 / server]])
    many = np.repeat([True, False, True, False], [n, n, n, 1])
    found = np.array(placed(3 * n + 1, tasks))
    factorial = np.array([math.factorial(k) for k in range(tasks + 1)])
    weight = np.prod(load**found / np.where(many, factorial[found], 1), axis=1)
    return (weight @ found / weight.sum()), weight.sum()


@st.composite
def cases(draw, most=20):
    """A fleet with or without links, a plan, a server rate, and a weight for each group."""
    rate = st.floats(0.1, 10)
    fleet, column = linked_fleet(draw, rate)
    plan = Plan.weighted(fleet, column(rate), concurrency=draw(st.integers(1, most)))
    return fleet, plan, draw(st.floats(0.1, 30)), column(st.floats(-2, 2))


def test_two_clients_with_links_and_a_server_that_takes_no_time():
    # [A26]: p = (.32, .68), every rate of the first client 1, of the second 3, six tasks
    analysis = analyze(TWO_CLIENTS, Plan.weighted(TWO_CLIENTS, [0.32, 0.68], 6))
    assert analysis.staleness("indicator") == pytest.approx([3.06611834, 1.93388166], abs=5e-9)
    assert analysis.throughput == pytest.approx(2.55834388, abs=5e-9)
    assert (analysis.server_queue, analysis.server_utilisation, analysis.server_rate) == (0, 0, np.inf)


@pytest.mark.parametrize("solver", ["mva", "contour"])
@pytest.mark.parametrize("server", [0.5, 3.0, np.inf])
@pytest.mark.parametrize("tasks", [1, 2, 6])
def test_a_network_with_links_and_server_is_the_enumerated_one(tasks, server, solver):
    p, mu, links = np.array([0.32, 0.68]), np.array([1.0, 3.0]), np.array([1.0, 3.0])
    analysis = analyze(TWO_CLIENTS, Plan.weighted(TWO_CLIENTS, p, tasks), server_rate=server, solver=solver)
    now, constant = enumerated(p, mu, links, links, server, tasks)
    before, constant_before = enumerated(p, mu, links, links, server, tasks - 1)
    assert analysis.throughput == pytest.approx(constant_before / constant, rel=1e-12)
    np.testing.assert_allclose(analysis.queue, now[2:4], rtol=1e-12)
    np.testing.assert_allclose(analysis.on_links, now[:2] + now[4:6], rtol=1e-12)
    assert analysis.server_queue == pytest.approx(now[6], rel=1e-12)
    assert analysis.server_utilisation == pytest.approx(analysis.throughput / server, rel=1e-12)
    # the tasks at the server count where they were served
    pending = before[:2] + before[2:4] + before[4:6] + p * before[6]
    np.testing.assert_allclose(analysis.staleness("indicator"), pending, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(analysis.staleness(), pending / p, rtol=1e-12, atol=1e-15)


def steps_until_applied(p, mu, server, tasks, client):
    """Expected applications before that of a followed task, by (whether it is at the server, tasks ahead, others).

    `others` are the other tasks at each client and, last, at the server. h = sum of P(event) ([applied] + h after).
    """
    n = len(p)
    places = [(False, a, y) for y in placed(n + 1, tasks - 1) for a in range(y[client] + 1)]
    places += [(True, a, y) for y in placed(n + 1, tasks - 1) for a in range(y[n] + 1)]
    index = {place: k for k, place in enumerate(places)}
    matrix, right = np.eye(len(places)), np.zeros(len(places))

    def moved(y, source, target):
        return tuple(np.array(y) - (np.arange(n + 1) == source) + (np.arange(n + 1) == target))

    for (served, ahead, y), row in index.items():
        rates = {j: mu[j] for j in range(n) if y[j] > 0 or (not served and j == client)}
        if y[n] > 0 or served:
            rates[n] = server
        for j, rate in rates.items():
            chance = rate / sum(rates.values())
            if j == n and served and ahead == 0:
                continue  # the followed task is applied
            if j == n:
                right[row] += chance
                for k in range(n):
                    matrix[row, index[served, ahead - served, moved(y, n, k)]] -= chance * p[k]
            elif j == client and not served and ahead == 0:
                matrix[row, index[True, y[n], y]] -= chance
            else:
                closer = not served and j == client
                matrix[row, index[served, ahead - closer, moved(y, j, n)]] -= chance
    return dict(zip(places, np.linalg.solve(matrix, right), strict=True))


@pytest.mark.parametrize(
    ("p", "mu", "server", "tasks"),
    [
        ((0.5, 0.5), (1.0, 2.0), 1.5, 3),
        ((0.9, 0.1), (1.0, 0.2), 0.4, 4),
        ((0.2, 0.3, 0.5), (3.0, 0.5, 1.0), 1.0, 3),
        ((0.3, 0.7), (1.0, 2.0), 5.0, 1),
    ],
)
def test_staleness_is_what_a_task_followed_to_the_server_meets(p, mu, server, tasks):
    fleet = Fleet.of_rates(mu)
    analysis = analyze(fleet, Plan.weighted(fleet, p, tasks), server_rate=server)
    load = np.append(np.array(p) / mu, 1 / server)
    followed = []
    for client in range(len(p)):
        steps = steps_until_applied(p, mu, server, tasks, client)
        # a task is dispatched when another is applied: the others are as in a network with one task less
        law = {y: np.prod(load ** np.array(y)) for y in placed(len(p) + 1, tasks - 1)}
        total = sum(weight * steps[False, y[client], y] for y, weight in law.items())
        followed.append(total / sum(law.values()))
    np.testing.assert_allclose(analysis.staleness(), followed, rtol=1e-10, atol=1e-12)


@ANY
@given(cases(most=60))
def test_laws_that_hold_with_any_server(case):
    fleet, plan, server, _ = case
    analysis = analyze(fleet, plan, server_rate=server)
    tasks = plan.concurrency
    # the mean staleness over all tasks is one less than the tasks in flight
    mean = (fleet.count * plan.sampling * analysis.staleness()).sum()
    assert mean == pytest.approx(tasks - 1, rel=1e-10, abs=1e-10)
    # every task is at a client, on a link or at the server
    held = (fleet.count * (analysis.queue + analysis.on_links)).sum() + analysis.server_queue
    assert held == pytest.approx(tasks, rel=1e-10)
    # Little: a client's tasks, a share p of the server's among them, over its flow
    own = analysis.queue + analysis.on_links + plan.sampling * analysis.server_queue
    np.testing.assert_allclose(analysis.sojourn, own / (analysis.throughput * plan.sampling), rtol=1e-10)
    # the server applies no faster than it can
    assert analysis.throughput <= server * (1 + 1e-12)


@ANY
@given(cases())
def test_a_server_slows_and_an_infinitely_fast_one_does_not(case):
    fleet, plan, server, _ = case
    without, busy = analyze(fleet, plan), analyze(fleet, plan, server_rate=server)
    assert busy.throughput <= without.throughput  # equal where one client is all the bottleneck
    fast = analyze(fleet, plan, server_rate=np.inf)
    assert fast.throughput == without.throughput
    np.testing.assert_array_equal(fast.staleness(), without.staleness())


def test_a_fleet_of_many_shares_one_slow_server():
    # the server of rate 2 is the bottleneck: nearly all of the 100 tasks wait for it
    fleet = Fleet.of(x=(10, 1.0))
    analysis = analyze(fleet, Plan.uniform(fleet, 100), server_rate=2.0)
    assert analysis.throughput == pytest.approx(2.0, rel=1e-9)
    assert analysis.server_utilisation == pytest.approx(1.0, rel=1e-9)
    # the clients then are ten queues with arrivals at rate 0.2: 0.2 / (1 - 0.2) tasks each
    assert analysis.queue == pytest.approx([0.25], rel=1e-9)
    assert analysis.server_queue == pytest.approx(97.5, rel=1e-9)


def test_queue_laws_and_covariances_are_those_of_the_clients():
    fleet = Fleet.of(a=(2, 1.0), b=(1, 3.0))
    analysis = analyze(fleet, Plan.uniform(fleet, 5), server_rate=2.0)
    assert analysis.queue.shape == analysis.utilisation.shape == (2,)
    variance, pair = analysis.queue_covariances()
    assert (variance.shape, pair.shape) == ((2,), (2, 2))
    law, k = analysis.queue_distribution("b"), np.arange(6)
    assert law @ k == pytest.approx(analysis.queue[1], rel=1e-12)
    assert law @ k**2 - (law @ k) ** 2 == pytest.approx(variance[1], rel=1e-10)


def network(fleet, plan, server, wrt, group, factor, solver):
    """The network of single clients in which p or mu of the first client of `group` is `factor` times as large."""
    single = fleet.expanded()
    p, mu = np.repeat(plan.sampling, fleet.count), single.rate.copy()
    (p if wrt == "sampling" else mu)[fleet.first_client[group]] *= factor
    delay = float((p * (1 / single.uplink_rate + 1 / single.downlink_rate)).sum())
    load, count = np.append(p / mu, 1 / server), np.append(single.count, 1)
    return ClosedNetwork.solve(load, count, plan.concurrency, delay, solver=solver)


def slopes(value, case, wrt):
    """Derivative of value(network) by the p or mu of one client of each group, by differences."""
    fleet, plan, server, _ = case
    result = []
    for group, at in enumerate(plan.sampling if wrt == "sampling" else fleet.rate):
        near, far = (
            value(network(fleet, plan, server, wrt, group, 1 + h, "mva"))
            - value(network(fleet, plan, server, wrt, group, 1 - h, "mva"))
            for h in (STEP, 2 * STEP)
        )
        result.append((8 * near - far) / (12 * STEP * at))
    return np.array(result)


@pytest.mark.parametrize("solver", ["mva", "contour"])
@pytest.mark.parametrize("wrt", ["sampling", "rate"])
@ANY
@given(case=cases())
def test_the_gradient_of_the_throughput_is_its_slope(wrt, solver, case):
    fleet, plan, server, _ = case
    analysis = analyze(fleet, plan, server_rate=server, solver=solver)
    scale = analysis.throughput / min(plan.sampling.min(), fleet.rate.min())
    expected = slopes(lambda net: net.throughput, case, wrt)
    np.testing.assert_allclose(analysis.throughput_gradient(wrt), expected, rtol=1e-6, atol=1e-10 * scale)


@pytest.mark.parametrize("solver", ["mva", "contour"])
@pytest.mark.parametrize("wrt", ["sampling", "rate"])
@ANY
@given(case=cases())
def test_the_gradient_of_weighted_queues_is_their_slope(wrt, solver, case):
    fleet, plan, server, weights = case
    each = np.append(np.repeat(weights, fleet.count), 0.0)
    analysis = analyze(fleet, plan, server_rate=server, solver=solver)
    scale = plan.concurrency / min(plan.sampling.min(), fleet.rate.min())
    expected = slopes(lambda net: each @ net.queue, case, wrt)
    np.testing.assert_allclose(analysis.queue_gradient(weights, wrt), expected, rtol=1e-6, atol=1e-10 * scale)


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("solver", ["mva", "contour"])
@pytest.mark.parametrize("wrt", ["sampling", "rate"])
@ANY
@given(case=cases())
def test_the_gradient_of_weighted_staleness_is_its_slope(wrt, solver, busy, case):
    """Tasks of every client in its queue, on its links and at the server; one client of a group is moved."""
    fleet, plan, server, weights = case
    rate = server if busy else None
    single, each = fleet.expanded(), np.repeat(weights, fleet.count)
    link = 1 / single.uplink_rate + 1 / single.downlink_rate

    def weighted(group, factor):
        p, mu = np.repeat(plan.sampling, fleet.count), single.rate.copy()
        (p if wrt == "sampling" else mu)[fleet.first_client[group]] *= factor
        load = np.append(p / mu, 1 / server) if busy else p / mu
        net = ClosedNetwork.solve(load, np.ones(load.size), plan.concurrency, float((p * link).sum()))
        queue, at_server = net.queue_before[: p.size], net.queue_before[p.size :].sum()
        return float(each @ (queue + net.throughput_before * p * link + p * at_server))

    expected = []
    for group, at in enumerate(plan.sampling if wrt == "sampling" else fleet.rate):
        near, far = (weighted(group, 1 + h) - weighted(group, 1 - h) for h in (STEP, 2 * STEP))
        expected.append((8 * near - far) / (12 * STEP * at))
    analysis = analyze(fleet, plan, server_rate=rate, solver=solver)
    total = float(fleet.count * weights @ analysis.staleness("indicator"))
    assert weighted(0, 1.0) == pytest.approx(total, rel=1e-9, abs=1e-9)
    scale = plan.concurrency / min(plan.sampling.min(), fleet.rate.min())
    np.testing.assert_allclose(analysis.staleness_gradient(weights, wrt), expected, rtol=1e-6, atol=1e-10 * scale)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_a_server_rate_that_is_not_positive_is_refused(rate):
    fleet = Fleet.of(a=(2, 1.0))
    with pytest.raises(InvalidInput, match=r"server_rate must be positive, got .*; leave it out"):
        analyze(fleet, Plan.uniform(fleet, 3), server_rate=rate)


def test_progress_may_still_be_the_third_argument():
    fleet, reports = Fleet.of(a=(2, 1.0)), []
    analyze(fleet, Plan.uniform(fleet, 30), lambda done, total: reports.append((done, total)))
    assert reports == [(29, 30)]
