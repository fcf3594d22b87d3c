"""A landscape: read from what was measured or written by hand, refused in a sentence."""

import numpy as np
import pytest

from sojourn import InvalidInput
from sojourn.landscape import DIRECTIONS, Landscape

OWN = "curvature = [1, 3]\nloss = 2.3\nnoise = 4\nheterogeneity = 0.5\nbetween = 0.25\n"


def test_the_generic_landscape_is_the_middle_of_what_was_measured():
    found = Landscape.generic()
    assert len(found.curvature) == DIRECTIONS
    assert found.h[0] == 5
    assert np.allclose(np.diff(np.log(found.h)) / np.diff(np.log(np.arange(1, 41))), -1.2)
    assert (found.loss, found.noise, found.heterogeneity, found.between, found.source) == (2.3, 7, 7, 0, "generic")


def test_a_file_of_your_own_is_read(tmp_path):
    (tmp_path / "own.toml").write_text(OWN)
    found = Landscape.load(tmp_path / "own.toml")
    assert found.curvature == (3, 1)
    assert (found.loss, found.noise, found.heterogeneity, found.between) == (2.3, 4, 0.5, 0.25)
    assert (found.noise_floor, found.lowest, found.source) == (0, 0, "own")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OWN + "nois = 1\n", r"own.toml: unknown key 'nois'; the keys are curvature, loss, noise"),
        (OWN.replace("noise = 4\n", ""), "key noise is required and missing; add it"),
        (OWN.replace("0.25", "1.5"), "between must be a part from 0 to 1, got 1.5"),
        (OWN.replace("2.3", "'much'"), "loss must be a number"),
        (OWN.replace("[1, 3]", "[]"), "curvature must hold positive numbers"),
        (OWN + "intervals = { noise = [1] }\n", "interval of noise must have two ends"),
        (
            "A = 1\n[calibration]\nschema = 1\n",
            "has no table calibration.landscape; measure again with sojourn calibrate",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_way_out(tmp_path, text, message):
    (tmp_path / "own.toml").write_text(text)
    with pytest.raises(InvalidInput, match=message):
        Landscape.load(tmp_path / "own.toml")
