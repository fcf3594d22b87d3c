"""The picture of a comparison has all of its names on it."""

import pytest

from sojourn.experiments.statistics import AXES

pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.mark.slow
@pytest.mark.parametrize(("words", "columns"), [(0, 4), (2, 3), (3, 2), (4, 1)])
def test_names_are_set_in_as_many_columns_as_fit_into_the_picture(words, columns, tmp_path, monkeypatch):
    from sojourn.report import training_figures

    names = [f"algorithm {number}" + words * " several words" for number in range(7)]
    curves = [
        {"algorithm": name, "axis": axis, "at": at, "accuracy": 0.5, "accuracy_low": 0.4, "accuracy_high": 0.6}
        for name in names
        for axis in AXES
        for at in (0, 10)
    ]
    legends = []

    def saved(figure, path):
        legends.extend(figure.legends)
        figure.savefig(path)
        return [path]

    monkeypatch.setattr(training_figures, "save", saved)
    training_figures.comparison_picture(curves, "accuracy", tmp_path / "picture.png", "seven algorithms")
    (legend,) = legends
    assert [text.get_text() for text in legend.get_texts()] == names
    tops = {round(text.get_window_extent().y1) for text in legend.get_texts()}
    assert len(tops) == -(-len(names) // columns)  # rows
    pixels = pyplot.imread(tmp_path / "picture.png")[..., :3]
    assert (pixels[:, 0] == 1).all()  # none runs over an edge
    assert (pixels[:, -1] == 1).all()
