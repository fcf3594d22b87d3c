"""Calibration: what is measured is what is known, within the intervals and as often as they say."""

import itertools
import tomllib
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from torch import nn

from sojourn import Fleet, InvalidInput, SojournError, UnreadableFile
from sojourn.calibration import UNKNOWN, Calibration, notes_of
from sojourn.constants import Constants
from sojourn.experiments.training import calibrated
from sojourn.landscape import DIRECTIONS, Landscape
from sojourn.learning.calibrate.calibrate import Effort
from sojourn.learning.calibrate.estimates import (
    Bracket,
    Displaced,
    Estimate,
    Largest,
    Unasked,
    mean_over_clients,
)
from sojourn.learning.calibrate.gap import descended, gap, measure_gap
from sojourn.learning.calibrate.gradients import Design, batch, gather, still
from sojourn.learning.calibrate.noise import (
    distances,
    farther,
    largest_heterogeneity,
    largest_noise,
    mean_heterogeneity,
    mean_noise,
    variances,
)
from sojourn.learning.calibrate.objective import Objective, choose
from sojourn.learning.calibrate.smoothness import lanczos, measure_trace
from sojourn.learning.data.load import load_problem
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.models.small import Binary, Point
from sojourn.learning.replay.federation import Federation
from sojourn.learning.replay.local import Local
from sojourn.learning.run.build import build
from sojourn.learning.run.config import TrainConfig

torch.set_num_threads(1)
SMALL = Effort(gradients=80, points=2, directions=3)
MISS = 0.025


def federation_of(problem, batch_size=4, seed=0, order="shuffled"):
    module = (Point if hasattr(problem, "curvature") else Binary)(problem).double()
    local = Local(batch_size=batch_size)
    return Federation(FlatModel(module), problem.dataset, problem.partition, local, seed, order)


@pytest.fixture
def fleet(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nfast,6,4\nslow,4,1\n")
    return str(path)


def measured(fleet, effort=SMALL, **options):
    settings = {"steps": 200, "batch_size": 4, "execution": "one-by-one", **options}
    return calibrated(build(TrainConfig(fleet, **settings)), effort)


def of_problem(fleet, data, effort=SMALL, **options):
    settings = {"model": "problem", "partition": "natural", "dtype": "float64", "data": data, **options}
    return measured(fleet, effort, **settings)


# the leading end of a spectrum


def test_lanczos_finds_the_leading_eigenvalues_with_a_distance_that_holds():
    draw = np.random.default_rng(0).standard_normal((60, 60))
    matrix = torch.as_tensor(draw + draw.T)
    truth = np.linalg.eigvalsh(matrix.numpy())[::-1]
    found = lanczos(lambda v: matrix @ v, torch.zeros(60, dtype=torch.float64), 5, 45, seed=1)
    assert np.abs(found.values - truth[:5]).max() < 0.01 * truth[0]
    for value, residual, vector in zip(found.values, found.residuals, found.vectors, strict=True):
        assert np.abs(truth - value).min() <= residual + 1e-12
        assert float((matrix @ vector - value * vector).norm()) == pytest.approx(residual, abs=1e-9)
    assert np.allclose(found.vectors @ found.vectors.T, np.eye(5), atol=1e-10)
    assert found.size[0] == pytest.approx(np.abs(truth).max(), rel=0.01)


def test_lanczos_finds_an_eigenvalue_as_often_as_it_occurs():
    diagonal = torch.tensor([3.0, 3.0, 3.0, 1.0, 1.0])
    found = lanczos(lambda v: diagonal * v, torch.zeros(5), 5, 20, seed=0)
    assert found.values == pytest.approx([3, 3, 3, 1, 1], abs=1e-5)


def test_lanczos_stops_when_its_values_are_good_enough():
    diagonal = torch.cat([torch.tensor([100.0]), torch.linspace(0, 1, 400)]).double()
    found = lanczos(lambda v: diagonal * v, torch.zeros(401, dtype=torch.float64), 1, 300, seed=0)
    assert found.products < 12
    assert found.values[0] == pytest.approx(100)


def test_lanczos_refuses_what_is_not_finite():
    with pytest.raises(SojournError, match="a product with the Hessian is not finite; lower the step size"):
        lanczos(lambda v: v * torch.nan, torch.zeros(5), 1, 5, seed=0)


# losses and Hessians


def test_the_hessian_of_a_quadratic_is_its_curvature():
    problem = load_problem("quadratic(dimension=6, clients=3, examples=8)")
    federation = federation_of(problem)
    weights = np.array([0.5, 0.3, 0.2])
    objective = Objective(federation, federation.first, federation.first_stats, choose(federation, weights, 100, 0))
    assert np.allclose(objective.product(torch.ones(6, dtype=torch.float64)), problem.curvature)
    assert objective.loss().value == pytest.approx(problem.loss(np.zeros(6), weights))
    assert objective.loss().error == 0
    assert np.allclose(objective.gradient(), problem.gradient(np.zeros(6), weights))


def test_products_with_a_hessian_are_differences_of_gradients(fleet):
    built = build(TrainConfig(fleet, model="cnn(channels=4)", dtype="float64", partition="classes(k=2)"))
    federation, chance = built.federation, torch.Generator().manual_seed(0)
    chosen = choose(federation, built.setting.weights, 5000, 0)
    away, *ways = torch.randn(3, federation.model.size, generator=chance, dtype=torch.float64)
    point = federation.first + 0.1 * away  # the first model has biases of zero, on the very kinks of its ReLUs
    objective, ahead, behind = (
        Objective(federation, point + h * ways[0], federation.first_stats, chosen) for h in (0, 1e-7, -1e-7)
    )
    product = objective.product(ways[0])
    assert float(((ahead.gradient() - behind.gradient()) / 2e-7 - product).norm() / product.norm()) < 1e-3
    assert float(product @ ways[1]) == pytest.approx(float(objective.product(ways[1]) @ ways[0]))


def test_drawn_examples_tell_how_far_the_loss_may_be_off():
    problem = load_problem("quadratic(clients=4, examples=200)")
    hits = 0
    for seed in range(60):
        federation = federation_of(problem, seed=seed)
        chosen = choose(federation, np.full(4, 0.25), 64, 0)
        assert not chosen.exact
        loss = Objective(federation, federation.first, federation.first_stats, chosen).loss()
        hits += loss.low(MISS) <= problem.loss(np.zeros(10)) <= loss.high(MISS)
    assert binomtest(hits, 60, 0.95).pvalue > 0.001


@pytest.mark.slow
def test_curvature_from_drawn_examples_lies_between_its_bounds(fleet):
    data = "logistic(examples=400, dimension=6, shift=0)"
    problem = load_problem(data)
    at_zero = max(
        np.linalg.eigvalsh(x.T @ x / (4 * len(x)) + 0.01 * np.eye(6))[-1]
        for x in (problem.points[problem.partition.of(i)] for i in range(10))
    )
    effort = Effort(gradients=80, points=1, directions=2, examples=1600)
    held = []
    for seed in range(5):
        found = of_problem(fleet, data, effort, seed=seed, steps=20)
        held.append(found.L.low <= at_zero <= found.L.high)
        assert not found.exact
    assert sum(held) >= 4


# noise and heterogeneity


def test_noise_and_heterogeneity_by_hand():
    """One client has gradients 1 and 3 (variance 2), the other 5 and 5 (0); means 3 and 4 in the two rounds."""
    problem = load_problem("quadratic(dimension=1, clients=2, examples=2, condition=1)")
    federation = federation_of(problem, batch_size=1)
    values = iter([[1.0], [5.0], [3.0], [5.0]])
    federation.model.gradient = lambda params, x, y: (torch.tensor(next(values)).double(), torch.zeros(()))
    design = Design(np.array([0, 1]), 2, groups=1, size=2)
    one = torch.ones(1, 1, dtype=torch.float64)
    sums = gather(federation, federation.first, federation.first_stats, design, np.full(2, 0.5), one, 0)
    assert variances(sums).tolist() == [[[2, 2], [0, 0]]]
    # d = (-2, -1) and (2, 1): the product of the two rounds is 2 for both
    assert distances(sums).tolist() == [[[2, 2], [2, 2]]]


def repetitions(problem, gradients, many, batch_size=4, order="shuffled"):
    """Interval and truth of everything that is measured with gradients at zero, many times."""
    clients, zero = problem.partition.clients, np.zeros(problem.dimension)
    weights = np.full(clients, 1 / clients)
    noise = problem.noise(zero, batch_size, order == "independent")
    away = np.array([problem.client_gradient(i, zero) for i in range(clients)]) - problem.gradient(zero)
    axes = torch.eye(problem.dimension, dtype=torch.float64)[[0, -1]]
    for seed in range(many):
        federation = federation_of(problem, batch_size, seed, order)
        design = Design.of(clients, gradients, seed)
        mine = weights[design.asked] / weights[design.asked].sum()
        sums = gather(federation, federation.first, federation.first_stats, design, mine, axes, 0)
        found, apart = mean_noise(sums, mine, clients), mean_heterogeneity(sums, mine, weights)
        yield {
            "sigma2, mean": (found[0], noise.mean()),
            "G2, mean": (apart[0], np.square(away).sum(1).mean()),
            "G2 along the first": (apart[1], np.square(away[:, 0]).mean()),
            "G2 along the last": (apart[2], np.square(away[:, -1]).mean()),
            "sigma2, largest": (largest_noise(sums, found[0]), noise[design.asked].max()),
            "G2, largest": (largest_heterogeneity(sums, apart[0]), np.square(away[design.asked]).sum(1).max()),
        }


CASES = {
    "quadratic": ("quadratic(examples=50)", 100, "shuffled"),
    "logistic": ("logistic(examples=50)", 100, "independent"),
    "not all clients asked": ("quadratic(clients=40, examples=20)", 80, "shuffled"),
}


def check_coverage(case, many, doubt):
    text, gradients, order = CASES[case]
    rows = list(repetitions(load_problem(text), gradients, many, order=order))
    for name in rows[0]:
        hits = sum(row[name][0].low(MISS) <= row[name][1] <= row[name][0].high(MISS) for row in rows)
        side = "two-sided" if name == "sigma2, mean" else "less"  # the others hold more often where there is much noise
        assert binomtest(hits, many, 0.95, side).pvalue > doubt, (name, hits / many)
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_intervals_hold_the_truth_as_often_as_they_say(case):
    rows = check_coverage(case, many=80, doubt=0.001)
    for name in ("sigma2, mean", "G2, mean"):  # and what they surround is not off to one side
        errors = np.array([row[name][0].value / row[name][1] - 1 for row in rows])
        assert abs(errors.mean()) < 4 * errors.std(ddof=1) / np.sqrt(errors.size)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_intervals_hold_the_truth_as_often_as_they_say_in_many_repetitions(case):
    rows = check_coverage(case, many=1000, doubt=1e-5)
    for name in rows[0]:
        hits = np.mean([row[name][0].low(MISS) <= row[name][1] <= row[name][0].high(MISS) for row in rows])
        assert hits > 0.93, name


def of_all_clients(text, gradients, many):
    """Estimates of the largest heterogeneity of all clients from some of them, with the others counted and without."""
    for seed in range(many):
        problem = load_problem(f"{text[:-1]}, seed={seed})")
        clients, zero = problem.partition.clients, np.zeros(problem.dimension)
        truth = max(np.square(problem.client_gradient(i, zero) - problem.gradient(zero)).sum() for i in range(clients))
        federation, design = federation_of(problem, seed=seed), Design.of(clients, gradients, seed)
        asked, weights = design.asked.size, np.full(clients, 1 / clients)
        mine, none = np.full(asked, 1 / asked), torch.empty(0, problem.dimension, dtype=torch.float64)
        sums = gather(federation, federation.first, federation.first_stats, design, mine, none, 0)
        mean = mean_heterogeneity(sums, mine, weights)[0]
        both = [(clients - asked, farther(mine, weights)), (0, 1.0)]
        yield truth, [largest_heterogeneity(sums, mean, *one) for one in both]


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_the_largest_of_all_clients_is_held_by_an_interval_from_some_of_them(noise):
    rows = list(of_all_clients(f"quadratic(clients=40, examples=20, noise={noise})", 40, 80))
    held = [sum(one[kind].low(MISS) <= truth <= one[kind].high(MISS) for truth, one in rows) for kind in (0, 1)]
    assert binomtest(held[0], 80, 0.95, "less").pvalue > 0.001
    assert held[1] < 60  # ten of forty clients: the largest is rarely among them
    off = [np.mean([np.log(one[kind].value / truth) for truth, one in rows]) for kind in (0, 1)]
    assert off[1] < -0.3 < off[0] < 0.1


@pytest.mark.parametrize("order", ["shuffled", "independent"])
def test_batches_are_drawn_as_in_training(order):
    problem = load_problem("quadratic(clients=2, examples=6)")
    federation = federation_of(problem, batch_size=4, order=order)
    chance = np.random.default_rng(0)
    drawn = [batch(federation, 1, chance) for _ in range(50)]
    assert {rows.size for rows in drawn} == {4}
    assert {int(row) for rows in drawn for row in rows} == set(problem.partition.of(1).tolist())
    assert all(np.unique(rows).size == 4 for rows in drawn) == (order == "shuffled")


def test_who_holds_less_than_a_batch_has_no_noise():
    federation = federation_of(load_problem("quadratic(clients=2, examples=6)"), batch_size=32)
    design = Design.of(2, 8, seed=0)
    none = torch.empty(0, 10, dtype=torch.float64)
    sums = gather(federation, federation.first, federation.first_stats, design, np.full(2, 0.5), none, 0)
    assert variances(sums).max() == 0
    mean = mean_noise(sums, np.full(2, 0.5), 2)[0]
    assert (mean.low(MISS), mean.value, mean.high(MISS)) == (0, 0, 0)
    assert largest_noise(sums, mean).high(MISS) == 0
    assert largest_noise(sums, mean, others=3).high(MISS) == np.inf


@pytest.mark.parametrize(
    ("options", "nothing_else"),
    [
        ({}, True),
        ({"order": "independent"}, False),
        ({"augment": "flip"}, False),
        ({"model": "test_calibration:with_dropout"}, False),
    ],
)
def test_a_batch_of_all_examples_has_no_noise_unless_something_else_is_random(
    tmp_path, monkeypatch, options, nothing_else
):
    monkeypatch.syspath_prepend(__file__.rpartition("/")[0])
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nall,3,1\n")  # they hold 479, 480 and 479 examples
    built = build(TrainConfig(str(path), **{"model": "logistic", "batch_size": 479, **options}))
    assert still(built.federation).tolist() == [nothing_else, False, nothing_else]


def test_a_design_asks_all_clients_if_it_can_and_never_less_often_than_four_times():
    for clients, gradients in itertools.product((1, 2, 7, 50, 1000), (8, 9, 50, 133, 1000)):
        design = Design.of(clients, gradients, seed=0)
        assert design.size >= 2
        assert design.groups >= 2
        assert gradients // 2 < design.gradients <= gradients
        assert design.asked.size == min(clients, gradients // 4)
    assert Design.of(50, 80, 0).asked.tolist() != Design.of(50, 80, 1).asked.tolist()
    with pytest.raises(InvalidInput, match="gradients must be at least 8 for each point, got 7; give more"):
        Design.of(10, 7, seed=0)


# estimates


def test_the_largest_is_bounded_by_the_largest_bounds():
    parts = [Estimate(1.0, 0.1), Estimate(2.0, 0.5)]
    both = Largest(parts)
    assert both.value == 2
    assert both.high(MISS) == parts[1].high(MISS)
    assert both.low(MISS) == max(part.low(MISS / 2) for part in parts)
    assert Largest(parts, mean=Estimate(1.9)).low(MISS) == 1.9


def test_a_variance_has_no_negative_bound_and_a_square_none_below_its_error():
    assert 0 < Estimate(1.0, 2.0, 5, positive=True).low(MISS) < 1
    assert Estimate(-1.0, 0.5, floor=0.0).high(MISS) == pytest.approx(0.98, abs=0.01)


def test_clients_that_were_not_asked_widen_the_interval():
    values = np.random.default_rng(0).normal([1, 2, 3, 4], 0.1, (3, 4))
    all_of_them, some = (mean_over_clients(values, np.ones(4), clients, positive=False) for clients in (4, 8))
    assert all_of_them.value == some.value
    assert some.error > 3 * all_of_them.error


def test_clients_that_were_not_asked_may_have_more_than_those_that_were():
    few, many = (Unasked(1.0, 0.2, 0.0, asked, others=30) for asked in (5, 50))
    assert 1.5 < many.value == few.value < many.high(MISS) < few.high(MISS) < 100
    assert many.low(MISS) == 0
    assert Unasked(1.0, 0.2, 0.0, asked=2, others=30).high(MISS) == np.inf
    assert Unasked(1.0, 0.2, 0.0, 50, others=300).value > many.value
    assert Unasked(1.0, 0.2, 0.2, 50, others=30).value == 1  # all of the spread is noise
    assert Unasked(-0.1, 0.2, 0.0, 50, others=30).value == 0


def test_a_distance_from_a_mean_that_is_off_is_off_by_as_much():
    near = Displaced(Estimate(9.0), off=0.5)
    assert (near.low(MISS), near.value, near.high(MISS)) == (6.25, 9, 12.25)


def test_the_gap_lies_between_what_was_gained_and_the_first_loss():
    first, negative = np.array([3.0]), np.array([-1.0])
    assert gap([(first, np.array([2.0])), (first, np.array([1.0]))]) == Bracket(2.0, Estimate(2.0), Estimate(3.0))
    assert gap([(first, negative)]).high(MISS) == np.inf
    with pytest.raises(SojournError, match="no loss below the first, 3, was reached; give the training more steps"):
        gap([(first, first)])


def test_descent_finds_the_least_loss_that_stochastic_steps_do_not_settle_at():
    problem = load_problem("logistic(examples=40)")
    federation = federation_of(problem)
    chosen = choose(federation, np.full(10, 0.1), 5000, 0)
    objective = Objective(federation, federation.first, federation.first_stats, chosen)
    least = objective.at(descended(objective)).loss().value
    assert least == pytest.approx(problem.loss(problem.optimum()), rel=1e-4)


def test_what_was_fitted_to_some_examples_is_judged_by_others():
    problem = load_problem("quadratic(clients=4, examples=300, dimension=40, condition=1)")
    for seed in range(5):
        federation = federation_of(problem, seed=seed)
        chosen = choose(federation, np.full(4, 0.25), 64, 0)
        found = measure_gap([Objective(federation, federation.first, federation.first_stats, chosen)] * 2)
        assert found.low(0.001) <= problem.gap()


# the whole


@pytest.mark.parametrize("seed", range(3))
def test_the_known_constants_of_a_quadratic_are_recovered(fleet, seed):
    data = "quadratic(examples=40, heterogeneity=2, largest=3)"
    problem = load_problem(data)
    found = of_problem(fleet, data, Effort(directions=4), seed=seed, steps=600, step_size=0.05)
    truth = {
        "A": problem.gap(),
        "L": 3.0,
        "sigma2": problem.noise(batch_size=4, replace=False).max(),
        "G2": problem.dissimilarity(),
    }
    for key, value in truth.items():
        number = getattr(found, key)
        assert number.low <= value * (1 + 1e-9), key
        assert value <= number.high * (1 + 1e-9), key
        assert number.value == pytest.approx(value, rel=0.25), key
    assert found.exact
    assert 0.3 < found.points[0].secant <= 3 * (1 + 1e-9)  # between the least and the largest curvature
    for point in found.points:
        assert point.eigenvalues == pytest.approx(sorted(problem.curvature)[::-1][:4], rel=1e-3)
    spread = np.square(problem.curvature) * np.var([problem.means[i] for i in range(10)], axis=0)
    inside = [one.low <= v <= one.high for one, v in zip(found.points[0].heterogeneity, spread[:4], strict=True)]
    assert sum(inside) >= 3


def test_the_known_constants_of_a_logistic_are_recovered_where_it_starts(fleet):
    data = "logistic(examples=40)"
    problem, zero = load_problem(data), np.zeros(10)
    found = of_problem(fleet, data, Effort(gradients=400, points=2), steps=400)
    assert found.L.value == pytest.approx(problem.smoothness, rel=1e-3)  # it is reached at zero
    assert found.A.low <= problem.gap() <= found.A.high
    assert found.A.value == pytest.approx(problem.gap(), rel=1e-3)
    first = found.points[0]
    assert first.sigma2.low <= problem.noise(zero, 4, False).max() <= first.sigma2.high
    assert first.G2.low <= problem.dissimilarity(zero) <= first.G2.high
    assert first.gradient2 == pytest.approx(np.square(problem.gradient(zero)).sum())
    assert found.G2.value >= max(point.G2.value for point in found.points) - 1e-12


@pytest.mark.slow
def test_the_known_constants_of_quadratics_are_recovered_as_often_as_stated(fleet):
    held = {"A": 0, "L": 0, "sigma2": 0, "G2": 0}
    for seed in range(100):
        data = f"quadratic(examples=40, dimension=6, heterogeneity=2, largest=3, seed={seed})"
        problem = load_problem(data)
        found = of_problem(fleet, data, Effort(directions=2), seed=seed, steps=400, step_size=0.05)
        noise = problem.noise(batch_size=4, replace=False).max()
        truth = {"A": problem.gap(), "L": 3.0, "sigma2": noise, "G2": problem.dissimilarity()}
        for key, value in truth.items():
            number = getattr(found, key)
            held[key] += number.low <= value * (1 + 1e-9) and value <= number.high * (1 + 1e-9)
    for key, hits in held.items():
        assert binomtest(hits, 100, 0.95, "less").pvalue > 0.001, (key, hits)


def test_heterogeneity_of_a_network_is_that_of_its_clients_whole_gradients(fleet):
    built = build(TrainConfig(fleet, partition="classes(k=3)", steps=30, execution="one-by-one", device="cpu"))
    federation = built.federation
    slopes = []
    for client in range(10):
        alone = choose(federation, np.eye(10)[client], 5000, 0)
        slopes.append(Objective(federation, federation.first, federation.first_stats, alone).gradient())
    stack = torch.stack(slopes)
    truth = (stack - stack.mean(0)).square().sum(1)
    first = calibrated(built, Effort(points=1, directions=2)).points[0]
    assert first.G2_mean.low <= float(truth.mean()) <= first.G2_mean.high
    assert first.G2.low <= float(truth.max()) <= first.G2.high
    assert first.gradient2 == pytest.approx(float(stack.mean(0).square().sum()), rel=1e-3)


@pytest.mark.slow
def test_the_seed_decides_everything(fleet):
    one, two, other = (measured(fleet, partition="classes(k=2)", seed=seed, steps=30) for seed in (1, 1, 2))
    assert one == two
    assert one.constants != other.constants


def test_clients_weigh_as_much_as_they_are_told_to(fleet):
    options = {"partition": "iid(sizes=power(exponent=1.5, least=10))", "model": "logistic", "steps": 30}
    equal, data = (measured(fleet, **options, weights=kind) for kind in ("equal", "data"))
    assert equal.points[0].sigma2_mean.value != data.points[0].sigma2_mean.value
    assert data.points[0].loss.value == pytest.approx(np.log(10), rel=1e-5)


class WithDropout(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.parts = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(features, classes))

    def forward(self, x):
        return self.parts(x)


def with_dropout(dataset):
    return WithDropout(dataset.train_x[0].size, dataset.classes)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["cnn(channels=2, norm=batch)", "test_calibration:with_dropout"])
def test_batchnorm_and_dropout_are_measured_as_they_train(fleet, model, monkeypatch):
    monkeypatch.syspath_prepend(__file__.rpartition("/")[0])
    effort = Effort(gradients=16, points=1, directions=1, examples=128)
    one, two = (measured(fleet, effort, model=model, steps=20, batch_size=16) for _ in range(2))
    assert one == two
    assert one.points[0].sigma2_mean.value > 0
    assert one.L.value > 0


# what the twin knows


def test_the_landscape_of_a_quadratic_is_its_own(fleet):
    """Neither noise nor heterogeneity depends on the loss there: all of them is floor."""
    data = "quadratic(examples=40, dimension=6, heterogeneity=2, largest=3)"
    problem = load_problem(data)
    land = of_problem(fleet, data, Effort(gradients=400, directions=4), steps=400, step_size=0.05).landscape()
    assert land.curvature[:4] == pytest.approx(np.sort(problem.curvature)[::-1][:4], rel=1e-3)
    assert len(land.curvature) == 6
    assert land.intervals["trace"][0] <= problem.curvature.sum() * (1 + 1e-6)
    assert land.intervals["trace"][1] >= problem.curvature.sum() * (1 - 1e-6)
    assert land.loss == pytest.approx(problem.gap(), rel=1e-3)
    apart = np.square([problem.client_gradient(i, np.zeros(6)) - problem.gradient(np.zeros(6)) for i in range(10)])
    truth = {"noise_floor": problem.noise(batch_size=4, replace=False).mean(), "noise": 0}
    truth |= {"heterogeneity_floor": apart.sum(1).mean(), "heterogeneity": 0}
    for key, value in truth.items():
        assert land.intervals[key][0] <= value <= land.intervals[key][1], key
    assert land.noise_floor == pytest.approx(truth["noise_floor"], rel=0.3)
    assert land.heterogeneity_floor == pytest.approx(truth["heterogeneity_floor"], rel=0.3)


@pytest.mark.slow
def test_the_floors_of_quadratics_are_held_as_often_as_stated(fleet):
    held, many = {"noise_floor": 0, "heterogeneity_floor": 0, "noise": 0, "heterogeneity": 0}, 40
    for seed in range(many):
        data = f"quadratic(examples=40, dimension=6, heterogeneity=2, largest=3, seed={seed})"
        problem = load_problem(data)
        land = of_problem(fleet, data, Effort(directions=2), seed=seed, steps=200, step_size=0.05).landscape()
        apart = np.square([problem.client_gradient(i, np.zeros(6)) - problem.gradient(np.zeros(6)) for i in range(10)])
        truth = {"noise_floor": problem.noise(batch_size=4, replace=False).mean(), "noise": 0}
        truth |= {"heterogeneity_floor": apart.sum(1).mean(), "heterogeneity": 0}
        for key, value in truth.items():
            held[key] += land.intervals[key][0] <= value <= land.intervals[key][1]
    for key, hits in held.items():
        assert binomtest(hits, many, 0.95, "less").pvalue > 0.001, (key, hits)


def test_the_trace_of_a_hessian_is_held_by_its_interval():
    problem = load_problem("logistic(examples=20, dimension=12)")
    held = 0
    for seed in range(40):
        federation = federation_of(problem, seed=seed)
        chosen = choose(federation, np.full(10, 0.1), 5000, 0)
        objective = Objective(federation, federation.first, federation.first_stats, chosen)
        truth = sum(float(objective.along(one).value) for one in torch.eye(12, dtype=torch.float64))
        spectrum = lanczos(objective.product, objective.params, 3, 12, seed)
        found = measure_trace(objective, spectrum, seed, None)
        held += found.low(MISS) <= truth <= found.high(MISS)
        assert found.value == pytest.approx(truth, rel=0.3)
    assert binomtest(held, 40, 0.95, "less").pvalue > 0.001


def dealt_by_half(labels, clients, chance):
    """The first half of the clients hold the classes below five, the others the rest."""
    half = clients // 2
    return chance.integers(half, size=labels.size) + half * (labels >= 5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("partition", "lowest", "highest"), [("iid", 0, 0.1), ("test_calibration:dealt_by_half", 0.5, 1)]
)
def test_groups_that_share_nothing_know_all_and_others_nothing_alone(tmp_path, monkeypatch, partition, lowest, highest):
    monkeypatch.syspath_prepend(__file__.rpartition("/")[0])
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nfast,10,4\nslow,10,1\n")
    options = {"partition": partition, "model": "logistic", "steps": 60, "batch_size": 8}
    found = measured(str(path), Effort(gradients=240, points=3, directions=2), **options)
    assert lowest <= found.between.low <= found.between.value <= found.between.high
    assert found.between.value <= highest
    last = found.points[-1]
    assert last.G2_between.value + last.G2_within.value == pytest.approx(last.G2_mean.value, rel=0.1)
    assert found.landscape().between == found.between.value
    assert found.landscape(Fleet.of(all=(20, 1.0))).between == 0


def test_too_few_clients_of_a_speed_leave_open_what_they_alone_know(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nfast,1,4\nslow,1,1\n")
    found = measured(str(path), Effort(gradients=16, points=1, directions=1), steps=20, model="logistic")
    assert found.between == UNKNOWN == (0, 0, 1)


# constants.toml


def test_the_file_is_read_as_constants_and_as_it_was_written(fleet, tmp_path):
    found = measured(fleet, steps=30)
    found.save(tmp_path / "constants.toml")
    assert Calibration.load(tmp_path / "constants.toml") == found
    assert Constants.load(tmp_path / "constants.toml") == found.constants
    assert Landscape.load(tmp_path / "constants.toml").content() == found.landscape().content()
    assert found.constants.noise == pytest.approx(2 * found.G2.value + found.sigma2.value)


def test_where_a_batch_is_all_that_a_client_holds_no_noise_is_measured(fleet, tmp_path):
    found = measured(fleet, steps=30, batch_size=1000)
    assert found.sigma2 == (0, 0, 0)
    assert found.still == found.clients == 10
    for point in found.points:
        assert {point.sigma2, point.sigma2_mean, *point.noise} == {(0, 0, 0)}
        assert point.G2.low == pytest.approx(point.G2.high, rel=1e-12)
    found.save(tmp_path / "constants.toml")
    text = (tmp_path / "constants.toml").read_text()
    assert "# Note: sigma2 is 0: one batch holds all examples of a client, so its gradient has no noise." in text
    assert Calibration.load(tmp_path / "constants.toml") == found
    assert Constants.load(tmp_path / "constants.toml").sigma2 == 0
    land = Landscape.load(tmp_path / "constants.toml")
    assert (land.noise, land.noise_floor) == (0, 0)
    assert (land.intervals["noise"], land.intervals["noise_floor"]) == ((0, 0), (0, 0))
    assert land.heterogeneity > 0


@pytest.mark.slow
def test_clients_with_little_data_have_no_noise_and_others_have(fleet):
    found = measured(fleet, partition="iid(sizes=power(exponent=1.5, least=10))", batch_size=40, steps=30)
    assert 0 < found.still < 10
    assert found.sigma2.low > 0
    assert found.notes == [f"{found.still} of 10 clients have no noise: one batch holds all their examples"]


def test_a_file_from_some_of_the_clients_says_so_and_what_they_had(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nall,40,1\n")
    found = measured(str(path), Effort(gradients=40, points=1, directions=2), partition="classes(k=2)", steps=30)
    assert (found.asked, found.clients) == (10, 40)
    assert found.G2.value > found.largest_asked["G2"] > 0
    assert found.G2.high > found.G2.value
    found.save(tmp_path / "constants.toml")
    text = (tmp_path / "constants.toml").read_text()
    assert "# Note: 10 of 40 clients computed gradients: sigma2 and G2 are extrapolated, as if the others" in text
    assert f"G2 {found.largest_asked['G2']:.4g}; L is the largest of these clients" in text
    assert Calibration.load(tmp_path / "constants.toml") == found
    assert notes_of(tmp_path / "constants.toml") == found.notes


def as_of_old(text):
    """A file as it was before clients without noise, speed groups and landscapes were in it."""
    new = ("still =", "largest_asked =", "notes =", "# Note:", "between =", "lowest = {", "trace =", "G2_between =")
    kept, skipped = [], False
    for line in text.splitlines():
        skipped = line.startswith("[calibration.landscape]") or (skipped and not line.startswith("["))
        if not skipped and not line.startswith((*new, "G2_within =")):
            kept.append(line)
    return "\n".join(kept)


@pytest.mark.slow
def test_a_file_without_a_landscape_still_yields_one_from_its_points(fleet, tmp_path):
    found = measured(fleet, steps=30)
    found.save(tmp_path / "new.toml")
    (tmp_path / "old.toml").write_text(as_of_old((tmp_path / "new.toml").read_text()))
    land = Calibration.load(tmp_path / "old.toml").landscape()
    assert land.curvature[:3] == found.landscape().curvature[:3]
    assert len(land.curvature) == DIRECTIONS
    assert land.lowest == 0
    assert land.intervals["between"] == (0, 1)
    with pytest.raises(InvalidInput, match=r"has no table calibration\.landscape; measure again"):
        Landscape.load(tmp_path / "old.toml")


def test_a_loss_that_does_not_curve_upwards_is_saved_without_a_landscape(fleet, tmp_path):
    found = measured(fleet, steps=30)
    flat = replace(found, points=tuple(replace(one, eigenvalues=(-1.0,), residuals=(0.0,)) for one in found.points))
    flat.save(tmp_path / "flat.toml")
    assert Calibration.load(tmp_path / "flat.toml") == flat
    assert "calibration.landscape" not in (tmp_path / "flat.toml").read_text()
    assert flat.content()["landscape"] is None
    with pytest.raises(InvalidInput, match="curvature must hold positive numbers"):
        flat.landscape()


def test_older_files_are_read_and_say_that_their_numbers_are_those_of_the_clients_asked(fleet, tmp_path):
    found = replace(measured(fleet, steps=30), asked=7)
    found.save(tmp_path / "new.toml")
    (tmp_path / "old.toml").write_text(as_of_old((tmp_path / "new.toml").read_text()))
    old = Calibration.load(tmp_path / "old.toml")
    points = tuple(replace(one, trace=None, G2_between=None, G2_within=None) for one in found.points)
    plain = replace(found, still=0, largest_asked={}, points=points, lowest=None, between=UNKNOWN)
    assert old == plain
    assert "7 of 10 clients computed gradients: sigma2, G2 and L are the largest of these" in str(
        notes_of(tmp_path / "old.toml")
    )
    (tmp_path / "own.toml").write_text("A = 1\nL = 1\nB = 1\n[calibration]\nasked = 'some'\n")
    with pytest.raises(UnreadableFile, match="asked must be a whole number"):
        notes_of(tmp_path / "own.toml")


def numbers(value):
    if isinstance(value, dict | list):
        return [one for part in (value.values() if isinstance(value, dict) else value) for one in numbers(part)]
    return [value] if isinstance(value, float) else []


def longest(value):
    if isinstance(value, dict):
        return max((longest(one) for one in value.values()), default=0)
    return max([len(value), *map(longest, value)]) if isinstance(value, list) else 0


@pytest.mark.slow
def test_the_file_contains_no_data_and_says_so(fleet, tmp_path):
    """It is as long for many examples and parameters as for few, and none of their values stands in it."""
    told = {}
    for name, model in {"small": "logistic", "large": "mlp(hidden=100)"}.items():
        built = build(TrainConfig(fleet, model=model, steps=30, execution="one-by-one", device="cpu"))
        calibrated(built, SMALL).save(tmp_path / name)
        text = (tmp_path / name).read_text()
        told[name] = tomllib.loads(text)
        assert "# This file contains no data: no examples, no labels, no gradients, no parameters" in text
        assert told[name]["calibration"]["contains"].startswith("no data")
        assert longest(told[name]) <= DIRECTIONS
        parameters = built.federation.first[built.federation.first != 0]
        found = np.array(numbers(told[name]))
        assert not np.isin(found[found != 0], parameters.double().numpy()).any()
    assert len(numbers(told["small"])) == len(numbers(told["large"]))
    assert all(key not in str(told) for key in ("hash", "rows", "train_x"))


def test_files_that_are_no_calibration_are_refused(fleet, tmp_path):
    path = tmp_path / "constants.toml"
    path.write_text("A = 1\nL = 1\nB = 1\n")
    with pytest.raises(InvalidInput, match="has no table calibration; write it with sojourn calibrate"):
        Calibration.load(path)
    path.write_text("A = 1\nL = 1\nB = 1\n[calibration]\nschema = 99\n")
    with pytest.raises(UnreadableFile, match="has schema 99, this sojourn reads 1"):
        Calibration.load(path)
    path.write_text("A = 1\nL = 1\nB = 1\n[calibration]\nschema = 1\n")
    with pytest.raises(UnreadableFile, match="is incomplete"):
        Calibration.load(path)


def test_a_loss_without_a_bound_below_has_an_infinite_interval_in_the_file_too(fleet, tmp_path):
    found = measured(fleet, steps=30)
    found = replace(found, A=found.A._replace(high=float("inf")))
    found.save(tmp_path / "constants.toml")
    assert Calibration.load(tmp_path / "constants.toml") == found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"points": 0}, "points must be at least 1, got 0"),
        ({"examples": 0}, "examples must be at least 1, got 0"),
        ({"confidence": 1.0}, r"confidence must lie between 0 and 1, got 1\.0; 0\.95 is usual"),
    ],
)
def test_efforts_that_make_no_sense_are_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        Effort(**options)
