"""Pictures of calibrations, tunings and sweeps show what was measured, tried and swept."""

from dataclasses import replace

import numpy as np
import pytest

pyplot = pytest.importorskip("matplotlib.pyplot")

from sojourn.calibration import Calibration  # noqa: E402
from sojourn.experiments.tuned_plan import Trial, TunedPlan  # noqa: E402
from sojourn.fleet import Fleet  # noqa: E402
from sojourn.measured import Measured, PointMeasured  # noqa: E402
from sojourn.plan import Plan  # noqa: E402
from sojourn.report import calibration_figures, sweep_figures, timing_figures, tuning_figures  # noqa: E402


@pytest.fixture
def drawn(monkeypatch):
    """The figures, as they would be written."""
    found = []

    def keep(figure, path):
        found.append(figure)
        figure.canvas.draw()
        return [path]

    for module in (calibration_figures, sweep_figures, timing_figures, tuning_figures):
        monkeypatch.setattr(module, "save", keep)
    yield found
    for figure in found:
        pyplot.close(figure)


def names(axis):
    return [text.get_text() for text in axis.get_legend().get_texts()]


def bars(axis):
    """Lower and upper ends of all error bars."""
    segments = [one for lines in axis.collections for one in getattr(lines, "get_segments", list)()]
    return [(segment[0][1], segment[1][1]) for segment in segments]


# simulations


def test_error_bars_of_staleness_do_not_go_below_zero(drawn, tmp_path):
    series = {"simulated": (np.array([1.0, 5.0]), np.array([3.0, 2.0]))}
    timing_figures.staleness_picture(["fast", "slow"], series, tmp_path)
    assert bars(drawn[0].axes[0]) == [(0.0, 4.0), (3.0, 7.0)]


# sweeps


def run(accuracy, seed=0, state="complete", **point):
    return {**point, "seed": seed, "state": state, "accuracy": accuracy, "test_loss": 1 - accuracy}


def test_numbers_lie_along_the_axis_and_the_other_key_makes_lines(drawn, tmp_path):
    rows = [
        run(0.5 + 0.1 * index + 0.01 * seed, seed, algorithm=name, step_size=step)
        for name in ("asyncsgd", "fedavg")
        for index, step in enumerate((0.01, 0.1, 1.0))
        for seed in range(3)
    ]
    sweep_figures.sweep_pictures(rows, ["algorithm", "step_size"], True, tmp_path)
    (axis,) = drawn[0].axes
    assert axis.get_xlabel() == "step_size"
    assert axis.get_xscale() == "log"  # a hundred times apart
    (legend,) = drawn[0].legends
    assert [text.get_text() for text in legend.get_texts()] == ["algorithm asyncsgd", "algorithm fedavg"]
    assert not legend.get_window_extent().overlaps(axis.get_tightbbox())  # it covers no interval


def test_intervals_over_the_seeds_stay_between_0_and_1(drawn, tmp_path):
    rows = [run(value, seed, concurrency=3) for seed, value in enumerate((0.99, 0.8, 1.0))]
    rows += [run(value, seed, concurrency=5) for seed, value in enumerate((0.01, 0.2, 0.0))]
    sweep_figures.sweep_pictures(rows, ["concurrency"], True, tmp_path)
    ends = bars(drawn[0].axes[0])
    assert len(ends) == 2
    assert min(low for low, _ in ends) == 0
    assert max(high for _, high in ends) == 1


def test_a_third_key_makes_panels_and_words_are_places_on_the_axis(drawn, tmp_path):
    rows = [
        run(0.5, algorithm=name, server=server, partition=dealt)
        for name in ("asyncsgd", "fedavg", "quafl")
        for server in ("sgd", "adam")
        for dealt in ("iid", "shards(k=2)")
    ]
    sweep_figures.sweep_pictures(rows, ["algorithm", "server", "partition"], True, tmp_path)
    assert [axis.get_title() for axis in drawn[0].axes] == ["partition iid", "partition shards(k=2)"]
    assert [text.get_text() for text in drawn[0].axes[0].get_xticklabels()] == ["asyncsgd", "fedavg", "quafl"]


def test_without_a_complete_run_nothing_is_drawn(drawn, tmp_path):
    rows = [run(0.5, state="failed", concurrency=3)]
    assert sweep_figures.sweep_pictures(rows, ["concurrency"], True, tmp_path) == []
    assert not drawn


def test_where_there_are_no_classes_the_loss_is_drawn(drawn, tmp_path):
    rows = [{**run(0.5, concurrency=many), "accuracy": float("nan"), "test_loss": 3.0} for many in (3, 5)]
    sweep_figures.sweep_pictures(rows, ["concurrency"], True, tmp_path)
    assert drawn[0].axes[0].get_ylabel() == "test loss"


# tunings


def tuning(rows, chosen=None, lengths=(1 / 9, 1.0)):
    fleet = Fleet.of(fast=(6, 4.0), slow=(4, 1.0))
    each = [
        {"rung": rung, "step_size": step, "correction": None, "buffer": None, "seed": 0, "loss": loss}
        for rung, step, loss in rows
    ]
    return TunedPlan(Plan.uniform(fleet, 5), chosen, lengths=lengths, rows=each)


def test_a_line_for_each_rung_and_the_chosen_step_size_are_drawn(drawn, tmp_path):
    rows = [(1 / 9, 0.1, 1.0), (1 / 9, 0.2, 0.9), (1 / 9, 0.4, float("inf")), (1.0, 0.1, 0.5), (1.0, 0.2, 0.4)]
    tuning_figures.tuning_pictures(tuning(rows, Trial(0.2)), tmp_path)
    (axis,) = drawn[0].axes
    assert names(axis) == ["loss at 1/9", "diverged at 1/9", "loss at the end", "chosen 0.2"]
    assert axis.get_xscale() == "log"
    (lines,) = [line for line in axis.lines if line.get_label() == "loss at 1/9"]
    assert lines.get_xydata().tolist() == [[0.1, 1.0], [0.2, 0.9]]


def test_combinations_have_panels(drawn, tmp_path):
    found = tuning([(1.0, 0.1, 0.5)])
    found.rows = [{**row, "correction": value} for row in found.rows for value in (0.0, 1.0)]
    tuning_figures.tuning_pictures(found, tmp_path)
    assert [axis.get_title() for axis in drawn[0].axes] == ["correction 0", "correction 1"]


def test_a_tuning_without_a_trial_has_no_picture(drawn, tmp_path):
    assert tuning_figures.tuning_pictures(tuning([]), tmp_path) == []


# calibrations


def point(step, **changes):
    one = Measured(1.0, -0.5, 3.0)
    keys = {"loss": one, "L": one, "sigma2": one, "sigma2_mean": one, "G2": one, "G2_mean": one}
    plain = {"time": float(step), "gradient2": 1.0, "secant": 1.0, "curvature": 1.0, "lowest": 0.0}
    spectrum = {"eigenvalues": (9.0, 1.0, -0.1), "residuals": (0.1, 2.0, 0.1), "noise": (), "heterogeneity": ()}
    return PointMeasured(step=step, **{**keys, **plain, **spectrum, **changes})


@pytest.fixture
def calibration():
    one = Measured(1.0, 0.5, 3.0)
    return Calibration(
        *(one, one, one, one, 0.95, 10, 10, 100, 10, True, 0),
        largest_asked={},
        points=(point(0), point(30)),
        run={},
    )


def test_constants_are_drawn_along_the_training_and_their_intervals_do_not_go_below_zero(drawn, calibration, tmp_path):
    calibration_figures.calibration_pictures(calibration, tmp_path)
    constants, spectrum = drawn
    assert [axis.get_title() for axis in constants.axes][:2] == ["mean loss", "curvature"]
    assert set(names(constants.axes[3])) == {"mean over clients", "largest client", "G2 = 1"}
    ends = [one for figure in (constants, spectrum) for axis in figure.axes for one in bars(axis)]
    assert ends
    assert min(low for low, _ in ends) == 0


def test_the_spectrum_has_a_line_for_each_point_with_the_positive_curvatures(drawn, calibration, tmp_path):
    calibration_figures.calibration_pictures(calibration, tmp_path)
    (axis,) = drawn[1].axes
    assert names(axis) == ["step 0", "step 30"]
    assert axis.get_yscale() == "log"
    assert axis.lines[0].get_xydata().tolist() == [[1, 9.0], [2, 1.0]]


def test_without_curvatures_there_is_no_spectrum(drawn, calibration, tmp_path):
    points = tuple(replace(one, eigenvalues=(), residuals=()) for one in calibration.points)
    calibration_figures.calibration_pictures(replace(calibration, points=points), tmp_path)
    assert len(drawn) == 1
