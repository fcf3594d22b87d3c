"""Problems: their known constants against enumeration, finite differences and arithmetic by hand."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn import InvalidInput, SojournError
from sojourn.learning.data.dataset import Dataset
from sojourn.learning.data.problem import Problem
from sojourn.learning.data.synthetic import Logistic, Quadratic, logistic, quadratic

ANY = settings(max_examples=40)
MAKERS = [quadratic, logistic]

sizes = st.fixed_dictionaries(
    {
        "dimension": st.integers(1, 6),
        "clients": st.integers(1, 6),
        "examples": st.integers(1, 12),
        "seed": st.integers(0, 9),
    }
)


def by_hand():
    """Two clients in the plane, H = diag(2, 1): points (0,0), (2,0) of client 0 and (1,4), (1,8) of client 1."""
    points, owner = [[0, 0], [2, 0], [1, 4], [1, 8]], [0, 0, 1, 1]
    return Quadratic(Dataset("by hand", points, np.zeros(4), [[0, 0]], [0], owner=owner), np.array([2.0, 1.0]))


def some_model(problem, seed=0):
    return np.random.default_rng(seed).standard_normal(problem.dimension)


def test_a_quadratic_by_hand():
    problem, zero = by_hand(), np.zeros(2)
    assert problem.means.tolist() == [[1, 0], [1, 6]]
    assert problem.covariances.tolist() == [[[1, 0], [0, 0]], [[0, 0], [0, 4]]]
    assert problem.smoothness == 2
    assert problem.optimum().tolist() == [1, 3]
    assert problem.optimum([0.75, 0.25]).tolist() == [1, 1.5]
    assert problem.client_gradient(1, zero).tolist() == [-2, -6]  # H (0 - b_1)
    assert problem.gradient(zero).tolist() == [-2, -3]
    assert problem.stochastic_gradient(zero, np.array([1, 2])).tolist() == [-3, -2]  # of (-4, 0) and (-2, -4)
    assert problem.noise(zero).tolist() == [4, 4]  # 2^2 * 1 and 1^2 * 4
    assert problem.noise(zero, batch_size=2).tolist() == [2, 2]
    assert problem.noise(zero, batch_size=2, replace=False).tolist() == [0, 0]  # all there is
    assert problem.dissimilarity(zero) == 9  # (0, 3) and (0, -3)
    # losses at zero: 0, 4, 1 + 8, 1 + 32, mean 11.5; at (1, 3): 1 + 4.5 twice, 0.5, 12.5, mean 6
    assert problem.loss(zero) == 11.5
    assert problem.gap() == 5.5  # 1/2 (2 * 1^2 + 3^2)


def test_a_logistic_loss_by_hand():
    # one client, points 2 (label 1) and 1 (label 0): log(1 + e^-2w) + log(1 + e^w), over 2, plus w^2 / 8
    problem = Logistic(Dataset("by hand", [[2.0], [1.0]], [1, 0], [[0.0]], [0], classes=2, owner=[0, 0]), l2=0.25)
    zero, one = np.zeros(1), np.ones(1)
    assert problem.loss(zero) == pytest.approx(np.log(2))
    assert problem.loss(one) == pytest.approx((np.log1p(np.exp(-2)) + np.log1p(np.exp(1))) / 2 + 0.125)
    assert problem.gradient(zero) == pytest.approx([(-1 + 0.5) / 2])
    assert problem.smoothness == pytest.approx((4 + 1) / (4 * 2) + 0.25)
    assert problem.noise(zero) == pytest.approx([0.75**2])  # gradients -1 and 0.5
    assert problem.dissimilarity(zero) == 0


@ANY
@given(st.sampled_from(MAKERS), sizes)
def test_gradients_are_differences_of_the_loss(maker, given):
    problem = maker(**given)
    w = some_model(problem)
    ways = 1e-5 * np.eye(problem.dimension)
    differences = [(problem.loss(w + way) - problem.loss(w - way)) / 2e-5 for way in ways]
    assert problem.gradient(w) == pytest.approx(differences, abs=1e-6)
    clients = [problem.client_gradient(client, w) for client in range(problem.partition.clients)]
    assert problem.gradient(w) == pytest.approx(np.mean(clients, axis=0), abs=1e-12)


@ANY
@given(sizes, st.booleans(), st.integers(1, 3))
def test_the_constants_of_a_quadratic_are_those_of_enumeration_at_any_model(given, replace, batch_size):
    problem = quadratic(**{**given, "examples": given["examples"] + 3}, condition=5)
    w = some_model(problem, 1)
    enumerated = Problem.noise(problem, w, batch_size, replace)
    assert problem.noise(w, batch_size, replace) == pytest.approx(enumerated, rel=1e-9, abs=1e-12)
    weights = np.arange(1.0, given["clients"] + 1) / np.arange(1.0, given["clients"] + 1).sum()
    assert problem.dissimilarity(w, weights) == pytest.approx(Problem.dissimilarity(problem, w, weights), abs=1e-9)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("replace", [True, False])
def test_noise_is_the_variance_over_all_batches(maker, replace):
    problem = maker(dimension=3, clients=2, examples=5, seed=4)
    w = some_model(problem)
    draw = (
        (lambda rows: itertools.product(rows, repeat=2)) if replace else (lambda rows: itertools.permutations(rows, 2))
    )
    for client, noise in enumerate(problem.noise(w, 2, replace)):
        full = problem.client_gradient(client, w)
        batches = [np.array(rows) for rows in draw(problem.partition.of(client))]
        far = [np.square(problem.stochastic_gradient(w, rows) - full).sum() for rows in batches]
        assert noise == pytest.approx(np.mean(far))


@ANY
@given(st.sampled_from(MAKERS), sizes, st.integers(0, 5))
def test_no_gradient_changes_faster_than_the_smoothness_says(maker, given, seed):
    problem = maker(**given)
    v, w = some_model(problem, seed), some_model(problem, seed + 100)
    for client in range(problem.partition.clients):
        change = np.linalg.norm(problem.client_gradient(client, v) - problem.client_gradient(client, w))
        assert change <= problem.smoothness * np.linalg.norm(v - w) * (1 + 1e-12)


def test_the_smoothness_of_a_quadratic_is_reached():
    problem = quadratic(largest=3, condition=30)
    way = np.eye(10)[np.argmax(problem.curvature)]
    assert problem.client_gradient(0, way) - problem.client_gradient(0, 0 * way) == pytest.approx(3 * way)
    assert problem.curvature.min() == pytest.approx(0.1)


def test_the_smoothness_of_a_logistic_is_reached_at_zero():
    # at w = 0 the Hessian of a client is X'X / (4 examples) + l2
    problem = logistic(clients=1)
    values, ways = np.linalg.eigh(problem.points.T @ problem.points / 400 + 0.01 * np.eye(10))
    assert problem.smoothness == pytest.approx(values[-1])
    change = (problem.gradient(1e-4 * ways[:, -1]) - problem.gradient(-1e-4 * ways[:, -1])) / 2e-4
    assert np.linalg.norm(change) == pytest.approx(values[-1], rel=1e-6)


@ANY
@given(st.sampled_from(MAKERS), sizes, st.integers(0, 5))
def test_nothing_is_better_than_the_optimum(maker, given, seed):
    problem = maker(**given)
    raw = np.random.default_rng(seed).random(given["clients"])
    weights = raw / raw.sum()
    best = problem.optimum(weights)
    assert np.linalg.norm(problem.gradient(best, weights)) < 1e-12
    assert problem.gap(some_model(problem, seed), weights) >= 0
    assert problem.gap(best, weights) == 0


def test_newton_finds_the_optimum_of_hard_data_too():
    problem = logistic(l2=1e-8, shift=5, angle=3, seed=2)
    assert np.linalg.norm(problem.gradient(problem.optimum())) < 1e-12


def test_data_too_hard_for_newton_are_refused(monkeypatch):
    monkeypatch.setattr("sojourn.learning.data.synthetic.NEWTON_STEPS", 2)
    with pytest.raises(
        SojournError, match=r"no optimum to 1e-12 in 2 Newton steps, l2 is 0\.01; raise l2 or lower shift"
    ):
        logistic().optimum()


def test_clients_drift_apart_with_heterogeneity_and_points_with_noise():
    alike, apart = quadratic(heterogeneity=0, noise=0), quadratic(heterogeneity=3, noise=0)
    assert alike.dissimilarity() == 0
    assert apart.dissimilarity() > 1
    assert apart.noise().max() == pytest.approx(0, abs=1e-20)
    # coordinates have variance noise^2 (times 99/100 around their own mean): H = I gives 10 * 4 * 0.99
    assert quadratic(noise=2, condition=1).noise().mean() == pytest.approx(39.6, rel=0.1)


def test_turning_and_shifting_make_clients_differ():
    zero = np.zeros(10)
    plain, turned, moved = (logistic(shift=s, angle=a, examples=2000) for s, a in ((0, 0), (0, 3), (3, 0)))
    assert plain.dissimilarity(zero) < turned.dissimilarity(zero) / 5
    assert plain.dissimilarity(zero) < moved.dissimilarity(zero) / 5
    # a turn keeps every length (to single precision)
    lengths = [np.linalg.norm(problem.points, axis=1) for problem in (plain, turned)]
    assert lengths[0].sum() == pytest.approx(lengths[1].sum(), rel=0.02)


@pytest.mark.parametrize("maker", MAKERS)
def test_a_problem_is_a_dataset_with_owners_the_same_for_the_same_seed(maker):
    problem = maker(dimension=4, clients=3, examples=8)
    assert problem.dataset.train_x.shape == (24, 4)
    assert problem.dataset.test_x.shape == (6, 4)
    assert problem.partition.sizes.tolist() == [8, 8, 8]
    assert problem.points.astype(np.float32).tolist() == problem.dataset.train_x.tolist()
    assert maker(seed=1).dataset.hash == maker(seed=1).dataset.hash != maker(seed=2).dataset.hash
    assert problem.dataset.validation(0.25, seed=0).owner.tolist() == [0] * 6 + [1] * 6 + [2] * 6


@pytest.mark.parametrize(
    ("maker", "options", "message"),
    [
        (quadratic, {"dimension": 0}, "quadratic: dimension must be finite and at least 1, got 0"),
        (quadratic, {"clients": 0}, "quadratic: clients must be finite and at least 1, got 0"),
        (quadratic, {"examples": 0}, "quadratic: examples must be finite and at least 1, got 0"),
        (quadratic, {"condition": 0.5}, r"quadratic: condition must be finite and at least 1, got 0\.5"),
        (quadratic, {"noise": -1.0}, r"quadratic: noise must be finite and at least 0, got -1\.0"),
        (quadratic, {"heterogeneity": np.nan}, "quadratic: heterogeneity must be finite and at least 0, got nan"),
        (quadratic, {"largest": 0.0}, r"quadratic: largest must be positive and finite, got 0\.0"),
        (quadratic, {"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        (logistic, {"examples": 0}, "logistic: examples must be finite and at least 1, got 0"),
        (logistic, {"shift": np.inf}, "logistic: shift must be finite and at least 0, got inf"),
        (logistic, {"l2": 0.0}, r"logistic: l2 must be positive and finite, else there may be no optimum, got 0\.0"),
    ],
)
def test_options_that_make_no_problem_are_refused(maker, options, message):
    with pytest.raises(InvalidInput, match=message):
        maker(**options)


def test_weights_and_batches_that_do_not_fit_are_refused():
    problem = by_hand()
    for weights in ([1.0], [0.5, 0.6], [-0.5, 1.5], [np.nan, 1.0]):
        with pytest.raises(
            InvalidInput, match="weights must be 2 non-negative numbers, one per client, with sum 1, got"
        ):
            problem.loss(np.zeros(2), weights)
    with pytest.raises(InvalidInput, match=r"batch_size must be at least 1 .*, got 0"):
        problem.noise(batch_size=0)
    with pytest.raises(InvalidInput, match="at most the 2 examples of the smallest client, got 3"):
        problem.noise(batch_size=3, replace=False)


def test_a_problem_without_owners_is_refused():
    nobody = Dataset("nobody's", [[1.0]], [0.0], [[1.0]], [0.0])
    with pytest.raises(InvalidInput, match="a problem needs owners of its examples, dataset nobody's has none"):
        _ = Quadratic(nobody, np.ones(1)).partition
