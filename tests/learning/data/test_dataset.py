"""Datasets: what they check, what they hold out, and their fingerprint."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn import InvalidInput
from sojourn.learning.data.dataset import Dataset, held_out

ANY = settings(max_examples=100)


def small(**changes):
    given = {
        "name": "small",
        "train_x": np.arange(12.0).reshape(6, 2),
        "train_y": [0, 0, 0, 1, 1, 1],
        "test_x": [[1, 2]],
        "test_y": [1],
        "classes": 2,
    }
    return Dataset(**{**given, **changes})


def test_examples_are_kept_in_single_precision_and_labels_as_class_numbers():
    data = small()
    assert (data.train_x.dtype, data.train_y.dtype) == (np.float32, np.int64)
    assert (data.test_x.dtype, data.test_y.dtype) == (np.float32, np.int64)
    assert small(classes=0, train_y=np.linspace(0, 1, 6)).train_y.dtype == np.float32


def test_nothing_in_a_dataset_can_be_changed_and_the_arrays_that_were_given_still_can():
    mine = np.ones((6, 2), dtype=np.float32)
    data = small(train_x=mine)
    with pytest.raises(ValueError, match="read-only"):
        data.train_x[0, 0] = 5
    mine[0, 0] = 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": -1}, r"classes must be at least 0 \(no classes\), got -1"),
        ({"train_x": np.empty((0, 2)), "train_y": []}, "train_x must hold at least one example, got none"),
        ({"test_x": 3.0}, "test_x must hold at least one example, got none"),
        ({"train_y": [0, 1]}, "train_y must have one label for each of the 6 examples, got 2"),
        ({"train_y": [0, 0, 0, 1, 1, 2]}, "train_y must hold class numbers from 0 to 1, got 2"),
        ({"train_y": [0, 0, 0, 1, 1, 0.5]}, "train_y must hold class numbers from 0 to 1, got 0.5"),
        ({"test_y": [-1]}, "test_y must hold class numbers from 0 to 1, got -1"),
        ({"test_y": [[1]]}, r"test_y must hold one class number per example, got \(1, 1\)"),
        ({"test_x": [[1, 2, 3]]}, r"must have the shape of one of train_x, \(2,\), got \(3,\)"),
        ({"test_x": [[1, np.nan]]}, "test_x must be finite, got nan; clean the data first"),
        ({"test_x": [[1, 1e300]]}, "test_x must be finite, got inf"),
        ({"classes": 0, "test_y": [np.inf]}, "test_y must be finite, got inf"),
        ({"owner": [0, 1]}, "owner must name a client for each of the 6 training examples, got 2"),
        ({"owner": [0, 0, 0, 0, 0, -2]}, r"owner must hold whole numbers of at least 0, got -2 \(int64\)"),
        ({"owner": [0.5] * 6}, r"owner must hold whole numbers of at least 0, got 0\.5 \(float64\)"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(changes, message):
    with pytest.raises(InvalidInput, match=f"^dataset small: .*{message}"):
        small(**changes)


PIXELS = np.arange(6 * 3 * 2 * 2, dtype=np.uint8).reshape(6, 3, 2, 2)
SCALE = {"mean": (0.4, 0.5, 0.6), "std": (0.2, 0.3, 0.4)}


def pixels(**changes):
    return small(**{"train_x": PIXELS, "test_x": PIXELS[:1], **SCALE, **changes})


def test_pixels_stay_pixels_without_a_copy():
    data = pixels()
    assert (data.train_x.dtype, data.test_x.dtype) == (np.uint8, np.uint8)
    assert np.shares_memory(data.train_x, PIXELS)
    assert (data.mean, data.std) == ((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))
    held = data.validation(share=0.5, seed=0)
    assert (held.train_x.dtype, held.test_x.dtype, held.mean, held.std) == (np.uint8, np.uint8, data.mean, data.std)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"test_x": PIXELS[:1] / 255},
            "test_x must be of the kind of train_x, uint8, got float32; give both as pixels",
        ),
        ({"std": None}, "mean and std belong together, got no std; give both"),
        ({"mean": None}, "mean and std belong together, got no mean; give both"),
        ({"mean": (0.5,)}, "mean must be one number for each of the 3 channels, got 1"),
        ({"std": [0.1, 0.2, 0.3, 0.4]}, "std must be one number for each of the 3 channels, got 4"),
        ({"mean": (0.5, 0.5, np.nan)}, "mean must be finite, got nan"),
        ({"std": (0.5, 0.0, 0.5)}, r"std must be positive, got 0\.0"),
        ({"std": (0.5, 0.5, np.inf)}, "std must be positive, got inf"),
        ({"train_x": PIXELS / 255, "test_x": PIXELS[:1] / 255}, r"mean and std are for pixels \(uint8\), got float32"),
    ],
)
def test_a_scale_that_does_not_fit_the_pixels_is_refused(changes, message):
    with pytest.raises(InvalidInput, match=f"^dataset small: {message}"):
        pixels(**changes)


def test_the_fingerprint_knows_the_kind_of_numbers_and_the_scale():
    bare = {"mean": None, "std": None}
    numbers = {"train_x": PIXELS.astype(np.float32), "test_x": PIXELS[:1].astype(np.float32)}
    other = pixels(std=(0.2, 0.3, 0.5))
    assert len({data.hash for data in (pixels(), pixels(**bare), pixels(**bare, **numbers), other)}) == 4


def test_the_fingerprint_is_of_the_values_and_not_of_the_name():
    assert small().hash == small(name="other").hash
    others = [
        small(train_x=np.ones((6, 2))),
        small(train_y=[0, 0, 1, 1, 1, 1]),
        small(test_x=[[2, 2]]),
        small(test_y=[0]),
        small(classes=3),
        small(owner=[0, 0, 0, 1, 1, 1]),
    ]
    assert len({data.hash for data in [small(), *others]}) == 7


def test_a_validation_set_by_hand():
    # a third of each class: one of the three zeros and one of the three ones; four examples are left to train on
    held = small(owner=[0, 0, 0, 1, 1, 1]).validation(share=1 / 3, seed=3)
    assert held.name == "small (validation)"
    assert held.train_y.tolist() == [0, 0, 1, 1]
    assert held.test_y.tolist() == [0, 1]
    assert held.owner.tolist() == [0, 0, 1, 1]
    assert sorted(np.concatenate([held.train_x, held.test_x])[:, 0].tolist()) == [0, 2, 4, 6, 8, 10]


def test_what_a_validation_set_is_judged_by_can_be_kept_out_alone():
    data = small(owner=[0, 0, 0, 1, 1, 1])
    held, kept = data.validation(1 / 3, seed=3), data.reduced(1 / 3, seed=3)
    assert np.array_equal(kept.train_x, held.train_x)
    assert np.array_equal(kept.test_x, data.test_x)
    assert kept.owner.tolist() == [0, 0, 1, 1]


def test_another_seed_holds_out_others():
    assert small().validation(0.5, seed=1).hash == small().validation(0.5, seed=1).hash
    assert len({small().validation(0.5, seed=seed).hash for seed in range(20)}) > 5


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.5, float("nan"), 0.01, 0.99])
def test_a_share_that_leaves_one_side_empty_is_refused(share):
    with pytest.raises(InvalidInput, match=f"share must leave examples on both sides, got {share} of 6 examples"):
        small().validation(share, seed=0)


def test_a_negative_seed_is_refused():
    with pytest.raises(InvalidInput, match="seed must be a whole number of at least 0, got -1"):
        small().validation(0.5, seed=-1)


@ANY
@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.floats(0, 1), st.none() | st.integers(0, 9))
def test_every_group_gives_up_the_same_share_to_within_one_example(group, share, seed):
    groups = np.array(group)
    held = held_out(groups, share, None if seed is None else np.random.default_rng(seed))
    assert held.sum() == round(share * groups.size)
    exact = round(share * groups.size) / groups.size
    for kind in set(group):
        size = (groups == kind).sum()
        assert abs(held[groups == kind].sum() - exact * size) < 1
