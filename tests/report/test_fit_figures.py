"""Pictures of a fit: every device is on it, in the colour of its group, and the law lies over what was measured."""

import numpy as np
import pytest

from sojourn import fit

pytest.importorskip("matplotlib")


def drawn(found, tmp_path, monkeypatch):
    """The figures by name, as they are before they are written."""
    from sojourn.report import fit_figures

    figures = {}

    def kept(figure, path):
        figures[path.name] = figure
        return [path]

    monkeypatch.setattr(fit_figures, "save", kept)
    fit_figures.fit_pictures(found, "", tmp_path / "pictures")
    return figures


@pytest.fixture
def log():
    rng = np.random.default_rng(1)
    device = np.repeat([f"d{number}" for number in range(8)], 200)
    return {"device": device, "seconds": rng.exponential(np.repeat([1, 9, 1, 9, 1, 9, 1, 9], 200))}


def test_every_device_stands_in_the_colour_of_its_group(log, tmp_path, monkeypatch):
    axis = drawn(fit(log), tmp_path, monkeypatch)["fit-devices"].axes[0]
    assert [label.get_text() for label in axis.get_xticklabels()][:4] != []
    assert {label.get_text() for label in axis.get_xticklabels()[:4]} == {"d0", "d2", "d4", "d6"}
    fast, slow = axis.get_lines()
    assert fast.get_color() != slow.get_color()
    assert fast.get_xdata().tolist() == [0, 1, 2, 3]
    assert fast.get_ydata() == pytest.approx(np.log(2) * np.ones(4), rel=0.3)
    assert [text.get_text().split(":")[0] for text in axis.get_legend().get_texts()] == ["fast", "slow"]


def test_the_law_expects_about_as_many_tasks_as_were_measured(log, tmp_path, monkeypatch):
    figure = drawn(fit(log), tmp_path, monkeypatch)["fit-laws"]
    assert len(figure.axes) == 2
    for axis in figure.axes:
        bars = np.array([bar.get_height() for bar in axis.containers[0]])
        expected = axis.patches[-1].get_data().values
        assert bars.sum() == pytest.approx(expected.sum(), rel=0.03)
        assert ((bars - expected) ** 2).sum() / expected.sum() < 3  # about one where the law is right


@pytest.mark.parametrize("groups", ["device", 1])
def test_many_devices_and_deterministic_ones_are_drawn(tmp_path, monkeypatch, groups):
    log = {"device": np.repeat(np.arange(500), 3), "duration": np.full(1500, 2.0)}
    figures = drawn(fit(log, groups=groups), tmp_path, monkeypatch)
    assert "of 500 devices" in figures["fit-devices"].axes[0].get_xlabel()
