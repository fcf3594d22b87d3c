"""The digits: their split, their scale, and what happens without scikit-learn."""

import sys

import numpy as np
import pytest

from sojourn import SojournError
from sojourn.learning.data.load import load_dataset


@pytest.fixture(scope="module")
def digits():
    pytest.importorskip("sklearn")
    return load_dataset("digits")


def test_a_fifth_of_every_class_is_the_test_set(digits):
    assert digits.train_x.shape == (1438, 1, 8, 8)
    assert digits.test_x.shape == (359, 1, 8, 8)  # 1797 / 5 = 359.4
    test, train = (np.bincount(labels, minlength=10) for labels in (digits.test_y, digits.train_y))
    assert (np.abs(test - 0.2 * (test + train)) < 1.1).all()
    assert digits.classes == 10


def test_training_pixels_have_mean_zero_and_variance_one(digits):
    pixels = digits.train_x.astype(np.float64)
    assert pixels.mean() == pytest.approx(0, abs=1e-6)
    assert pixels.var() == pytest.approx(1, abs=1e-6)
    assert np.unique(pixels).size == 17  # sixteen levels of grey, and white


def test_the_digits_are_the_same_on_every_day(digits):
    assert digits.hash == load_dataset("digits").hash == "166558b7a1c91833"


def test_without_scikit_learn_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(SojournError, match=r"digits needs scikit-learn, .*; pip install 'sojourn\[train\]'$"):
        load_dataset("digits")
