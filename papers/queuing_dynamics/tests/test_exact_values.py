"""What the experiments rest on: exact values of the paper's fleets, to many digits."""

import numpy as np
import pytest

from queuing_dynamics import physical_time, step_size, three_clusters, two_clusters
from queuing_dynamics.delays import SingleRuns, single_run_rows
from queuing_dynamics.other_bounds import method_bound, tau_max
from queuing_dynamics.scaling_limits import exact_gamma
from queuing_dynamics.stationarity import fleet_of, settled
from queuing_dynamics.worked_example import best, exact_bounds, grid, sampled, worked_fleet
from sojourn import Plan, analyze
from sojourn.planning.bound.theorem import longest_wait
from sojourn.timing.exact.scaling import gamma_limit, gamma_paper


def test_two_clusters():
    uniform, optimal = (analyze(two_clusters.FLEET, plan) for plan in two_clusters.plans().values())
    assert uniform.staleness() == pytest.approx([48.792209, 1949.207791], abs=1e-6)
    assert uniform.throughput == pytest.approx(9.959161, abs=1e-6)
    assert optimal.staleness() == pytest.approx([4.455829, 1037.748474], abs=1e-6)


def test_three_clusters():
    exact = analyze(three_clusters.FLEET, Plan.uniform(three_clusters.FLEET, 1000))
    assert exact.staleness() == pytest.approx([0.997746, 44.454980, 2951.547274], abs=1e-6)
    assert exact.throughput == pytest.approx(8.981758, abs=1e-6)


@pytest.mark.parametrize(("clients", "conditional"), [(10, 0.730288), (50, 2.771369)])
def test_the_network_of_the_stationarity_figure(clients, conditional):
    fleet = fleet_of(clients)
    exact = analyze(fleet, Plan.uniform(fleet, clients))
    assert exact.staleness()[0] == pytest.approx(conditional, abs=1e-6)
    assert exact.staleness("indicator")[0] == pytest.approx(conditional / clients, abs=1e-7)


@pytest.mark.parametrize(
    ("speed", "tasks", "reading", "p", "value", "uniform"),
    [
        (2, 10, "indicator", 9.0056522e-3, 1.31209204, 1.33113357),
        (8, 100, "indicator", 4.5921095e-3, 2.35982729, 5.17093687),
        (16, 100, "conditional", 5.8072016e-3, 8.28588364, 23.7424371),
    ],
)
def test_the_worked_example(speed, tasks, reading, p, value, uniform):
    fleet = worked_fleet(float(speed))
    at, flat = exact_bounds(fleet, np.array([p, 0.01]), tasks, reading)
    assert at == pytest.approx(value, rel=1e-7)
    assert flat == pytest.approx(uniform, rel=1e-7)
    values = grid(fleet)
    found = best(values, exact_bounds(fleet, values, tasks, reading), flat)
    assert len(values) == 50
    assert abs(found.p - p) <= values[1] - values[0]
    assert value <= found.value <= 1.002 * value


def test_sampling_adds_up_to_one():
    fleet = worked_fleet(4.0)
    for p in grid(fleet):
        assert (fleet.count * sampled(fleet, float(p), 10).sampling).sum() == pytest.approx(1)


def test_rows_of_table_1():
    assert method_bound("FedBuff", longest_wait(100, 1.0, True), 100, True).value == pytest.approx(23.82, abs=5e-3)
    sgd = method_bound("AsyncSGD", longest_wait(100, 1.0, True), 100, True)
    assert sgd.value == pytest.approx(exact_bounds(worked_fleet(8.0), np.array([0.01]), 100, "indicator")[0], rel=1e-12)
    assert method_bound("AsyncSGD", 9000.0, 100, False).value > sgd.value  # cut at 1 / (100 * 9000)^(1/2)
    assert method_bound("FedBuff", float("inf"), 100, False).empty


def test_the_papers_gamma_is_not_the_networks():
    assert gamma_paper(1, 1.0) == pytest.approx(0.303894, abs=1e-6)
    assert exact_gamma(1, 1, 1.0) == pytest.approx(0.4180, abs=1e-4)
    assert gamma_limit(1, 1, 1.0) == pytest.approx(exact_gamma(1, 1, 1.0), abs=1e-4)


def test_the_caption_allows_steps_that_the_theorem_does_not():
    for reading in ("conditional", "indicator"):
        flat = step_size.curve(0.01, reading)
        assert pytest.approx(1) == flat.S1
        assert flat.by_staleness(8) / flat.by_staleness(16) == pytest.approx(2**0.5)
        assert flat.of_theorem == pytest.approx(min(flat.by_staleness(16), 1 / (2 * flat.S1)))
        assert flat.by_spread("printed") == pytest.approx(1 / (2 * flat.S1))
        assert flat.by_spread("proof") == pytest.approx(1 / (8 * flat.S1))
        assert flat.of_proof == flat.of_theorem  # it matters for one or two tasks; here there are ten
    assert pytest.approx(9) == step_size.curve(0.01, "indicator").S2  # C - 1 at uniform sampling


@pytest.mark.parametrize(
    ("reading", "gains", "samplings"),
    [
        ("conditional", [0.014, 0.019, 0.093, 0.164], [10.3, 9.5, 8.8, 8.2]),
        ("indicator", [0.057, 0.212, 0.285, 0.308], [10.5, 10.8, 11.0, 11.0]),
    ],
)
def test_what_physical_time_gains(reading, gains, samplings):
    for speed, gain, p in zip((2.0, 4.0, 8.0, 16.0), gains, samplings, strict=True):
        fleet = worked_fleet(speed)
        values = grid(fleet)
        bounds = exact_bounds(fleet, values, 100, reading, time=1000.0)
        flat = float(exact_bounds(fleet, np.array([0.01]), 100, reading, time=1000.0)[0])
        at = float(values[int(np.argmin(bounds))])
        found = physical_time._between(fleet, at, float(values[1] - values[0]), 100, reading, True, flat)
        assert found[1] == pytest.approx(gain, abs=6e-4)
        assert 1e3 * found[0] == pytest.approx(p, abs=0.06)


@pytest.mark.parametrize("reading", ["conditional", "indicator"])
def test_other_meanings_of_the_network_speed(reading):
    """With one speed for all, both are that speed, and the throughput of a single task."""
    for average in (physical_time.MEAN_SPEED, physical_time.MEAN_SERVICE):
        found = physical_time.other_speed_best(average, 1.000001, 10, reading)
        assert found.p == pytest.approx(0.01, abs=2.5e-4)
    mean, service = (
        physical_time.other_speed_best(average, 4.0, 100, reading)
        for average in (physical_time.MEAN_SPEED, physical_time.MEAN_SERVICE)
    )
    # the harmonic mean punishes slow clients more, so that it asks for more of the fast ones
    assert mean.p < service.p
    assert mean.gain > service.gain


def test_the_largest_delay_is_that_of_a_run():
    runs = SingleRuns(np.array([[1.0, 10.0], [2.0, 10.0]]), np.array([[4.0, 30.0], [4.0, 50.0]]))
    times, error = runs.times
    assert times == pytest.approx([3, 4])  # not 4 / 1.5 and 50 / 10
    assert error == pytest.approx([1, 1])
    assert [row["largest"] for row in single_run_rows(two_clusters.FLEET, runs)] == [4, 30, 4, 50]


def test_services_without_a_longest_duration_leave_no_tau_max():
    fixed, random = (tau_max(worked_fleet(2.0, deterministic), 100, 5.0) for deterministic in (True, False))
    assert fixed == {"time": 100.0, "steps": 500.0}
    assert random == {"time": float("inf"), "steps": float("inf")}


def test_a_curve_is_settled_after_it_last_strays():
    curve = np.concatenate([np.full(100, 1.9), np.full(400, 1.0)])
    lots = np.stack([curve, curve])
    # twenty values from the hundredth on hold one stray one, 0.9 / 20 = 4.5% off; from the 99th on two, 9%
    assert settled(lots, 1.0) == 99
    assert settled(np.ones((2, 500)), 1.0) == 0
