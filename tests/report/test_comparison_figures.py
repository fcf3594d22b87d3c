"""The picture of a comparison has all of its names on it."""

import pytest

from sojourn.sweep.axes import AXES

pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.mark.parametrize("words", [1, 4, 8])
def test_the_names_of_all_methods_lie_within_the_picture(words, tmp_path):
    from sojourn.report.comparison_figures import comparison_picture

    names = [f"{number}, a method with a name of" + words * " several words" for number in range(7)]
    curves = [
        {"method": name, "axis": axis, "at": at, "accuracy": 0.5, "accuracy_low": 0.4, "accuracy_high": 0.6}
        for name in names
        for axis in AXES
        for at in (0, 10)
    ]
    comparison_picture(curves, "accuracy", tmp_path / "picture", "seven methods")
    pixels = pyplot.imread(tmp_path / "picture.png")[..., :3]
    assert pixels[-60:].min() < 0.5  # they are there
    assert (pixels[:, 0] == 1).all()  # and none runs over an edge
    assert (pixels[:, -1] == 1).all()
