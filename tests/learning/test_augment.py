"""Crops and flips, by the task's name."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn import InvalidInput
from sojourn.learning.data.dataset import Dataset
from sojourn.learning.execute.augment import Augment
from sojourn.learning.execute.examples import Examples

ANY = settings(max_examples=40)
RNG = np.random.default_rng(3)
PIXELS = RNG.integers(0, 256, (20, 3, 8, 8), dtype=np.uint8)
IMAGES = Dataset("noise", PIXELS, np.arange(20) % 2, PIXELS[:2], [0, 1], classes=2, mean=(0.5,) * 3, std=(0.25,) * 3)


def _by_hand(image, pad, row, column, mirrored):
    room = np.pad(image, ((0, 0), (pad, pad), (pad, pad)))
    cut = room[:, row : row + 8, column : column + 8]
    return cut[:, :, ::-1] if mirrored else cut


@ANY
@given(
    keys=st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=4),
    step=st.integers(0, 5),
    text=st.sampled_from(["flip", "crop(pad=2)", "crop-flip(pad=3)"]),
)
def test_images_are_cut_and_mirrored_as_drawn(keys, step, text) -> None:
    augment = Augment.parse(text)
    rows = [np.array([1, 5, 5, 15]) + number for number in range(len(keys))]
    draws = augment.draws(keys, step, 4)
    x, y = Examples(IMAGES, torch.float64, augment=augment).stack(rows, keys, step)
    assert x.shape == (len(keys), 4, 3, 8, 8)
    for task, numbers in enumerate(rows):
        for place, number in enumerate(numbers):
            row, column, mirrored = draws[:, task * 4 + place]
            wanted = (_by_hand(PIXELS[number], augment.pad, row, column, mirrored) / 255 - 0.5) / 0.25
            np.testing.assert_allclose(x[task, place].numpy(), wanted, atol=1e-12)
            assert y[task, place] == number % 2


def test_what_happens_to_a_task_does_not_depend_on_its_wave() -> None:
    augment = Augment.parse("crop-flip")
    together = augment.draws([11, 22, 33], 1, 5)
    alone = augment.draws([22], 1, 5)
    assert (together[:, 5:10] == alone).all()
    assert (augment.draws([22], 2, 5) != alone).any()


def test_every_place_and_side_is_as_likely_as_the_others() -> None:
    draws = Augment.parse("crop-flip(pad=4)").draws(list(range(50)), 0, 200)
    many = draws.shape[1]
    for axis in range(2):
        counts = np.bincount(draws[axis], minlength=9)
        assert counts.size == 9
        assert ((counts - many / 9) ** 2 / (many / 9)).sum() < 30  # chi-squared with 8 degrees of freedom
    assert abs(draws[2].mean() - 0.5) < 4 * 0.5 / np.sqrt(many)


def test_without_augmentation_pixels_are_scaled_and_nothing_else() -> None:
    x, _ = Examples(IMAGES, torch.float64).batch(np.array([3]), 7, 0)
    np.testing.assert_allclose(x[0].numpy(), (PIXELS[3] / 255 - 0.5) / 0.25, atol=1e-12)


def test_what_are_no_images_cannot_be_augmented() -> None:
    vectors = Dataset("vectors", [[1.0], [2.0]], [0, 1], [[0.0]], [0], classes=2)
    with pytest.raises(InvalidInput, match=r"augmentation needs images, dataset vectors has examples of shape \(1,\)"):
        Examples(vectors, torch.float32, augment=Augment.parse("flip"))
    with pytest.raises(InvalidInput, match="pad must not be negative, got -1"):
        Augment.parse("crop(pad=-1)")
    with pytest.raises(InvalidInput, match="did you mean flip"):
        Augment.parse("flop")
