"""The twin where clients of other speed groups undo what one group alone knows."""

from dataclasses import replace

import numpy as np
import pytest

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.landscape import Landscape
from sojourn.plan import Plan
from sojourn.planning.policy import Policy
from sojourn.planning.twin import predict
from sojourn.planning.twin.moments import Part, exact, loss_of, one_pass, parts_of
from sojourn.planning.twin.runs import Runs
from sojourn.planning.twin.server import Server
from sojourn.planning.twin.thinning import thinned
from sojourn.planning.twin.updates import Updates
from sojourn.planning.twin.windows import long
from twin_sampler import CROWD, FLEET, FREE, LONG, RULES, SMALL, run_of, sampled

ALONE = Landscape((1.0,), loss=1.0, noise=0.0, heterogeneity=0.0, between=1.0, forgetting=0.5)
STILL = replace(
    SMALL, between=1.0, noise=0.0, heterogeneity=0.0, noise_floor=0.5, heterogeneity_floor=0.5, forgetting=0.2
)


def three_steps(algorithm: str, landscape: Landscape) -> list[tuple[Part, float, float, float]]:
    """Each group's part with a, b of its client and the sum of c^2; client 0, 1, 0 send gradients of models 0, 1, 2."""
    two = Fleet.of(one=(1, 2.0), other=(1, 1.0))
    small = thinned(two, Plan.uniform(two, 1), 10)
    ones, sent = np.ones(3), np.arange(3)
    updates = Updates(np.array([0, 1, 0]), sent, 0 * sent, np.arange(3.0), ones, ones, ones, 1.0, 3, small.share)
    found = []
    for part in parts_of(Server.parse(algorithm).rows(updates), small, landscape):
        a, b, square = one_pass(part, np.array([0, part.rows.changes]), 0.1, np.ones(1), np.ones(1))
        found.append((part, float(a[0]), float(b[part.group, 0]), float(square[0])))
    return found


@pytest.mark.parametrize(
    ("algorithm", "sharper", "first", "second"),
    [
        # w_1 = .9 w_0 - .1 d, w_2 = w_1 - .05 (w_1 - w_0), w_3 = .9 w_2 - .1 d; and w_2 = .9 w_0 - .1 d, w_3 = ...
        (
            "generalized-asyncsgd",
            0.0,
            (0.8145, -0.1855, 0.0855**2 + 0.1**2),
            (0.905, -0.095, 0.095**2),
        ),
        # what a group alone knows is twice as steep for it, and no more is undone of it
        (
            "generalized-asyncsgd",
            1.0,
            (0.648, -0.176, 2 * (0.076**2 + 0.1**2)),
            (0.81, -0.095, 2 * 0.095**2),
        ),
        # the mean of the latest gradient of each, .05 times: that of the other is .5 (w_1 - w_0) from step 2 on
        (
            "ia2sgd(warmup=false)",
            0.0,
            (0.8574375, -0.1425625, 0.0925625**2 + 0.05**2),
            (0.90125, -0.09875, 0.09875**2),
        ),
    ],
)
def test_three_steps_by_hand(
    algorithm: str, sharper: float, first: tuple[float, ...], second: tuple[float, ...]
) -> None:
    found = three_steps(algorithm, replace(ALONE, sharper=sharper))
    assert [part.group for part, *_ in found] == [0, 1]
    assert found[0][1:] == pytest.approx(first, rel=1e-12)
    assert found[1][1:] == pytest.approx(second, rel=1e-12)


def test_nobody_undoes_what_all_know_nor_a_group_its_own() -> None:
    two = replace(ALONE, between=0.5, sharper=1.0)
    common, first, second = (part for part, *_ in three_steps("generalized-asyncsgd", two))
    assert common.pull is None
    assert first.pull is not None
    assert second.pull is not None
    assert (first.pull * first.steep[0]).tolist() == [0, 0.5]
    assert (second.pull * second.steep[0]).tolist() == [0.5, 0]


def test_offsets_and_noise_are_the_groups_own() -> None:
    """With one client in each group nothing is off the group's mean, so the first model and the noise are all."""
    part, a, _, square = three_steps("generalized-asyncsgd", ALONE)[0]
    every = one_pass(part, np.array([0, 3]), 0.1, np.ones(1), np.ones(1))
    assert loss_of(part, ALONE, *every) == pytest.approx(a**2 * ALONE.loss + square / 2, rel=1e-12)


@pytest.mark.parametrize(
    "name", ["plain", "weighted", "half weighted, falling", "buffered", "table", "calibrated", "rounds", "mixed"]
)
@pytest.mark.parametrize("sharper", [0.0, 1.0])
def test_the_moments_are_those_of_samples(name: str, sharper: float) -> None:
    run, eta = run_of(name)
    landscape = replace(STILL, sharper=sharper)
    drawn = [sampled(run, landscape, eta, 200, seed=6 + group, group=group) for group in (0, 1)]
    mixed = drawn[0] * 4 / 6 + drawn[1] * 2 / 6
    found = exact(run, landscape).at(eta)
    assert abs(found.curve[-1] - mixed.mean()) < 2 * mixed.std(ddof=1) / np.sqrt(mixed.size)
    assert found.worst == pytest.approx(max(one.mean() for one in drawn), rel=0.15)
    assert found.curve[-1] != pytest.approx(exact(run, replace(landscape, forgetting=0.0)).at(eta).curve[-1], rel=0.02)


@pytest.mark.parametrize("name", RULES)
def test_where_nothing_is_undone_the_rows_of_the_group_alone_say_the_same(name: str) -> None:
    run, eta = run_of(name)
    landscape = replace(SMALL, between=0.4, sharper=0.5)
    none, hardly = (exact(run, replace(landscape, forgetting=one)).at(eta) for one in (0.0, 1e-13))
    assert hardly.curve == pytest.approx(none.curve, rel=1e-9)
    assert hardly.worst == pytest.approx(none.worst, rel=1e-9)


@pytest.mark.parametrize("name", LONG)
def test_windows_stand_for_a_long_run(name: str) -> None:
    """On average over traces: how often slow clients come in a window matters more where others undo their work."""
    plan, algorithm, eta, error = LONG[name]
    landscape = replace(SMALL, between=0.4, forgetting=0.1)
    runs = Runs(CROWD, 100.0, traces=8, seed=1).of(Policy(name, plan, algorithm))
    whole = np.mean([exact(run, landscape).at(eta).curve[-4:] for run in runs])
    windows = np.mean([long(run, landscape).at(eta).curve[-4:] for run in runs])
    assert windows == pytest.approx(whole, rel=error)
    assert whole > 1.05 * np.mean([exact(run, replace(landscape, forgetting=0.0)).at(eta).curve[-4:] for run in runs])


def test_a_skewed_landscape_makes_the_correction_worth_more() -> None:
    policies = [Policy(str(one), replace(FREE, correction=one), "generalized-asyncsgd") for one in (0.0, 1.0)]
    gains = []
    for landscape in (replace(SMALL, between=0.5), replace(SMALL, between=0.5, forgetting=0.07), SMALL.skewed()):
        plain, unbiased = predict(FLEET, policies, 60.0, landscape)
        gains.append(plain.worst / unbiased.worst)
    assert gains[1] > 1.1 * gains[0]
    assert gains[2] == gains[1]


def test_a_landscape_is_skewed_by_two_numbers_and_stays_as_it_is_otherwise() -> None:
    before, after = SMALL.content(), SMALL.skewed().content()
    assert {key for key in before if before[key] != after[key]} == {"between", "forgetting"}
    assert (after["between"], after["forgetting"]) == (0.5, 0.07)
    assert Landscape.generic().forgetting == 0


def test_a_landscape_cannot_forget_less_than_nothing() -> None:
    with pytest.raises(InvalidInput, match=r"forgetting must be at least 0, got -0\.1"):
        replace(SMALL, forgetting=-0.1)
