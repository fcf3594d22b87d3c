"""From points of a training to what the twin knows: lines that fall with the loss, and spectra that go on."""

import numpy as np
import pytest
from scipy.stats import binomtest

from sojourn.measured import LowestMeasured, Measured, PointMeasured
from sojourn.measured_landscape import fit_line, fit_spectrum, measured_landscape, settled

ABOVE = np.array([1.2, 0.5, 0.2, 0.0])


def around(value, error):
    return Measured(value, max(0.0, value - 1.96 * error), value + 1.96 * error)


def point(step=0, loss=1.0, noise=1.0, apart=2.0, eigenvalues=(2.0, 1.0), trace=None):
    some, many = Measured(1.0, 1.0, 1.0), tuple(eigenvalues)
    return PointMeasured(
        step=step, time=float(step), loss=Measured(loss, loss, loss), gradient2=1.0, L=some, secant=1.0,
        curvature=many[0], lowest=0.0, sigma2=some, sigma2_mean=around(noise, 0.01), G2=some,
        G2_mean=around(apart, 0.01), eigenvalues=many, residuals=(0.1,) * len(many), noise=(), heterogeneity=(),
        trace=None if trace is None else Measured(trace, trace - 1, trace + 1),
    )  # fmt: skip


def test_a_line_is_found_where_there_is_one():
    slope, floor = fit_line(ABOVE, [around(3 * x + 0.5, 0.01) for x in ABOVE], 0.95)
    assert slope.value == pytest.approx(3)
    assert floor.value == pytest.approx(0.5)
    assert slope.low < 3 < slope.high < 3.1


def test_neither_slope_nor_floor_is_negative():
    falls, level = fit_line(ABOVE, [around(2 - x, 0.1) for x in ABOVE], 0.95)
    assert falls.value == falls.low == 0
    assert level.value > 1
    steep, none = fit_line(ABOVE, [around(max(0.0, 3 * x - 0.3), 0.1) for x in ABOVE], 0.95)
    assert steep.value > 2
    assert none.value == none.low == 0


def test_what_has_no_noise_anywhere_has_a_line_of_exactly_zero():
    assert fit_line(ABOVE, [Measured(0.0, 0.0, 0.0)] * 4, 0.95) == ((0, 0, 0), (0, 0, 0))


def test_one_point_gives_a_slope_and_no_floor():
    slope, floor = fit_line(np.array([0.5]), [around(2.0, 0.1)], 0.95)
    assert slope.value == pytest.approx(4)
    assert slope.low < 4 < slope.high
    assert floor == (0, 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize(("slope", "floor"), [(4.0, 0.0), (4.0, 1.0), (0.0, 2.0)])
def test_intervals_of_a_line_hold_the_truth_as_often_as_they_say(slope, floor):
    chance, held, many = np.random.default_rng(1), np.zeros(2), 200
    errors = np.array([0.3, 0.2, 0.2, 0.15])
    for _ in range(many):
        seen = np.maximum(0.0, slope * ABOVE + floor + errors * chance.normal(size=4))
        both = fit_line(ABOVE, [around(v, e) for v, e in zip(seen, errors, strict=True)], 0.95)
        held += [one.low <= truth <= one.high for one, truth in zip(both, (slope, floor), strict=True)]
    for hits in held.astype(int).tolist():
        assert binomtest(hits, many, 0.95, "less").pvalue > 0.001


def test_points_that_scatter_more_than_they_should_widen_the_interval():
    straight = [around(4 * x, 0.02) for x in ABOVE]
    off = [around(4 * x * by, 0.02) for x, by in zip(ABOVE, (0.5, 1.4, 0.8, 1.0), strict=True)]
    narrow, wide = (fit_line(ABOVE, one, 0.95).slope for one in (straight, off))
    assert wide.high - wide.low > 5 * (narrow.high - narrow.low)
    assert wide.low < 4 < wide.high


def test_a_power_law_is_continued_from_its_leading_end_and_its_trace():
    true = 7 * np.arange(1, 2411) ** -1.3
    found = fit_spectrum([point(eigenvalues=true[:10], trace=true.sum())], parameters=2410)
    assert found == pytest.approx(true[:40], rel=1e-6)
    long = 7 * np.arange(1, 200_001) ** -1.1
    assert fit_spectrum([point(eigenvalues=long[:10], trace=long.sum())], 200_000) == pytest.approx(long[:40], rel=1e-4)


def test_without_a_trace_the_leading_curvatures_say_how_they_go_on():
    true = 7 * np.arange(1, 41) ** -0.9
    assert fit_spectrum([point(eigenvalues=true[:10])], parameters=1000) == pytest.approx(true)


def test_there_are_no_more_directions_than_parameters_and_none_that_do_not_curve():
    assert fit_spectrum([point(eigenvalues=(3, 2, 1), trace=6)], parameters=3).tolist() == [3, 2, 1]
    found = fit_spectrum([point(eigenvalues=(3, 2, -1), trace=4)], parameters=100)
    assert found.size == 40
    assert (found > 0).all()


def test_curvatures_are_means_over_the_points_without_the_first_model():
    points = [point(eigenvalues=(90, 80)), point(eigenvalues=(4, 1)), point(eigenvalues=(2, 2))]
    assert settled(points) == points[1:]
    assert settled(points[:2]) == points[:2]
    assert fit_spectrum(settled(points), parameters=2).tolist() == [3, 1.5]


def test_noise_and_heterogeneity_fall_with_the_loss_down_to_what_was_measured_at_its_lowest():
    points = [point(0, 3.0, 9, 9), point(1, 1.1, 5.1, 2.0), point(2, 0.6, 2.6, 1.0)]
    lowest = LowestMeasured(Measured(0.1, 0.1, 0.1), around(0.1, 0.01), Measured(0.0, 0.0, 0.0))
    found = measured_landscape(points, Measured(2.9, 2.9, 3.0), lowest, Measured(0.5, 0.4, 0.6), 0.95, 2)
    assert (found.loss, found.lowest, found.source) == (2.9, pytest.approx(0.1), "measured")
    assert (found.noise, found.noise_floor) == (pytest.approx(5, rel=1e-3), pytest.approx(0.1, rel=0.05))
    assert (found.heterogeneity, found.heterogeneity_floor) == (pytest.approx(2, rel=1e-3), pytest.approx(0, abs=1e-6))
    assert found.intervals["between"] == (0.4, 0.6)
    assert found.curvature == (2, 1)


def test_a_lowest_loss_that_was_not_measured_is_taken_to_be_zero():
    points = [point(0, 3.0, 9, 9), point(1, 1.0, 5, 2), point(2, 0.5, 2.5, 1)]
    found = measured_landscape(points, Measured(2.6, 2.5, 3.0), None, Measured(0.0, 0.0, 0.0), 0.95, 2)
    assert (found.loss, found.lowest) == (3, 0)
    assert found.intervals["loss"] == (2.5, 3)
    assert found.noise == pytest.approx(5, rel=0.01)
    unbounded = measured_landscape(points, Measured(2.6, 2.5, np.inf), None, Measured(0.0, 0.0, 0.0), 0.95, 2)
    assert unbounded.lowest == pytest.approx(0.4)
