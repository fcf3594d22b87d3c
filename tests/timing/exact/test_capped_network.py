"""Capped networks: check values, identities, the routed network and the finisher as ends, simulation, large sizes."""

import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any_fleet import linked_fleet
from sojourn import Dispatcher, Fleet, InvalidInput, Law, Plan, Scenario, analyze, measure
from sojourn.timing.exact import capped, circle
from sojourn.timing.exact.capped import capped_network

ANY = settings(max_examples=40)
NINETY = Fleet.of(fast=(90, 8.0), slow=(10, 1.0))
FIFTY = Fleet.of(fast=(50, 1 / 2), slow=(50, 1 / 16))
FIVE = Fleet.of_rates([5, 2, 1, 1, 0.3])
UNIFORM = [1.0, 1.0]
EXACT = {"rel": 5e-12}  # twelve digits are stated

# fleet, w, C, cap: Lambda, staleness
STATED = {
    "90 and 10, 10 tasks": (NINETY, UNIFORM, 10, 1, 53.3576289541, [5.91289356674, 49.1915024889]),
    "90 and 10, 50 tasks": (NINETY, UNIFORM, 50, 1, 338.866946392, [41.3808430202, 337.017362906]),
    "90 and 10, 50 tasks, by speed": (NINETY, [8.0, 1.0], 50, 1, 365.0, [44.6691919192, 360.818181818]),
    "90 and 10, 90 tasks": (NINETY, UNIFORM, 90, 1, 651.048152623, [80.3826055382, 649.944882803]),
    "90 and 10, full": (NINETY, UNIFORM, 100, 1, 730.0, [90.25, 729.0]),
    "50 and 50, two each": (FIFTY, UNIFORM, 100, 2, 10.9081223365, [26.8085832772, 301.410862144]),
    "50 and 50, three each": (FIFTY, UNIFORM, 100, 3, 6.59731089661, [15.3099532827, 226.207623387]),
    "five clients, mixed caps": (
        *(FIVE, [0.3, 0.1, 0.2, 0.25, 0.15], 4, [1, 3, 2, 1, 2], 3.38036560939),
        [0.341109709962, 1.30113817679, 3.06836861768, 2.52403332621, 17.6607111578],
    ),
}


@pytest.mark.parametrize("case", STATED.values(), ids=STATED.keys())
def test_throughput_and_staleness_are_those_stated(case):
    *network, throughput, staleness = case
    solved = capped_network(*network)
    assert solved.throughput == pytest.approx(throughput, **EXACT)
    assert solved.staleness == pytest.approx(staleness, **EXACT)
    assert solved.error < 1e-13


def test_shares_and_busy_probabilities_are_those_stated():
    ten = capped_network(NINETY, UNIFORM, 10, 1)
    assert ten.share == pytest.approx([0.0103185444495, 0.00713309995432], **EXACT)
    assert ten.busy == pytest.approx([0.0688216332605, 0.380605300655], **EXACT)
    fifty = capped_network(NINETY, UNIFORM, 50, 1)
    assert fifty.share == pytest.approx([0.0108247550824, 0.00257720425836], **EXACT)
    assert capped_network(NINETY, [8.0, 1.0], 50, 1).busy == pytest.approx([0.5, 0.5], rel=1e-13)
    five = capped_network(FIVE, [0.3, 0.1, 0.2, 0.25, 0.15], 4, [1, 3, 2, 1, 2])
    shares = [0.356872304519, 0.141023813988, 0.240915057191, 0.175548471779, 0.085640352522]
    assert five.share == pytest.approx(shares, **EXACT)


def test_three_clients_with_links_hold_what_was_simulated():
    times = np.array([[0.3, 0.2, 1.0], [0.7, 0.1, 0.4]])
    fleet = Fleet(tuple("abc"), [1] * 3, [2.0, 1.0, 0.5], downlink_rate=1 / times[0], uplink_rate=1 / times[1])
    solved = capped_network(fleet, [0.5, 0.2, 0.3], 4, [2, 1, 3])
    assert solved.entries == pytest.approx([0.7649, 0.2917, 0.4478], abs=5e-5)
    assert solved.held == pytest.approx([1.2163, 0.3793, 2.4045], abs=5e-5)
    assert solved.queue + solved.on_links == pytest.approx(solved.held, rel=1e-13)


@st.composite
def cases(draw):
    fleet, column = linked_fleet(draw, st.floats(0.1, 10))
    cap = np.array(column(st.sampled_from([1.0, 2.0, 3.0, 7.0, np.inf])))
    most = int(min(20, (fleet.count * cap).sum()))
    return fleet, column(st.floats(0.1, 10)), draw(st.integers(1, most)), cap, column(st.floats(-2, 2))


@ANY
@given(cases())
def test_the_identities_hold_for_any_fleet(case):
    fleet, w, tasks, cap, _ = case
    solved = capped_network(fleet, w, tasks, cap)
    assert solved.error < 1e-11
    assert fleet.count @ solved.share == pytest.approx(1, rel=1e-13)
    assert (fleet.count * solved.share) @ solved.staleness == pytest.approx(tasks - 1, rel=1e-11, abs=1e-11)
    assert fleet.count @ solved.held == pytest.approx(tasks, rel=1e-11)
    np.testing.assert_allclose(solved.queue + solved.on_links, solved.held, rtol=1e-10, atol=1e-12)
    assert (solved.held <= cap * (1 + 1e-12)).all()
    assert (solved.busy <= 1 + 1e-12).all()
    assert (solved.waiting >= 0).all()
    assert (solved.sojourn * (1 + 1e-12) >= 1 / fleet.rate + fleet.link_time).all()


@ANY
@given(cases())
def test_without_caps_it_is_the_routed_network(case):
    fleet, w, tasks, _, _ = case
    plan = Plan.weighted(fleet, w, tasks)
    analysis = analyze(fleet, plan)
    for cap in (None, tasks, tasks + 3, np.inf):
        solved = capped_network(fleet, w, tasks, cap)
        assert solved.throughput == pytest.approx(analysis.throughput, rel=1e-12)
        np.testing.assert_allclose(solved.share, plan.sampling, rtol=1e-12)
        np.testing.assert_allclose(solved.busy, analysis.utilisation, rtol=1e-12)
        np.testing.assert_allclose(solved.queue, analysis.queue, rtol=1e-12)
        np.testing.assert_allclose(solved.on_links, analysis.on_links, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(solved.sojourn, analysis.sojourn, rtol=1e-12)
        np.testing.assert_allclose(solved.staleness, analysis.staleness(), rtol=1e-12, atol=1e-12)


@ANY
@given(cases())
def test_nobody_waits_with_a_cap_of_one_and_only_the_mean_cycle_counts(case):
    fleet, w, tasks, _, _ = case
    tasks = min(tasks, fleet.clients)
    solved = capped_network(fleet, w, tasks, 1)
    cycle = 1 / fleet.rate + fleet.link_time
    other = capped_network(Fleet(fleet.name, fleet.count, 1 / cycle), w, tasks, 1)
    assert solved.exact_for_any_law
    assert (solved.waiting == 0).all()
    np.testing.assert_allclose(solved.sojourn, cycle, rtol=1e-12)
    np.testing.assert_allclose(solved.entries, other.entries, rtol=1e-12)
    np.testing.assert_allclose(solved.staleness, other.staleness, rtol=1e-11, atol=1e-11)


@ANY
@given(cases())
def test_a_full_network_with_a_cap_of_one_gives_the_next_task_to_the_finisher(case):
    fleet, w, _, _, _ = case
    solved = capped_network(fleet, w, fleet.clients, 1)
    speed = 1 / (1 / fleet.rate + fleet.link_time)
    total = fleet.count @ speed
    assert solved.throughput == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(solved.share, speed / total, rtol=1e-12)
    np.testing.assert_allclose(solved.staleness, (total - speed) / speed, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(solved.busy, speed / fleet.rate, rtol=1e-12)


@ANY
@given(cases())
def test_the_unit_of_the_weights_does_not_matter(case):
    fleet, w, tasks, cap, _ = case
    one, other = (capped_network(fleet, unit * w, tasks, cap) for unit in (1.0, 1e-200))
    np.testing.assert_allclose(one.entries, other.entries, rtol=1e-12)
    np.testing.assert_allclose(one.staleness, other.staleness, rtol=1e-11, atol=1e-11)


@ANY
@given(cases())
def test_grouped_clients_are_the_same_as_single_ones(case):
    fleet, w, tasks, cap, _ = case
    grouped, single = (
        capped_network(fleet, w, tasks, cap),
        capped_network(fleet.expanded(), np.repeat(w, fleet.count), tasks, np.repeat(cap, fleet.count)),
    )
    np.testing.assert_allclose(np.repeat(grouped.entries, fleet.count), single.entries, rtol=1e-12)
    np.testing.assert_allclose(np.repeat(grouped.staleness, fleet.count), single.staleness, rtol=1e-11, atol=1e-11)


def slopes(value, case, by):
    """Derivative of value(network) by the log of w or mu of one client of each group, by a fourth-order difference."""
    fleet, w, tasks, cap, _ = case
    single = fleet.expanded()
    each, caps = np.repeat(w, fleet.count), np.repeat(cap, fleet.count)

    def at(client, move):
        factor = np.where(np.arange(single.groups) == client, np.exp(move), 1.0)
        moved = (single, each * factor) if by == "sampling" else (single.with_rates(single.rate * factor), each)
        return value(capped_network(*moved, tasks, caps))

    def slope(client, h=1e-3):
        return (8 * (at(client, h) - at(client, -h)) - (at(client, 2 * h) - at(client, -2 * h))) / (12 * h)

    return np.array([slope(client) for client in fleet.first_client])


GRADIENTS = {
    "throughput": (lambda net, _: net.throughput, lambda net, _, by: net.throughput_gradient(by)),
    "shares": (lambda net, v: v @ net.share, lambda net, v, by: net.share_gradient(v, by)),
    "staleness": (lambda net, v: v @ net.staleness, lambda net, v, by: net.staleness_gradient(v, by)),
    "tasks held": (lambda net, v: v @ net.held, lambda net, v, by: net.gradient(by, held=v)),
}


@pytest.mark.slow
@pytest.mark.parametrize("by", ["sampling", "rate"])
@pytest.mark.parametrize("name", GRADIENTS)
@settings(ANY, max_examples=8)
@given(case=cases())
def test_gradients_are_slopes(name, by, case):
    fleet, w, tasks, cap, v = case
    value, gradient = GRADIENTS[name]
    found = gradient(capped_network(fleet, w, tasks, cap), v, by)
    expected = slopes(lambda net: value(net, np.repeat(v, fleet.count)), case, by)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8 * (1 + np.abs(expected).max()))


@ANY
@given(cases())
def test_the_gradient_of_the_throughput_by_weights_needs_no_more_than_the_means(case):
    fleet, w, tasks, cap, _ = case
    solved = capped_network(fleet, w, tasks, cap)
    by_hand = solved.entries * (solved.staleness + 1) - solved.throughput * solved.held
    np.testing.assert_allclose(solved.throughput_gradient(), by_hand, rtol=1e-9, atol=1e-11 * solved.throughput * tasks)
    assert fleet.count @ solved.throughput_gradient() == pytest.approx(0, abs=1e-10 * solved.throughput)


@ANY
@given(cases())
def test_the_tasks_of_all_clients_together_do_not_vary(case):
    fleet, w, tasks, cap, _ = case
    variance, pair = capped_network(fleet, w, tasks, cap).covariances()
    total = variance + pair @ fleet.count - np.diag(pair)
    np.testing.assert_allclose(total, 0, atol=1e-10 * tasks**2)


@pytest.mark.parametrize("tasks", [2, 15, 29, 30])
def test_exact_fractions_give_the_same_thirty_different_clients(tasks):
    # elementary symmetric functions: lambda_i = mu_i theta_i e_{C-1}(others) / e_C(all)
    theta = [Fraction(3 * k + 1, 7 + k * k) for k in range(30)]

    def symmetric(values):
        e = [Fraction(1)] + [Fraction(0)] * tasks
        for value in values:
            for c in range(tasks, 0, -1):
                e[c] += value * e[c - 1]
        return e

    whole = symmetric(theta)[tasks]
    busy = [float(t * symmetric([x for x in theta if x is not t])[tasks - 1] / whole) for t in theta]
    solved = capped_network(Fleet.of_rates(np.ones(30)), [float(t) for t in theta], tasks, 1)
    np.testing.assert_allclose(solved.busy, busy, rtol=2e-14)


# cap 1 and uniform weights is what the simulator calls idle; the finisher is what it calls pure
#   200 replications of 20 000 steps; the test asks that every relative standard error is below 0.003
@pytest.mark.parametrize(("dispatcher", "tasks"), [("idle", 5), ("idle", 9), ("pure", 10)])
def test_simulated_means_are_the_exact_ones_within_four_standard_errors(dispatcher, tasks):
    fleet = Fleet(tuple("ab"), [6, 4], [4.0, 1.0], uplink_rate=[5.0, 2.0], downlink_rate=[np.inf, 3.0])
    scenario = Scenario(Dispatcher(dispatcher))
    options = {"replications": 200, "warmup": 500, "start": "one-each", "seed": 3}
    summary = measure(fleet, Plan.uniform(fleet, tasks), 20_000, scenario=scenario, **options)
    solved = capped_network(fleet, UNIFORM, tasks, 1)
    pairs = {"throughput": solved.throughput, "staleness": solved.staleness, "utilisation": solved.busy}
    for name, exact in pairs.items():
        estimate = getattr(summary, name)
        assert (estimate.error < 0.003 * np.asarray(exact)).all(), name
        assert (abs(estimate.value - exact) < 4 * estimate.error).all(), name


def test_what_is_exact_depends_on_the_law_only_where_a_client_may_hold_two_tasks():
    laws = (Law("deterministic"), Law())
    fleet = Fleet(("a", "b"), [3, 3], [1.0, 2.0], laws)
    nobody, other, both, one = (
        capped_network(fleet, UNIFORM, tasks, cap) for tasks, cap in ((3, 1), (5, [1, 2]), (5, 2), (1, None))
    )
    assert (nobody.exact_for_any_law, nobody.exact) == (True, True)
    assert (other.exact_for_any_law, other.exact) == (False, True)
    assert (both.exact_for_any_law, both.exact) == (False, False)
    assert (one.exact_for_any_law, one.exact) == (True, True)


@pytest.mark.parametrize(
    ("cap", "tasks", "message"),
    [
        (1, 101, "concurrency must be at most the sum of the caps of all clients, got 101 > 100; raise the cap"),
        ([1, 2], 111, "got 111 > 110"),
        (0, 1, "cap of group 'fast' must be a whole number of at least 1, got 0; leave it out for no cap"),
        ([1, 1.5], 1, "cap of group 'slow' must be a whole number of at least 1, got 1.5"),
        ([1, np.nan], 1, "cap of group 'slow' must be a whole number of at least 1, got nan"),
        ([1, 2, 3], 1, "cap must be one number or one for each of 2 groups, got 3"),
        (1, 0, "concurrency must be"),
    ],
)
def test_caps_that_cannot_be_are_refused_in_a_sentence(cap, tasks, message):
    with pytest.raises(InvalidInput, match=message):
        capped_network(NINETY, UNIFORM, tasks, cap)


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, np.nan], [-1.0, 1.0]])
def test_weights_that_cannot_be_are_refused(weights):
    with pytest.raises(InvalidInput, match="weight"):
        capped_network(NINETY, weights, 5, 1)


def test_a_gradient_by_something_else_is_refused():
    with pytest.raises(InvalidInput, match="by must be sampling or rate, got 'count'"):
        capped_network(NINETY, UNIFORM, 5, 1).throughput_gradient("count")


def test_a_mixed_cap_may_leave_some_clients_without():
    mixed = capped_network(NINETY, UNIFORM, 60, [1, None])
    assert mixed.cap.tolist() == [1, 60]
    assert mixed.throughput < capped_network(NINETY, UNIFORM, 60, 1).throughput


@pytest.mark.parametrize("density", [0.25, 0.35, 0.5])
def test_points_too_far_apart_are_found_out(density, monkeypatch):
    fleet, w = Fleet.of_rates(np.geomspace(0.1, 10, 300)), np.ones(300)
    exact = capped_network(fleet, w, 120, 1)
    monkeypatch.setattr(capped, "FIRST", replace(circle.FIRST, density=density))
    rough = capped_network(fleet, w, 120, 1)
    wrong = max(np.abs(rough.held / exact.held - 1).max(), np.abs(rough.entries / exact.entries - 1).max())
    assert wrong > 1e-14
    assert 0.99 * wrong - 1e-14 < rough.error


@pytest.mark.parametrize("tasks", [1, 2, 500, 5_000, 9_998, 9_999, 10_000])
def test_a_few_dozen_points_do_for_ten_thousand_different_clients(tasks):
    fleet = Fleet.of_rates(np.random.default_rng(1).lognormal(size=10_000))
    solved = capped_network(fleet, np.sqrt(fleet.rate), tasks, 1)
    assert solved.circle.points.size <= 32
    assert solved.error < 1e-12


@pytest.mark.parametrize(("tasks", "cap"), [(10_000, 1), (100_000, [1, 100]), (10**6, [3, 20]), (10**6, [1, None])])
def test_many_tasks_do_not_overflow(tasks, cap):
    fleet = Fleet.of(fast=(50_000, 3.0), slow=(50_000, 1.0))
    solved = capped_network(fleet, [1e150, 1e-150] if cap == 1 else UNIFORM, tasks, cap)
    assert solved.error < 1e-9
    assert fleet.count @ solved.held == pytest.approx(tasks, rel=1e-9)


def test_a_load_that_is_twelve_decades_smaller_keeps_eight_digits_and_the_certificate_says_so():
    solved = capped_network(Fleet.of_rates([1.0, 1e12]), UNIFORM, 1, 1)
    wrong = abs(solved.held[1] * (1 + 1e12) - 1)
    assert wrong < 1e-8
    assert solved.error < 1e-8
    assert solved.entries == pytest.approx([1.0, 1.0], rel=1e-8)


def test_one_client_without_a_cap_that_holds_a_million_tasks_is_refused_in_a_sentence():
    with pytest.raises(InvalidInput, match="points on the circle, more than the limit of 16,777,216; give a cap"):
        capped_network(Fleet.of_rates([1.0, 10.0]), UNIFORM, 10**6, [None, 1])


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [10, 500_000, 999_990, 10**6])
def test_a_million_different_clients_take_seconds(tasks, capsys):
    fleet = Fleet.of_rates(np.random.default_rng(1).lognormal(size=10**6))
    capped_network(FIVE, np.ones(5), 2, 1)  # compiled before the clock starts
    start = time.thread_time()
    solved = capped_network(fleet, np.ones(10**6), tasks, 1)
    with capsys.disabled():
        print(f"\n{tasks} tasks: {time.thread_time() - start:.2f} s, error {solved.error:.1e}")
    assert solved.error < 1e-11
    assert solved.share @ solved.staleness == pytest.approx(tasks - 1, rel=1e-11)
