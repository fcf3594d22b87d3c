"""Curves that differ by more than a factor of three can all be read; figures for papers have the size of a column."""

import numpy as np
import pytest

from sojourn.experiments.statistics import AXES

pyplot = pytest.importorskip("matplotlib.pyplot")

from sojourn.errors import InvalidInput  # noqa: E402
from sojourn.experiments.results import Comparison  # noqa: E402
from sojourn.report.axes import FACTOR, Line, draw_lines  # noqa: E402
from sojourn.report.figures import save_single, single  # noqa: E402
from sojourn.report.training_figures import comparison_figure, comparison_picture, curves_figure  # noqa: E402


def line(name, end, last=0.9):
    at = np.linspace(0, end, 11)
    return Line(name, at, np.linspace(0.1, last, 11))


@pytest.fixture
def panel():
    figure, axis = pyplot.subplots()
    yield axis
    pyplot.close(figure)


def written_at_the_ends(panel):
    return {text.get_text() for text in panel.texts}


def test_an_axis_is_logarithmic_where_one_curve_is_more_than_three_times_as_long(panel):
    draw_lines(panel, [line("short", 10), line("long", 10 * FACTOR + 1)])
    assert panel.get_xscale() == "log"
    left, right = panel.get_xlim()
    assert 0 < left < 10 < 31 < right
    assert written_at_the_ends(panel) == {"short"}  # the others are at the right edge, in the legend's order


def test_the_name_of_a_curve_that_ends_early_covers_no_other_curve(panel):
    at = np.linspace(1, 100, 200)
    below = Line("long", at, 0.1 + 0.5 * np.log(at) / np.log(100))  # passes just below the end of the short one
    short = Line("short", at[at <= 20], 0.05 + below.value[at <= 20])
    draw_lines(panel, [below, short])
    (name,) = panel.texts
    panel.figure.canvas.draw()
    box = name.get_window_extent()
    for one in (below, short):
        drawn = panel.transData.transform(np.column_stack([one.at, one.value]))
        assert not any(box.contains(x, y) for x, y in drawn)


@pytest.mark.parametrize("values", [[0.4], [0.4, np.nan]])
def test_a_curve_with_one_point_is_drawn_as_a_dot(panel, values):
    draw_lines(panel, [Line("one", np.arange(len(values)) * 10.0, np.array(values)), line("long", 20)])
    dots = [drawn for drawn in panel.lines if drawn.get_marker() == "o"]
    assert [drawn.get_xydata().tolist() for drawn in dots] == [[[0.0, 0.4]]]
    assert [text.get_text() for text in panel.legend().get_texts()] == ["one", "long"]


def test_time_has_its_unit():
    figure = comparison_figure(rows_of("one", "other"), "accuracy", "title")
    assert figure.axes[0].get_xlabel() == "virtual time (seconds)"
    pyplot.close(figure)


def test_an_axis_is_linear_where_all_curves_are_about_as_long(panel):
    draw_lines(panel, [line("one", 10), line("other", 10 * FACTOR)])
    assert panel.get_xscale() == "linear"
    assert panel.get_xlim()[0] == 0
    assert not written_at_the_ends(panel)


def test_losses_far_apart_stand_on_a_logarithmic_axis_and_accuracies_do_not(panel):
    lines = [line("one", 10, last=0.9), line("other", 10, last=0.2)]
    draw_lines(panel, lines)
    assert panel.get_yscale() == "linear"
    draw_lines(panel, lines, grows=False)
    assert panel.get_yscale() == "log"


def test_a_curve_without_a_point_does_no_harm(panel):
    nothing = Line("diverged", np.empty(0), np.empty(0), np.empty(0), np.empty(0))
    draw_lines(panel, [nothing, line("one", 10), line("other", 100)])
    assert panel.get_xscale() == "log"


def rows_of(*names, ends=(10, 40)):
    keys = ("accuracy", "accuracy_low", "accuracy_high")
    return [
        {"algorithm": name, "axis": axis, "at": at, **dict(zip(keys, (0.5, 0.4, 0.6), strict=True))}
        for name, end in zip(names, ends, strict=False)
        for axis in AXES
        for at in (0, end)
    ]


def test_a_figure_for_a_paper_has_one_panel_of_a_columns_size_and_letters_of_8_points():
    figure = comparison_figure(rows_of("one", "other"), "accuracy", "title", axis="time")
    (axis,) = figure.axes
    assert tuple(figure.get_size_inches()) == (3.3, 2.5)
    assert axis.xaxis.label.get_fontsize() == 8
    assert {text.get_fontsize() for text in axis.get_legend().get_texts()} == {8}
    assert axis.get_title() == ""
    pyplot.close(figure)


def test_many_names_stand_below_the_panel_and_inside_the_figure(tmp_path):
    names = [f"algorithm number {number}" for number in range(6)]
    figure = comparison_figure(rows_of(*names, ends=[10] * 6), "accuracy", "title", axis="received")
    (legend,) = figure.legends
    assert figure.get_size_inches()[1] > 2.5
    assert [text.get_text() for text in legend.get_texts()] == names
    figure.canvas.draw()
    assert figure.axes[0].get_legend() is None
    assert legend.get_window_extent().x0 >= 0
    assert legend.get_window_extent().x1 <= figure.bbox.width
    assert legend.get_window_extent().y1 <= figure.axes[0].get_window_extent().y0
    pyplot.close(figure)


def test_bars_are_not_written_over():
    figure = single(lambda axis: axis.barh([0, 1], [3, 4], label="tasks"))
    assert len(figure.legends) == 1
    pyplot.close(figure)


def test_every_panel_becomes_files_of_its_own(tmp_path):
    paths = comparison_picture(rows_of("one"), "accuracy", tmp_path / "comparison", "title", one_by_one=True)
    assert {path.name for path in paths} == {
        f"comparison-{axis}.{kind}" for axis in AXES for kind in ("pdf", "svg", "png")
    }
    assert all(path.stat().st_size > 2000 for path in paths)


def test_a_comparison_in_python_draws_one_panel_over_the_axis_that_is_named(tmp_path):
    table = [{"algorithm": "one", "judged_by": "accuracy"}]
    compared = Comparison(tmp_path, table, rows_of("one", "other"))
    figure = compared.plot(tmp_path / "updates", axis="received")
    assert len(figure.axes) == 1
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".pdf", ".png", ".svg"]
    assert len(compared.plot().axes) == 4


def test_a_run_is_drawn_over_any_axis_and_no_other_is_known():
    runs = {"run": [{"received": n, "time": n, "version": n, "gradients": n, "accuracy": n / 10} for n in range(5)]}
    figure = curves_figure(runs, "title", axis="gradients")
    assert figure.axes[0].get_xlabel() == "gradients computed"
    pyplot.close(figure)
    with pytest.raises(InvalidInput, match="axis must be one of time, received, version, gradients, got 'energy'"):
        curves_figure(runs, "title", axis="energy")


def test_a_name_with_a_dot_is_not_taken_for_a_suffix(tmp_path):
    paths = save_single(single(lambda axis: axis.plot([1, 2])), tmp_path / "step-0.1")
    assert [path.name for path in paths] == ["step-0.1.pdf", "step-0.1.svg", "step-0.1.png"]
