"""Images as pixels: kept small, scaled only where a model sees them."""

import numpy as np
import pytest
import torch

from sojourn.experiments.training import train
from sojourn.learning.data.dataset import Dataset
from sojourn.learning.data.partition import partition
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.models.load import load_model
from sojourn.learning.replay.federation import Federation
from sojourn.learning.replay.local import Local
from sojourn.learning.run import evaluate
from sojourn.learning.run.config import TrainConfig
from sojourn.learning.run.evaluate import judge
from sojourn.report.bars import loading_bar

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
    assert made.examples.x.dtype == made.examples.test_x.dtype == torch.uint8
    rows = np.array([3, 0, 7])
    x, y = made.examples.batch(rows, 0, 0)
    assert x.dtype == dtype
    assert y.tolist() == [3, 0, 7]
    assert x.numpy() == pytest.approx(scaled(X[rows]), abs=1e-6 if dtype == torch.float32 else 1e-14)


def test_pixels_without_a_scale_are_used_as_they_are():
    x, _ = federation().examples.batch(np.array([5]), 0, 0)
    assert x.dtype == torch.float32
    assert np.array_equal(x.numpy(), X[[5]].astype(np.float32))


def test_other_numbers_are_taken_as_they_were():
    made = federation(X / 255)
    assert made.examples.x.dtype == torch.float32
    assert torch.equal(made.examples.batch(np.array([1, 2]), 0, 0)[0], made.examples.x[1:3])


def test_a_model_is_judged_on_scaled_pixels_in_pieces_of_any_size(monkeypatch):
    pixels, numbers = federation(mean=MEAN, std=STD), federation(scaled(X))
    expected = judge(numbers, numbers.first, numbers.first_stats)
    for values in (2**21, 3 * 192, 1):  # all at once, three at a time, one by one
        monkeypatch.setitem(evaluate.VALUES_AT_ONCE, "cpu", values)
        found = judge(pixels, pixels.first, pixels.first_stats)
        assert found.loss == pytest.approx(expected.loss, rel=1e-5)
        assert found.accuracy == expected.accuracy


def test_a_run_on_cifar10_with_a_residual_network_is_the_same_twice(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for number, name in enumerate([*(f"data_batch_{one}" for one in range(1, 6)), "test_batch"]):
        pixels = np.random.default_rng(number).integers(0, 256, (10, 3072), dtype=np.uint8)
        rows = np.concatenate([np.arange(10, dtype=np.uint8)[:, None], pixels], axis=1)
        (tmp_path / f"{name}.bin").write_bytes(rows.tobytes())
    (tmp_path / "fleet.csv").write_text("name,count,rate\nfast,3,2\nslow,2,1\n")
    config = TrainConfig(
        str(tmp_path / "fleet.csv"),
        data=f"cifar10(folder={tmp_path})",
        model="resnet20(width=4)",
        steps=4,
        batch_size=4,
    )
    first, second = (train(config, tmp_path / name).metrics for name in ("first", "second"))  # decoded, then mapped
    assert first == second
    assert np.isfinite(first["test_loss"])


def test_while_loading_sentences_are_reported_and_bars_drawn_only_on_a_terminal(capsys):
    with loading_bar() as watch:
        watch("decoding images", 1, 2)
        watch("file [one] is damaged", 0, 0)
        watch("downloading", 1, 3)
    out, err = capsys.readouterr()
    assert (out, err) == ("", "file [one] is damaged\n")
