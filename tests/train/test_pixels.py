"""Images as pixels: kept small, scaled only where a model sees them."""

import numpy as np
import pytest
import torch

from sojourn.data.dataset import Dataset
from sojourn.data.partition import partition
from sojourn.train import evaluate
from sojourn.train.evaluate import judge
from sojourn.train.federation import Federation
from sojourn.train.flat_model import FlatModel
from sojourn.train.local import Local
from sojourn.train.models.load import load_model

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.3, 0.4)
_RNG = np.random.default_rng(0)
X, Y = _RNG.integers(0, 256, (60, 3, 8, 8), dtype=np.uint8), np.arange(60) % 10


def scaled(pixels):
    shape = (3, 1, 1)
    return (pixels / 255 - np.reshape(MEAN, shape)) / np.reshape(STD, shape)


def federation(x=X, dtype=torch.float32, **scale):
    data = Dataset("images", x[:40], Y[:40], x[40:], Y[40:], classes=10, **scale)
    model = FlatModel(load_model("cnn(channels=4)", data, "images", 0, dtype))
    return Federation(model, data, partition("iid", data.train_y, 4, 0), Local())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pixels_stay_one_byte_and_batches_are_scaled(dtype):
    made = federation(dtype=dtype, mean=MEAN, std=STD)
    assert made.x.dtype == made.test_x.dtype == torch.uint8
    rows = np.array([3, 0, 7])
    x, y = made.batch(rows)
    assert x.dtype == dtype
    assert y.tolist() == [3, 0, 7]
    assert x.numpy() == pytest.approx(scaled(X[rows]), abs=1e-6 if dtype == torch.float32 else 1e-14)


def test_pixels_without_a_scale_are_used_as_they_are():
    x, _ = federation().batch(np.array([5]))
    assert x.dtype == torch.float32
    assert np.array_equal(x.numpy(), X[[5]].astype(np.float32))


def test_other_numbers_are_taken_as_they_were():
    made = federation(X / 255)
    assert made.x.dtype == torch.float32
    assert torch.equal(made.batch(np.array([1, 2]))[0], made.x[1:3])


def test_a_model_is_judged_on_scaled_pixels_in_pieces_of_any_size(monkeypatch):
    pixels, numbers = federation(mean=MEAN, std=STD), federation(scaled(X))
    expected = judge(numbers, numbers.first, numbers.first_stats)
    for values in (2**21, 3 * 192, 1):  # all at once, three at a time, one by one
        monkeypatch.setattr(evaluate, "VALUES_AT_ONCE", values)
        found = judge(pixels, pixels.first, pixels.first_stats)
        assert found.loss == pytest.approx(expected.loss, rel=1e-5)
        assert found.accuracy == expected.accuracy
