"""Intervals of bounded quantities keep to the bounds, and cover the truth as often as whole ones."""

from math import inf

import numpy as np
import pytest

from sojourn.bounds import AMOUNT, ANY, NONNEGATIVE_LOSSES, SHARE, bounds_of, cut
from sojourn.experiments.statistics import interval


@pytest.mark.parametrize(
    ("truth", "within", "draw"),
    [
        (0.98, SHARE, lambda random: random.binomial(100, 0.98, size=5) / 100),
        (0.02, SHARE, lambda random: random.beta(0.5, 24.5, size=5)),
        (1.0, AMOUNT, lambda random: random.exponential(1.0, size=3)),
    ],
)
def test_a_cut_interval_covers_the_truth_exactly_as_often_as_the_whole_one(truth, within, draw):
    random = np.random.default_rng(7)
    samples = [draw(random) for _ in range(2000)]
    pairs = [(interval(one), interval(one, within=within)) for one in samples]
    assert [cut.low <= truth <= cut.high for _, cut in pairs] == [all.low <= truth <= all.high for all, _ in pairs]
    assert any(whole != kept for whole, kept in pairs)  # the bounds were met
    assert all(within[0] <= kept.low <= kept.mean <= kept.high <= within[1] for _, kept in pairs)


def test_by_hand_two_accuracies_near_one():
    found = interval([0.9, 1.0], within=SHARE)  # Student's would reach 12.7 times 0.05 to each side
    assert found.mean == pytest.approx(0.95)
    assert found.low == pytest.approx(0.95 - 12.7062 * 0.05, rel=1e-4)
    assert found.high == 1.0


def test_missing_ends_stay_missing():
    low, high = cut(np.array([np.nan, -1.0]), np.array([np.nan, 3.0]), AMOUNT)
    assert np.isnan(low[0])
    assert np.isnan(high[0])
    assert (low[1], high[1]) == (0.0, 3.0)


@pytest.mark.parametrize("quantity", ["staleness", "time", "queue", "received"])
def test_amounts_are_not_negative_and_have_no_largest_value(quantity):
    assert bounds_of(quantity) == (0.0, inf)


def test_a_loss_of_the_users_own_may_be_anything():
    assert bounds_of("test_loss", "mine:loss") == ANY
    assert bounds_of("test_loss") == ANY


def test_the_losses_that_are_never_negative_are_those_of_the_package():
    from sojourn.learning.execute.losses import LOSSES

    assert set(NONNEGATIVE_LOSSES) == set(LOSSES)
