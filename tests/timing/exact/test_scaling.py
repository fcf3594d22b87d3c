"""The paper's limit regimes: Gamma by integration, the printed forms by hand, and where they miss the exact values."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammainc

from sojourn import Fleet, InvalidInput, Plan, analyze, regime
from sojourn.timing.exact.scaling import gamma_limit, gamma_paper

TWO = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))
THREE = Fleet.of(fast=(3, 10.0), medium=(3, 1.2), slow=(3, 1.0))


def integrated_gamma(near, c):
    """Mean of t under the density t^near e^-t on (0, c), over near + 1: the same ratio of two integrals.

    Written in v = t / top - 1, about the largest value of the density, so that nothing underflows.
    """
    top = min(near, c)
    width = 1 / max(near - top, near**0.5)
    marks = width * np.array([-40, -20, -10, -5, -2, -1, 0, 1, 2, 5, 10, 20, 40])
    edges = np.unique(np.clip(marks, -1, c / top - 1))

    def density(v):
        return np.exp(near * np.log1p(v) - top * v)

    def integral(f):
        return sum(quad(f, low, high, epsabs=0, epsrel=1e-10)[0] for low, high in pairwise(edges))

    return top * (1 + integral(lambda v: v * density(v)) / integral(density)) / (near + 1)


@pytest.mark.parametrize(
    ("near", "c"),
    [
        (1, 1e-3),
        (1, 1.0),
        (5, 1e-20),
        (5, 10.0),
        (5, 200.2),
        (400, 100.0),
        (1000, 1000.0),
        (10**6, 9.9e5),
        (10**6, 1e6),
        (3, 1e9),
        (10**6, 1e9),
    ],
)
def test_gamma_is_a_ratio_of_two_integrals(near, c):
    assert gammainc(near + 1, c) > 1e-200
    assert gamma_paper(near, c) == pytest.approx(integrated_gamma(near, c), rel=1e-9)


@pytest.mark.parametrize(
    ("near", "c"),
    [(1, 1e-300), (5, 1e-60), (100, 1e-3), (100, 0.1), (1000, 300.0), (10**4, 7e3), (10**6, 9e5), (10**6, 1e3)],
)
def test_gamma_is_right_where_both_probabilities_are_too_small_to_divide(near, c):
    assert gammainc(near + 1, c) < 1e-200
    assert gamma_paper(near, c) == pytest.approx(integrated_gamma(near, c), rel=1e-9)


def test_gamma_by_hand():
    # near = 1, c = 1: P(3, 1) / P(2, 1) = (1 - 5/2 e^-1) / (1 - 2 e^-1)
    assert gamma_paper(1, 1.0) == pytest.approx((1 - 2.5 / np.e) / (1 - 2 / np.e), rel=1e-13)
    # c -> 0: c / (near + 2)
    assert gamma_paper(5, 1e-100) == pytest.approx(1e-100 / 7, rel=1e-13)


def test_gamma_grows_from_zero_to_one_and_has_no_step_where_the_formula_changes():
    values = np.array([gamma_paper(1000, c) for c in np.linspace(250, 450, 401)])
    assert (np.diff(values) > 0).all()
    assert np.abs(np.diff(values, 2)).max() < 1e-6
    assert gamma_paper(1000, 1e6) == 1


@pytest.mark.parametrize(("near", "c"), [(5, 0.0), (5, -1.0), (5, float("nan")), (0, 1.0)])
def test_gamma_of_nothing_is_refused(near, c):
    with pytest.raises(
        InvalidInput, match=rf"Gamma needs c > 0 and at least one client in each cluster, got c={c}, {near} and 1"
    ):
        gamma_paper(near, c)


def test_the_papers_two_clusters_printed_beside_the_limit_beside_the_exact():
    result = regime(analyze(TWO, Plan.uniform(TWO, concurrency=1000)))
    # theta_s / theta_f - 1 = 0.2, c = 1001 * 0.2 = 200.2
    assert result.gamma_paper == pytest.approx(1, abs=1e-12)
    assert result.throughput_paper == pytest.approx(5 * 1.2 + 5 * 1.0)
    # fast 1/0.2 = 5; slow (1001 - 5 * 5) / 5
    assert result.queue_paper == pytest.approx([5, 195.2], rel=1e-12)
    # the limit law has 0.979828 in place of 1, and comes five times closer to the exact queue
    assert result.queue_limit == pytest.approx([4.899138, 195.300862], abs=5e-7)
    assert result.queue_exact == pytest.approx([4.879342, 195.120658], abs=5e-7)
    # 11/1.2 (5 + 1) and 11/1 (195.2 + 1)
    assert result.staleness_paper == pytest.approx([55, 2158.2], rel=1e-12)
    # 11/1.2 * 5 and 11/1 * (1000 - 25)/5
    assert result.staleness_printed == pytest.approx([45.833333, 2145], abs=5e-7)
    assert result.staleness_exact == pytest.approx([48.792209, 1949.207791], abs=5e-7)
    assert result.throughput_exact == pytest.approx(9.959161, abs=5e-7)


def test_the_printed_form_for_the_fast_cluster_is_below_the_exact_value_and_the_bound_above():
    result = regime(analyze(TWO, Plan.uniform(TWO, concurrency=1000)))
    assert result.staleness_printed[0] < result.staleness_exact[0] < result.staleness_paper[0]


def test_the_papers_three_clusters_count_the_fast_clients_by_how_often_they_are_busy():
    analysis = analyze(THREE, Plan.uniform(THREE, concurrency=1000))
    result = regime(analysis)
    flow = 3 * 10 * analysis.utilisation[0] + 3 * 1.2 + 3 * 1.0
    assert result.throughput_paper == pytest.approx(flow, rel=1e-13)
    # the fast queue vanishes, the medium is 1/0.2 = 5, the slow share the rest of 1001: (1001 - 15) / 3
    assert result.queue_paper == pytest.approx([0, 5, 986 / 3], rel=1e-12)
    assert result.staleness_paper == pytest.approx([flow / 10, flow / 1.2 * 6, flow * (986 / 3 + 1)], rel=1e-12)
    assert result.staleness_printed == pytest.approx([flow / 10, flow / 1.2 * 5, flow * 985 / 3], rel=1e-12)
    assert result.staleness_exact == pytest.approx([0.997746, 44.454980, 2951.547274], abs=5e-7)


def test_the_clusters_are_distinguished_by_load_and_not_by_their_order():
    turned = Fleet.of(slow=(3, 1.0), fast=(3, 10.0), medium=(3, 1.2))
    result = regime(analyze(turned, Plan.uniform(turned, concurrency=1000)))
    expected = regime(analyze(THREE, Plan.uniform(THREE, concurrency=1000)))
    for key in ("queue_limit", "queue_paper", "staleness_bound", "staleness_printed", "staleness_exact"):
        np.testing.assert_allclose(getattr(result, key), getattr(expected, key)[[2, 0, 1]], rtol=1e-10)


@pytest.mark.slow
def test_the_exact_queues_approach_the_limit_as_the_network_saturates():
    gaps = []
    for tasks in (300, 3000, 30000):
        result = regime(analyze(TWO, Plan.uniform(TWO, concurrency=tasks)))
        gaps.append(abs(result.queue_limit[0] - result.queue_exact[0]))
    assert gaps[0] > 5 * gaps[1] > 25 * gaps[2]


@pytest.mark.parametrize(("fast", "slow", "c"), [(1, 1, 1.0), (1, 2, 1.0), (5, 1, 10.0), (5, 5, 10.0), (5, 5, 30.0)])
def test_the_papers_gamma_is_the_limit_only_deep_in_saturation(fast, slow, c):
    # With S the fast tasks, scaled, the slow clients can hold the rest in (c - S)^(slow - 1) ways, so the limit has
    # the density s^(fast - 1) e^-s (c - s)^(slow - 1) on (0, c). The paper leaves that factor out, and counts one
    # fast client too many.
    tasks = 20_000
    fleet = Fleet.of(fast=(fast, 1 + c / (tasks + 1)), slow=(slow, 1.0))
    scaled = analyze(fleet, Plan.uniform(fleet, tasks)).queue[0] * c / (tasks + 1)
    limit = gamma_limit(fast, slow, c)
    assert scaled == pytest.approx(limit, rel=1e-3)
    assert abs(gamma_paper(fast, c) / limit - 1) > 0.02


@pytest.mark.parametrize(
    "fleet",
    [
        Fleet.of(a=(2, 1.0)),
        Fleet.of(a=(2, 1.0), b=(3, 1.0)),
        Fleet.of(a=(2, 1.0), b=(3, 2.0), c=(3, 1.0)),
        Fleet.of(a=(2, 1.0), b=(3, 2.0), c=(1, 3.0), d=(1, 4.0)),
    ],
)
def test_other_than_two_or_three_clusters_of_different_loads_are_refused(fleet):
    analysis = analyze(fleet, Plan.uniform(fleet, concurrency=50))
    message = rf"need 2 or 3 groups with different loads p/rate, got {fleet.groups} groups .*exact values hold for any"
    with pytest.raises(InvalidInput, match=message):
        regime(analysis)


def test_equal_loads_are_refused_also_when_the_rates_differ():
    fleet = Fleet.of(a=(1, 1.0), b=(1, 2.0))
    analysis = analyze(fleet, Plan.by_speed(fleet, concurrency=50))
    with pytest.raises(InvalidInput, match="2 or 3 groups with different loads"):
        regime(analysis)


def test_where_the_papers_limit_leaves_nothing_to_the_slow_clients_it_is_nan_and_the_limit_law_is_not():
    # five fast clients would hold 5 / 0.2 = 25 of 20 tasks in the printed form
    result = regime(analyze(TWO, Plan.uniform(TWO, concurrency=20)))
    assert np.isnan(result.staleness_printed[1])
    assert np.isfinite(result.queue_limit).all()


@pytest.mark.parametrize("fleet", [TWO, THREE, Fleet.of(fast=(2, 1.5), slow=(7, 1.0))])
@pytest.mark.parametrize("tasks", [1, 5, 50, pytest.param(1000, marks=pytest.mark.slow)])
def test_the_bound_holds_at_every_size_for_the_inclusive_count(fleet, tasks):
    analysis = analyze(fleet, Plan.uniform(fleet, tasks))
    assert (regime(analysis).staleness_bound >= analysis.staleness("conditional", "inclusive")).all()


def test_the_papers_bound_for_the_fast_of_three_clusters_is_below_the_exact_value():
    analysis = analyze(THREE, Plan.uniform(THREE, concurrency=1000))
    assert regime(analysis).staleness_paper[0] < analysis.staleness("conditional", "between")[0]


@pytest.mark.slow
def test_the_limit_law_has_no_step_where_its_formula_changes():
    for near, slow in ((5, 5), (90, 10), (150, 149), (150, 151)):
        below, above = gamma_limit(near, slow, 299.999), gamma_limit(near, slow, 300.001)
        assert below == pytest.approx(above, rel=1e-5)
        assert below <= above


@pytest.mark.parametrize(
    ("near", "c"), [(5, 100.0), *(pytest.param(*far, marks=pytest.mark.slow) for far in ((5, 400.0), (400, 420.0)))]
)
def test_beside_one_slow_client_the_limit_is_the_mean_of_a_gamma_law_that_is_cut_off(near, c):
    # the density s^(near - 1) e^-s on (0, c) has the mean near P(near + 1, c) / P(near, c)
    assert gamma_limit(near, 1, c) == pytest.approx(gammainc(near + 1, c) / gammainc(near, c), rel=1e-9)


def test_links_are_refused():
    fleet = Fleet(("fast", "slow"), [5, 5], [1.2, 1.0], uplink_rate=[0.1, 0.1])
    with pytest.raises(InvalidInput, match="the limit regimes do not model links"):
        regime(analyze(fleet, Plan.uniform(fleet, concurrency=50)))


def test_a_server_that_takes_time_is_refused():
    fleet = Fleet(("fast", "slow"), [5, 5], [1.2, 1.0])
    with pytest.raises(InvalidInput, match="a server that applies updates in no time, got 50"):
        regime(analyze(fleet, Plan.uniform(fleet, concurrency=50), server_rate=50.0))


def test_a_cap_is_refused():
    fleet = Fleet(("fast", "slow"), [5, 5], [1.2, 1.0])
    with pytest.raises(InvalidInput, match="this plan has a cap"):
        regime(analyze(fleet, Plan.uniform(fleet, concurrency=8, cap=1)))
