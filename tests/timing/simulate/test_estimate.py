"""Ratio estimates and their standard errors."""

import numpy as np
import pytest

from sojourn.timing.simulate.estimate import Estimate, RatioSums


def summed(units):
    sums = RatioSums(1)
    for num, den in units:
        sums.add(num, den)
    return sums.estimate()


def test_a_ratio_by_hand():
    # R = (2 + 4 + 9) / (1 + 2 + 2) = 3; residuals num - 3 den: -1, -2, 3, squares 14;
    # se = sqrt(14 / (3 * 2)) / (5 / 3) = .916515
    estimate = summed([(2, 1), (4, 2), (9, 2)])
    assert estimate.value[0] == 3
    assert estimate.error[0] == pytest.approx(0.9165151389911681, rel=1e-14)


def test_with_equal_denominators_it_is_the_standard_error_of_a_mean():
    sample = np.random.default_rng(0).normal(5, 2, 50)
    estimate = summed((x, 1.0) for x in sample)
    assert estimate.value[0] == pytest.approx(sample.mean(), rel=1e-13)
    assert estimate.error[0] == pytest.approx(sample.std(ddof=1) / np.sqrt(50), rel=1e-10)


def test_a_constant_ratio_has_no_error():
    assert summed([(3, 1), (6, 2), (30, 10)]).error[0] == 0


def test_one_unit_has_a_value_and_no_error():
    estimate = summed([(6, 2)])
    assert estimate.value[0] == 3
    assert np.isnan(estimate.error[0])


@pytest.mark.parametrize("num", [0, 3])
def test_nothing_observed_is_not_a_number(num):
    estimate = summed([(0, 0), (num, 0)])
    assert np.isnan(estimate.value[0])
    assert np.isnan(estimate.error[0])


def test_the_error_of_what_one_unit_of_several_has_seen_is_not_known():
    estimate = summed([(0, 0), (4, 1), (0, 0)])
    assert estimate.value[0] == 4
    assert np.isnan(estimate.error[0])


def test_groups_are_estimated_side_by_side():
    sums = RatioSums(2)
    sums.add([2, 10], [1, 5])
    sums.add([4, 30], [2, 5])
    assert sums.units == 2
    assert sums.estimate().value.tolist() == [2, 4]
    assert sums.estimate().error == pytest.approx([0, 2])  # (10, 30) over 5: 2 and 6, so 4 +- 2


def test_the_error_of_many_small_ratios_covers_the_truth():
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(400):
        den = rng.gamma(5, 1, 60)
        estimate = summed(zip(rng.poisson(3 * den), den, strict=True))
        inside += abs(estimate.value[0] - 3) < 2 * estimate.error[0]
    assert 0.92 < inside / 400 < 0.98


def test_an_estimate_prints_value_and_error():
    assert str(Estimate(np.array([1.5, 20.25]), np.array([0.012, 0.5]))) == "1.5 +- 0.012, 20.25 +- 0.5"
    assert str(Estimate(np.float64(3.0), np.float64(0.25))) == "3 +- 0.25"
    assert str(Estimate(np.array([4.0, 2.0]), np.array([np.nan, 0.0]))) == "4, 2 +- 0"
