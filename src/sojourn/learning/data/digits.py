"""The 1,797 handwritten digits that come with scikit-learn: real data, small enough to learn in seconds."""

import numpy as np

from sojourn.errors import SojournError
from sojourn.learning.data.dataset import Dataset, held_out

TEST_SHARE = 0.2


def digits() -> Dataset:
    """Images of shape (1, 8, 8), ten classes; a fifth of each class is the test set, the same one for every seed.

    Pixels are scaled to [0, 1], then to mean zero and variance one over all pixels of the training set.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise SojournError(
            "dataset digits needs scikit-learn, which is not installed; pip install 'sojourn[train]'"
        ) from None
    pixels, labels = load_digits(return_X_y=True)
    x, y = (pixels / 16.0).reshape(-1, 1, 8, 8), labels.astype(np.int64)
    test = held_out(y, TEST_SHARE)
    # sixteenths add up without rounding, so these two, and the hash, are the same on every machine
    mean, square = x[~test].mean(), np.square(x[~test]).mean()
    scaled = ((x - mean) / np.sqrt(square - mean**2)).astype(np.float32)
    return Dataset("digits", scaled[~test], y[~test], scaled[test], y[test], classes=10)
