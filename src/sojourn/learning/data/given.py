"""Make a Dataset from pairs of arrays or from any map-style PyTorch dataset."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import InvalidInput
from sojourn.learning.data.dataset import Dataset, held_out
from sojourn.machine_memory import check_memory

TESTED = 0.2  # share of the examples that is held out for testing if no test examples are given
WAYS = "a Dataset, a pair of arrays (x, y), or a map-style PyTorch dataset of such pairs"


def dataset_of(
    given: Any,
    test: Any = None,
    *,
    name: str = "mine",
    classes: int | None = None,
    owner: ArrayLike | None = None,
) -> Dataset:
    """Make a Dataset from training examples `given` and test examples `test`.

    Each is a pair of arrays or tensors (x, y), or a map-style PyTorch dataset whose items are such pairs. Without
    `test` every fifth example of each class is held out. Labels that are whole numbers, one per example, count as
    classes; `classes=0` says that they are values. `owner` gives the client that each training example belongs to.

    >>> import numpy as np
    >>> data = dataset_of((np.arange(20.0).reshape(10, 2), np.arange(10) % 2))
    >>> data.train_x.shape, data.test_x.shape, data.classes
    ((8, 2), (2, 2), 2)
    """
    if isinstance(given, Dataset):
        if test is not None or owner is not None or classes is not None:
            raise InvalidInput("a Dataset holds its own test examples, classes and owners; leave these out")
        return given
    x, y = _pair("data", given)
    many = _classes(y) if classes is None else classes
    if classes == 0 and y.ndim == 1:
        y = y.astype(np.float32)  # values, although they are whole numbers
    kept: NDArray[Any] = np.ones(len(x), dtype=np.bool_)
    if test is None:
        group = y if many else np.zeros(len(x), dtype=np.int64)
        kept = ~held_out(np.asarray(group, dtype=np.int64), TESTED)
        test_x, test_y = x[~kept], y[~kept]
    else:
        test_x, test_y = _pair("test", test)
        many = max(many, _classes(test_y)) if classes is None and many else many
    owners = None if owner is None else np.asarray(owner)
    if owners is not None and owners.shape == (len(x),):
        owners = owners[kept]
    return Dataset(name, x[kept], y[kept], test_x, test_y, classes=many, owner=owners)


def _pair(what: str, given: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    if isinstance(given, tuple | list) and len(given) == 2:
        x, y = (_array(what, one) for one in given)
    elif hasattr(given, "__getitem__") and hasattr(given, "__len__") and not hasattr(given, "dtype"):
        x, y = _items(what, given)
    else:
        raise InvalidInput(f"{what} must be {WAYS}, got {type(given).__name__}")
    if x.ndim == 0 or y.ndim == 0 or len(x) != len(y):
        sizes = f"{len(x) if x.ndim else 'no'} examples and {len(y) if y.ndim else 'no'} labels"
        raise InvalidInput(f"{what} must have one label for each example, got {sizes}")
    return x, y


def _items(what: str, given: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Read all items of a map-style dataset into memory."""
    many = len(given)
    if many == 0:
        raise InvalidInput(f"{what} must hold at least one example, got none")
    first = given[0]
    if not (isinstance(first, tuple | list) and len(first) == 2):
        raise InvalidInput(f"an item of {what} must be a pair of an example and its label, got {type(first).__name__}")
    example, label = (_array(what, one) for one in first)
    check_memory(many * (example.nbytes + label.nbytes), f"{what} of {many:,} examples", "take fewer")
    xs = np.empty((many, *example.shape), example.dtype)
    ys = np.empty((many, *label.shape), label.dtype)
    for row in range(many):
        x, y = given[row]
        x, y = _array(what, x), _array(what, y)
        if x.shape != example.shape or y.shape != label.shape:
            shapes = f"{x.shape} with {y.shape}, the first has {example.shape} with {label.shape}"
            raise InvalidInput(
                f"items of {what} must all have the same shape, number {row} has {shapes}; pad or cut them"
            )
        xs, ys = _wide_enough(xs, x), _wide_enough(ys, y)
        xs[row], ys[row] = x, y
    return xs, ys


def _wide_enough(rows: NDArray[Any], one: NDArray[Any]) -> NDArray[Any]:
    """Return rows of a dtype that can also hold this item: a 0 may come before a 0.5."""
    return rows if rows.dtype == one.dtype else rows.astype(np.result_type(rows, one))


def _array(what: str, value: Any) -> NDArray[Any]:
    """Return tensors, images and lists as arrays; the channels of a PIL image are moved to the front."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    picture = hasattr(value, "getbands")
    array = np.asarray(value)
    if array.dtype == object:
        raise InvalidInput(f"{what} must hold numbers in rows of one length, got others; pad or cut them")
    if not picture:
        return array
    return array[None] if array.ndim == 2 else np.moveaxis(array, -1, 0)


def _classes(labels: NDArray[Any]) -> int:
    """Return the number of classes in the labels; 0 if they are values."""
    if labels.ndim != 1 or labels.dtype.kind not in "iub" or labels.size == 0:
        return 0
    if labels.min() < 0:
        raise InvalidInput(
            f"labels that are whole numbers are classes, numbered from 0, got {labels.min()}; number them from 0, "
            "or give classes=0 (Dataset.of) if they are values"
        )
    return int(labels.max()) + 1
