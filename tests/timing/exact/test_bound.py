"""Theorem 1, its step sizes, and the rows of the paper's Table 1."""

from math import inf, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn import Constants, Fleet, InvalidInput, Plan, UnreadableFile, analyze, transient
from sojourn.planning.bound import theorem as b
from sojourn.planning.bound.objective import Seen
from sojourn.planning.bound.scores import TimeBudget

ANY = settings(max_examples=100)
EXAMPLE = Constants(A=100, L=1, B=20)
positive = st.floats(1e-3, 1e3)


def test_the_bound_by_hand():
    # A=3, L=2, B=5, T=9, C=4, S1=1.5, S2=0.5, eta=0.1: 3/(0.1*10) + 0.1*2*5*1.5 + 0.01*4*5*4*0.5 = 3 + 1.5 + 0.4
    assert b.bound(0.1, 9, 4, 1.5, 0.5, Constants(A=3, L=2, B=5)) == pytest.approx(4.9, rel=1e-14)


def test_the_sums_by_hand():
    # p=(.2,.8), m=(1,2), q=(.5,.5): S1 = .25/.2 + .25/.8, S2 = .25/.04 + .5/.64
    S1, S2 = b.sums([0.2, 0.8], [1, 2], [0.5, 0.5])
    assert pytest.approx((1.5625, 7.03125), rel=1e-14) == (S1, S2)
    # two clients in the first group: both count
    S1, S2 = b.sums([0.1, 0.8], [1, 2], [0.25, 0.5], count=[2, 1])
    assert pytest.approx(2 * 0.0625 / 0.1 + 0.25 / 0.8, rel=1e-14) == S1


def test_the_largest_step_by_hand():
    # (C S2)^(-1/2) = 1/4 and 1/(2 S1) = 1/3: the first is smaller; times 1/(4L) = 1/8
    assert b.largest_step(32, 1.5, 0.5, Constants(A=1, L=2, B=1)) == pytest.approx(1 / 32, rel=1e-14)
    # without staleness the second: 1/3 / 8
    assert b.largest_step(1, 1.5, 0.0, Constants(A=1, L=2, B=1)) == pytest.approx(1 / 24, rel=1e-14)


def test_the_second_limit_as_printed_is_four_times_that_of_the_proof():
    constants = Constants(A=1, L=2, B=1)
    assert b.largest_step(1, 1.5, 0.0, constants, "printed") == pytest.approx(2 / 1.5 / 8, rel=1e-14)
    proven, printed = (b.step_limits(1, 1.5, 0.5, constants, limit) for limit in ("proof", "printed"))
    assert printed[0] == proven[0]
    assert printed[1] == pytest.approx(4 * proven[1], rel=1e-14)
    with pytest.raises(InvalidInput, match="limit must be one of proof, printed, got 'paper'"):
        b.largest_step(1, 1.5, 0.5, constants, "paper")


@ANY
@given(positive, positive, st.floats(0, 1e3))
def test_up_to_the_largest_step_the_descent_of_the_proof_holds(L, S1, S2):
    # its lemma needs -eta/2 + 2 eta^2 L S1 <= -eta/4
    eta = b.largest_step(3, S1, S2, Constants(A=1, L=L, B=1))
    assert -eta / 2 + 2 * eta**2 * L * S1 <= -eta / 4 * (1 - 1e-12)


@pytest.mark.parametrize(("tasks", "same"), [(1, False), (2, False), (3, True), (10, True), (100, True)])
def test_at_uniform_sampling_the_second_limit_matters_for_one_or_two_tasks_only(tasks, same):
    # there S1 = 1 and S2 = C - 1
    proven, printed = (b.largest_step(tasks, 1.0, tasks - 1.0, EXAMPLE, limit) for limit in ("proof", "printed"))
    assert (proven == printed) == same


def test_strong_growth_makes_more_noise_and_smaller_steps():
    plain, grown = Constants(A=1, L=1, sigma2=3, G2=2), Constants(A=1, L=1, sigma2=3, G2=2, rho2=3)
    assert plain.noise == 7
    assert grown.noise == 2 * 4 * 2 + 3
    # by staleness divided by (1 + rho^2)^(1/2) = 2, by spread divided by 4
    assert b.largest_step(100, 1.0, 4.0, grown) == pytest.approx(b.largest_step(100, 1.0, 4.0, plain) / 2, rel=1e-14)
    assert b.largest_step(1, 1.0, 0.0, grown) == pytest.approx(b.largest_step(1, 1.0, 0.0, plain) / 4, rel=1e-14)


@ANY
@given(positive, positive, st.floats(0, 1e3), positive, st.integers(1, 1000), st.floats(0, 1e6))
def test_the_best_step_is_the_root_of_the_slope(A, L, S2, S1, C, T):
    constants = Constants(A=A, L=L, B=2.0)
    eta = b.best_step(T, C, S1, S2, constants)
    slope = 2 * L**2 * 2.0 * C * S2 * eta**3 + L * 2.0 * S1 * eta**2
    assert slope == pytest.approx(A / (T + 1), rel=1e-12)
    here = b.bound(eta, T, C, S1, S2, constants)
    for near in (0.9 * eta, 1.1 * eta):
        assert here <= b.bound(near, T, C, S1, S2, constants)


@ANY
@given(positive, positive, st.floats(0, 1e3), st.integers(1, 100), st.floats(1e-3, 10), st.booleans())
def test_after_the_steps_to_epsilon_the_bound_is_epsilon(A, S1, S2, C, epsilon, free):
    constants = Constants(A=A, L=1.5, B=2.0)
    goal = b.steps_to(epsilon, C, S1, S2, constants, free)
    assert b.bound(goal.step_size, goal.steps - 1, C, S1, S2, constants) == pytest.approx(epsilon, rel=1e-9)
    if not free:
        assert goal.step_size <= b.largest_step(C, S1, S2, constants)
    # no other allowed step gets there sooner: with the same number of steps its bound is higher
    for factor in (0.8, 1.25):
        other = goal.step_size * factor
        if free or other <= b.largest_step(C, S1, S2, constants):
            assert b.bound(other, goal.steps - 1, C, S1, S2, constants) >= epsilon * (1 - 1e-12)


def test_time_makes_steps_by_the_throughput():
    seen = Seen(S1=1.0, S2=1.0, throughput=2.5, energy=0.0)
    here = TimeBudget(20.0, EXAMPLE).score(seen, concurrency=3, step_size=0.1)
    assert here.bound == b.bound(0.1, 50.0, 3, 1.0, 1.0, EXAMPLE)


@pytest.mark.parametrize(("fast", "tasks"), [(8.0, 100), (2.0, 10), (1.0, 7)])
def test_the_row_of_asyncsgd_is_the_bound_at_uniform_sampling(fast, tasks):
    # sum_i p_i staleness_i = C - 1 whatever the speeds, and S1 = 1 at uniform p
    fleet = Fleet.of(fast=(90, fast), slow=(10, 1.0))
    analysis = analyze(fleet, Plan.uniform(fleet, tasks))
    S1, S2 = b.sums(0.01 * np.ones(2), analysis.staleness("indicator"), 0.01 * np.ones(2), fleet.count)
    eta = b.best_step(1e4, tasks, S1, S2, EXAMPLE)
    assert eta == pytest.approx(b.asyncsgd_step(1e4, tasks, tasks - 1, EXAMPLE), rel=1e-10)
    row = b.asyncsgd(eta, 1e4, tasks, tasks - 1, longest=50.0, constants=EXAMPLE)
    assert row.value == pytest.approx(b.bound(eta, 1e4, tasks, S1, S2, EXAMPLE), rel=1e-10)
    assert row.largest_step == pytest.approx(1 / sqrt(tasks * 50.0), rel=1e-14)


def test_the_rows_of_table_1_with_the_numbers_of_the_worked_example():
    # n = C = tau_max = 100, T = 1e4
    eta = b.fedbuff_step(1e4, 100, 100, EXAMPLE)
    row = b.fedbuff(eta, 1e4, 100, 100, EXAMPLE)
    assert row.value == pytest.approx(23.82, abs=0.005)
    assert row.largest_step == pytest.approx(1e-3, rel=1e-12)
    eta = b.asyncsgd_step(1e4, 100, 99, EXAMPLE)
    assert b.asyncsgd(eta, 1e4, 100, 99, 100, EXAMPLE).value == pytest.approx(5.17093687, rel=1e-8)


def test_the_rows_are_empty_when_staleness_has_no_largest_value():
    for row in (b.fedbuff(0.1, 10, 5, inf, EXAMPLE), b.asyncsgd(0.1, 10, 5, 4, inf, EXAMPLE)):
        assert row.value == inf
        assert row.largest_step == 0
        assert row.empty is not None
        assert row.empty.startswith("empty: the longest staleness is infinite")
    assert b.fedbuff(0.1, 10, 5, 3.0, EXAMPLE).empty is None


def test_the_longest_wait_is_a_time_and_the_longest_staleness_counts_steps():
    assert b.longest_wait(10, 0.5, deterministic=True) == 20
    assert b.longest_staleness(10, 0.5, throughput=3.0, deterministic=True) == 60
    assert b.longest_wait(10, 0.5, deterministic=False) == inf
    assert b.longest_staleness(10, 0.5, 3.0, deterministic=False) == inf


def test_transient_staleness_may_be_passed_in():
    """With a task at each client the first tasks find every fast client busy, unlike in the stationary network."""
    fleet = Fleet.of(fast=(5, 10.0), slow=(5, 1.0))
    plan = Plan.uniform(fleet, 10)
    seen = transient(fleet, plan, steps=200, replications=2000, start="one-each", seed=1)
    exact = analyze(fleet, plan).staleness("indicator")
    early = seen.indicator[:, :20].mean(axis=1)
    uniform = np.full(2, 0.1)
    early_sums, exact_sums = (b.sums(uniform, m, uniform, fleet.count) for m in (early, exact))
    assert early_sums[0] == exact_sums[0]
    assert early_sums[1] > 1.1 * exact_sums[1]


def test_constants_are_read_and_named(tmp_path):
    path = tmp_path / "constants.toml"
    path.write_text("A = 100\nL = 1\nB = 20.0\n")
    assert Constants.load(path) == EXAMPLE
    path.write_text("A = 1\nL = 2\nsigma2 = 3\nG2 = 4\nR2 = 5\n[origin]\nmodel = 'mlp'\n")
    assert Constants.load(path).facts() == {"A": 1, "L": 2, "sigma2": 3, "G2": 4, "R2": 5}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A = 1\nB = 2", "key L is required and missing"),
        ("A = 1\nL = 2", "constant B is missing; give A, L and B, or A, L, sigma2 and G2"),
        ("A = 1\nL = 2\nsigma2 = 1", "constant G2 is missing"),
        ("A = 1\nL = 2\nG2 = 1", "constant sigma2 is missing"),
        ("A = 1\nL = 2\nB = 1\nG2 = 1", "B and sigma2 or G2 exclude each other"),
        ("A = 1\nL = 2\nB = 1\nrho2 = 1", "rho2 .* needs sigma2 and G2 separately"),
        ("A = 1\nL = 2\nB = 1\nR2 = 1", "R2 needs sigma2 and G2 separately"),
        ("A = 0\nL = 2\nB = 1", "constant A must be positive and finite, got 0"),
        ("A = -1\nL = 2\nB = 1", "constant A must be positive and finite, got -1"),
        ("A = nan\nL = 2\nB = 1", "constant A must be positive and finite, got nan"),
        ("A = 'x'\nL = 2\nB = 1", "constant A must be positive and finite, got 'x'"),
        ("A = 1\nL = 2\nsigma2 = -1\nG2 = 1", "constant sigma2 must be non-negative"),
        ("A = 1\nL = 2\nsigma2 = 0\nG2 = 0", "must not both be 0"),
        ("A = 1\nL = 2\nB = 1\nl = 3", "unknown key 'l'; the keys are A, L, B"),
    ],
)
def test_constants_that_make_no_sense_are_refused_with_the_way_out(tmp_path, text, message):
    path = tmp_path / "constants.toml"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=message):
        Constants.load(path)


def test_a_constants_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(UnreadableFile, match=r"constants file .*none.toml does not exist"):
        Constants.load(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("A = ")
    with pytest.raises(UnreadableFile, match="is not valid TOML"):
        Constants.load(tmp_path / "bad.toml")
    with pytest.raises(UnreadableFile, match="is a folder; name the file in it"):
        Constants.load(tmp_path)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan")])
def test_epsilon_must_be_positive(epsilon):
    with pytest.raises(InvalidInput, match="epsilon must be positive"):
        b.steps_to(epsilon, 1, 1.0, 0.0, EXAMPLE)


def test_negative_staleness_is_refused():
    with pytest.raises(InvalidInput, match=r"staleness must not be negative, got -1\.0"):
        b.sums([0.5, 0.5], [1.0, -1.0], [0.5, 0.5])
