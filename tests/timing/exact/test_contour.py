"""Contour quadrature: the same network as by exact fractions, by mean value analysis and by convolution."""

import resource
import time
from dataclasses import replace
from fractions import Fraction

import buzen
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn import Fleet, InvalidInput, Plan, analyze
from sojourn.timing.exact import contour, jackson
from sojourn.timing.exact.jackson import ClosedNetwork

ANY = settings(max_examples=150)


def lognormal(clients, spread, seed=0):
    """Loads of clients sampled uniformly whose rates are lognormal."""
    return np.exp(-np.random.default_rng(seed).normal(0, spread, clients)) / clients


def by_speed(clients):
    """Loads of clients sampled in proportion to their rate: equal, up to rounding."""
    rate = np.exp(np.random.default_rng(1).normal(0, 1, clients))
    return rate / rate.sum() / rate


# name: loads, counts, population, delay
REGIMES = {
    "uniform sampling, lognormal rates": (lognormal(2000, 0.5), np.ones(2000), 200, 0.0),
    "the same with links": (lognormal(2000, 0.5), np.ones(2000), 200, 0.05),
    "near criticality": (lognormal(1000, 1.0), np.ones(1000), 100, 0.0),
    "saturated by one client": (lognormal(1000, 1.0), np.ones(1000), 3000, 0.0),
    "saturated with links": (lognormal(1000, 1.0), np.ones(1000), 3000, 1.0),
    "sampling by speed": (by_speed(1000), np.ones(1000), 500, 0.0),
    "sampling by speed, many tasks": (by_speed(100), np.ones(100), 5000, 0.0),
    "more clients than tasks": (lognormal(5000, 0.3), np.ones(5000), 40, 0.0),
    "many more tasks than clients": (np.array([1.0, 0.9, 0.5]), np.ones(3), 5000, 0.0),
    "two nearly equal bottlenecks": (np.array([1.0, 0.9999, 0.5]), np.array([1, 1, 100]), 3000, 0.0),
    "a million equal clients": (np.array([1e-6]), np.array([10**6]), 3000, 0.0),
    "two groups of a million": (np.array([1e-6, 2e-6]), np.array([10**6, 10**6]), 3000, 1.0),
    "groups of some": (lognormal(50, 1.0), np.arange(1, 51), 300, 0.0),
    "the paper's two clusters": (np.array([1 / 1.2, 1.0]) / 10, np.array([5, 5]), 1000, 0.0),
    "nearly all tasks on the links": (lognormal(10, 1.0), np.ones(10), 1000, 1e5),
    "one client": (np.array([1.0]), np.ones(1), 100, 0.0),
    "one client and its links": (np.array([1.0]), np.ones(1), 60, 50.0),
    "loads over twelve decades": (np.logspace(-12, 0, 200), np.ones(200), 500, 0.0),
    "one task": (np.array([1.0, 0.5, 0.01]), np.array([1, 3, 1000]), 1, 2.0),
    "two tasks": (np.array([1.0, 0.5, 0.01]), np.array([1, 3, 1000]), 2, 2.0),
    "the most tasks on a circle": (np.array([1.0, 0.1]), np.array([1, 3]), contour.FEW - 1, 0.0),
    "the fewest tasks on a hyperbola": (np.array([1.0, 0.1]), np.array([1, 3]), contour.FEW, 0.0),
}
every_regime = pytest.mark.parametrize("regime", REGIMES.values(), ids=REGIMES.keys())


def both(load, count, population, delay):
    return (ClosedNetwork.solve(load, count, population, delay, solver=solver) for solver in ("mva", "contour"))


@every_regime
def test_every_queue_has_twelve_digits_the_smallest_too(regime):
    exact, found = both(*regime)
    assert found.throughput == pytest.approx(exact.throughput, rel=1e-12)
    assert found.throughput_before == pytest.approx(exact.throughput_before, rel=1e-12)
    np.testing.assert_allclose(found.queue, exact.queue, rtol=1e-12)
    np.testing.assert_allclose(found.queue_before, exact.queue_before, rtol=1e-12)
    np.testing.assert_allclose(found.utilisation, exact.utilisation, rtol=1e-12)
    assert (exact.solver, found.solver) == ("mva", "contour")


@every_regime
def test_the_certificate_is_small_and_the_tasks_are_all_there(regime):
    _, count, population, delay = regime
    _, found = both(*regime)
    assert found.error < 1e-12
    held = (count * found.queue).sum() + delay * found.throughput
    assert held == pytest.approx(population, rel=1e-12)


@every_regime
def test_a_few_dozen_points_do_in_every_regime(regime):
    _, found = both(*regime)
    assert found.population < contour.FEW or found.contour.excess.size <= 48


def constants(load, count, delay, population):
    """H_0..H_C as exact fractions: the series of exp(Z z), divided by 1 - theta z once for every queue."""
    series = [Fraction(1)]
    for c in range(1, population + 1):
        series.append(series[-1] * delay / c)
    for theta, number in zip(load, count, strict=True):
        for _ in range(number):
            for c in range(1, population + 1):
                series[c] += theta * series[c - 1]
    return series


@pytest.mark.parametrize("population", [1, 2, 7, 31, 32, 60])
@pytest.mark.parametrize("delay", [Fraction(0), Fraction(7, 2)])
def test_exact_fractions_give_the_same_network(population, delay):
    load, count = [Fraction(1, 3), Fraction(1, 4), Fraction(1, 1000), Fraction(1, 10**9)], [1, 2, 3, 1]
    h = constants(load, count, delay, population)

    def queues(tasks):
        return [float(sum(theta**k * h[tasks - k] for k in range(1, tasks + 1)) / h[tasks]) for theta in load]

    floats = np.array([float(theta) for theta in load])
    for solver in ("mva", "contour"):
        network = ClosedNetwork.solve(floats, np.array(count), population, float(delay), solver=solver)
        assert network.throughput == pytest.approx(float(h[-2] / h[-1]), rel=1e-13)
        np.testing.assert_allclose(network.queue, queues(population), rtol=1e-13)
        np.testing.assert_allclose(network.queue_before, queues(population - 1), rtol=1e-13)


def test_convolution_gives_the_same_queues_for_two_thousand_clients():
    load, count = lognormal(2000, 0.5), np.ones(2000, dtype=np.int64)
    found = ClosedNetwork.solve(load, count, 200, solver="contour")
    np.testing.assert_allclose(found.queue, buzen.mean_queues(load, count, 200), rtol=1e-9)


@st.composite
def networks(draw):
    """Up to six groups whose loads may nearly coincide or lie decades apart, and groups of one or of thousands."""
    size = draw(st.integers(1, 6))
    apart = draw(st.sampled_from([1e-9, 1e-3, 0.3, 3.0]))
    load = np.exp(apart * np.array(draw(st.lists(st.floats(-2, 2), min_size=size, max_size=size))))
    largest = draw(st.sampled_from([1, 5, 1000, 10**6]))
    count = np.array(draw(st.lists(st.integers(1, largest), min_size=size, max_size=size)))
    delay = draw(st.one_of(st.just(0.0), st.floats(-3, 5).map(lambda power: 10.0**power)))
    return load, count, draw(st.integers(1, 600)), delay


@ANY
@given(networks())
def test_any_network_is_solved_and_certified(network):
    exact, found = both(*network)
    assert found.throughput == pytest.approx(exact.throughput, rel=1e-11)
    np.testing.assert_allclose(found.queue, exact.queue, rtol=1e-11)
    np.testing.assert_allclose(found.queue_before, exact.queue_before, rtol=1e-11)
    assert found.error < 1e-11


@every_regime
def test_gradients_are_those_of_mean_value_analysis(regime):
    exact, found = both(*regime)
    weights = np.random.default_rng(2).uniform(0.5, 1, exact.load.size)
    # mean value analysis loses digits here where one client holds nearly all tasks
    change = exact.throughput_gradient()
    np.testing.assert_allclose(found.throughput_gradient(), change, rtol=1e-6, atol=1e-10 * np.abs(change).max())
    assert found.throughput_gradient_delay() == pytest.approx(exact.throughput_gradient_delay(), rel=1e-8)
    for before in (False, True):
        (by_load, by_delay), (expected, expected_delay) = (x.queue_gradient(weights, before) for x in (found, exact))
        scale = np.abs(expected).max() + exact.population
        np.testing.assert_allclose(by_load, expected, rtol=1e-6, atol=1e-9 * scale)
        assert by_delay == pytest.approx(expected_delay, rel=1e-8, abs=1e-10 * scale)


def test_a_gradient_is_the_slope_of_the_queues_where_one_client_holds_nearly_all_tasks():
    load, count, population, delay = REGIMES["saturated with links"]
    weights = np.random.default_rng(2).uniform(0.5, 1, load.size)
    network = ClosedNetwork.solve(load, count, population, delay, solver="contour")
    by_load, by_delay = network.queue_gradient(weights)

    def value(group, change):
        moved = load * np.where(np.arange(load.size) == group, 1 + change, 1)
        apart = delay * (1 + change) if group is None else delay
        return weights @ ClosedNetwork.solve(moved, count, population, apart, solver="contour").queue

    def slope(group, h=1e-5):
        return (8 * (value(group, h) - value(group, -h)) - (value(group, 2 * h) - value(group, -2 * h))) / (12 * h)

    for group in (0, int(load.argmin()), int(load.argsort()[-2]), int(load.argmax())):
        assert by_load[group] == pytest.approx(slope(group), rel=1e-4, abs=1e-6)
    assert by_delay == pytest.approx(slope(None), rel=1e-6)


@pytest.mark.parametrize(
    "name", ["near criticality", "groups of some", "two nearly equal bottlenecks", "one client and its links"]
)
def test_variances_and_covariances_are_those_of_mean_value_analysis(name):
    load, count, population, delay = REGIMES[name]
    exact, found = both(load[:60], count[:60], population, delay)
    for ours, theirs in zip(found.covariances(), exact.covariances(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-11 * np.abs(theirs).max())


@pytest.mark.parametrize(
    "name",
    ["saturated by one client", "saturated with links", "the paper's two clusters", "groups of some", "two tasks"],
)
def test_the_law_of_a_queue_is_that_of_mean_value_analysis_in_its_tail_too(name):
    exact, found = both(*REGIMES[name])
    for group in (0, int(exact.load.argmax())):
        tail, expected = found.tail(group), exact.tail(group)
        certain = expected > 1e-30
        np.testing.assert_allclose(tail[certain], expected[certain], rtol=1e-9)
        assert (tail[~certain] < 1.1e-30).all()
        np.testing.assert_allclose(found.distribution(group), exact.distribution(group), rtol=1e-6, atol=1e-12)
        assert (found.distribution(group) >= 0).all()


@pytest.mark.parametrize("name", ["near criticality", "saturated with links", "a million equal clients"])
def test_the_throughputs_of_all_populations_are_those_of_mean_value_analysis(name):
    exact, found = both(*REGIMES[name])
    np.testing.assert_allclose(found.throughput_by_population, exact.throughput_by_population, rtol=1e-10)


def test_mean_value_analysis_is_chosen_where_it_is_quick():
    assert ClosedNetwork.solve(np.ones(1000), np.ones(1000), 1000).solver == "mva"
    assert ClosedNetwork.solve(np.ones(2), np.ones(2), 10**6).solver == "mva"
    assert ClosedNetwork.solve(np.ones(200_000), np.ones(200_000), 100).solver == "mva"


def test_a_contour_is_chosen_for_many_clients_and_many_tasks():
    reports = []
    network = ClosedNetwork.solve(
        lognormal(10_000, 0.5), np.ones(10_000), 5000, progress=lambda done, total: reports.append((done, total))
    )
    assert network.solver == "contour"
    assert reports == [(5000, 5000)]


def test_a_thousand_million_tasks_are_solved_at_once():
    # all but the slow clients hold theta / (theta_s - theta) each; the slow ones share the rest
    network = ClosedNetwork.solve(np.array([0.5, 1.0]), np.array([10, 4]), 10**9)
    assert network.solver == "contour"
    assert network.queue == pytest.approx([1.0, (10**9 - 10) / 4], rel=1e-8)


def test_points_too_far_apart_are_found_out_and_mean_value_analysis_is_taken(monkeypatch):
    load, count = lognormal(10_000, 0.5), np.ones(10_000)
    monkeypatch.setattr(contour, "FIRST", replace(contour.FIRST, step=0.5))
    forced = ClosedNetwork.solve(load, count, 3000, solver="contour")
    exact = ClosedNetwork.solve(load, count, 3000, solver="mva")
    wrong = max(abs(forced.throughput / exact.throughput - 1), np.abs(forced.queue / exact.queue - 1).max())
    assert wrong > 1e-9
    assert 0.99 * wrong < forced.error
    monkeypatch.setattr(jackson, "_TRUSTED", wrong / 2)
    assert ClosedNetwork.solve(load, count, 3000).solver == "mva"


@pytest.mark.parametrize("step", [0.15, 0.2, 0.3, 0.5])
@pytest.mark.parametrize("name", ["near criticality", "saturated with links", "the paper's two clusters"])
def test_the_certificate_is_not_below_the_error(name, step, monkeypatch):
    monkeypatch.setattr(contour, "FIRST", replace(contour.FIRST, step=step))
    exact, found = both(*REGIMES[name])
    assert 0.99 * np.abs(found.queue / exact.queue - 1).max() - 1e-13 < found.error


def test_a_contour_that_is_not_a_number_is_not_trusted():
    same = np.array([1.0, 2.0])
    assert contour._apart(same, same) == 0
    assert contour._apart(same, np.array([1.0, np.nan])) == np.inf
    assert contour._apart(np.array([1.0, np.nan]), same) == np.inf
    assert contour._apart(same, np.array([1.0, 2.5])) == 0.25


def test_an_analysis_says_how_it_was_solved_and_how_well():
    fleet = Fleet(("a", "b"), [300, 200], [1.0, 3.0], uplink_rate=[2.0, 5.0], downlink_rate=[4.0, 9.0])
    plan = Plan.uniform(fleet, 400)
    chosen, forced = analyze(fleet, plan, server_rate=400.0), analyze(fleet, plan, server_rate=400.0, solver="contour")
    assert (chosen.solver, forced.solver) == ("mva", "contour")
    assert max(chosen.error, forced.error) < 1e-13
    for key in ("throughput", "queue", "on_links", "sojourn", "server_queue", "server_utilisation"):
        np.testing.assert_allclose(getattr(forced, key), getattr(chosen, key), rtol=1e-12)
    np.testing.assert_allclose(forced.staleness(), chosen.staleness(), rtol=1e-12)
    np.testing.assert_allclose(forced.throughput_gradient(), chosen.throughput_gradient(), rtol=1e-8)


def test_another_method_is_refused():
    with pytest.raises(InvalidInput, match="solver must be mva or contour, got 'buzen'; leave it out"):
        ClosedNetwork.solve(np.ones(2), np.ones(2), 3, solver="buzen")


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.3, 0.5, 1.0])
def test_a_million_different_clients_with_a_hundred_thousand_tasks(spread, capsys):
    clients, tasks = 10**6, 10**5
    load, count = lognormal(clients, spread), np.ones(clients)
    ClosedNetwork.solve(load[:1000], count[:1000], 1000, solver="contour")  # compiled before the clock starts
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    network = ClosedNetwork.solve(load, count, tasks)
    seconds = time.perf_counter() - start
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    with capsys.disabled():
        print(
            f"\nspread {spread}: {seconds:.2f} s, {memory:.0f} MB more at the peak, error {network.error:.1e}, "
            f"{network.contour.excess.size} points, longest queue {network.queue.max():.6g}"
        )
    assert network.solver == "contour"
    assert network.error < 1e-11
    assert network.queue.sum() == pytest.approx(tasks, rel=1e-11)
    assert network.queue_before.sum() == pytest.approx(tasks - 1, rel=1e-11)
