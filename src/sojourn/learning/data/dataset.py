"""Dataset: training and test examples as arrays."""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import InvalidInput
from sojourn.frozen import read_only
from sojourn.types import Integers

HOLD_OUT, PARTITION, POINTS = range(3)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test examples with their labels; the arrays are checked once and read-only from then on.

    `Dataset.of((x, y))` makes one from arrays or from a PyTorch dataset.

    >>> data = Dataset("pairs", [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], [[1.5]], [1], classes=2)
    >>> data.train_x.dtype, data.train_y.dtype
    (dtype('float32'), dtype('int64'))
    >>> half = data.validation(share=0.5, seed=0)
    >>> half.train_y, half.test_y
    (array([0, 1]), array([0, 1]))
    """

    name: str
    """Its name in messages and reports."""
    train_x: NDArray[Any]
    """Training examples, one row each, of any shape: float32, uint8 for pixels, or int64 for integers."""
    train_y: NDArray[Any]
    """Their labels: int64 class numbers; without classes float32, or int64 for integers."""
    test_x: NDArray[Any]
    """Test examples, of the same kind."""
    test_y: NDArray[Any]
    """Their labels."""
    classes: int = 0
    """Number of classes; 0 = no classes."""
    owner: Integers | None = None
    """The client that each example of train_x belongs to; None = the examples have no owners."""
    mean: tuple[float, ...] | None = None
    """One number per channel, in units of pixel/255: a model sees (pixel/255 - mean)/std; None =
    pixels are not scaled.
    """
    std: tuple[float, ...] | None = None
    """One number per channel, as for the mean."""

    @classmethod
    def of(cls, given: Any, test: Any = None, **facts: Any) -> "Dataset":
        """Make a Dataset from a pair of arrays (x, y) or from any map-style PyTorch dataset.

        `test` holds the test examples in the same form; without it every fifth example of each class is held out.
        `facts` are `name`, `classes` (0 if labels are values) and `owner`: see
        `sojourn.learning.data.given.dataset_of`.
        """
        from sojourn.learning.data.given import dataset_of

        return dataset_of(given, test, **facts)

    def __post_init__(self) -> None:
        if self.classes < 0:
            raise InvalidInput(f"dataset {self.name}: classes must be at least 0 (no classes), got {self.classes}")
        for part in ("train", "test"):
            x = _examples(self.name, f"{part}_x", getattr(self, f"{part}_x"))
            y = self._labels(f"{part}_y", getattr(self, f"{part}_y"))
            if x.ndim == 0 or len(x) == 0:
                raise InvalidInput(f"dataset {self.name}: {part}_x must hold at least one example, got none")
            if y.ndim == 0 or len(y) != len(x):
                raise InvalidInput(
                    f"dataset {self.name}: {part}_y must have one label for each of the {len(x)} examples, got {y.size}"
                )
            object.__setattr__(self, f"{part}_x", read_only(x))
            object.__setattr__(self, f"{part}_y", read_only(y))
        for key in ("x", "y"):
            self._same_numbers(key)
        if self.train_x.shape[1:] != self.test_x.shape[1:]:
            raise InvalidInput(
                f"dataset {self.name}: an example of test_x must have the shape of one of train_x, "
                f"{self.train_x.shape[1:]}, got {self.test_x.shape[1:]}"
            )
        if self.train_x.dtype != self.test_x.dtype:
            raise InvalidInput(
                f"dataset {self.name}: test_x must be of the kind of train_x, {self.train_x.dtype}, "
                f"got {self.test_x.dtype}; give both as pixels (uint8), both as integers or both as numbers"
            )
        if self.train_y.shape[1:] != self.test_y.shape[1:] or self.train_y.dtype != self.test_y.dtype:
            kinds = [f"{one.dtype} of shape {one.shape[1:]}" for one in (self.train_y, self.test_y)]
            raise InvalidInput(
                f"dataset {self.name}: a label of test_y must be like one of train_y, {kinds[0]}, got {kinds[1]}"
            )
        if self.owner is not None:
            object.__setattr__(self, "owner", self._owners(self.owner))
        if self.mean is not None or self.std is not None:
            self._check_scale()

    def _same_numbers(self, key: str) -> None:
        """If one part holds integers and the other floats, turn both into floats."""
        names = (f"train_{key}", f"test_{key}")
        if {getattr(self, name).dtype for name in names} == {np.dtype(np.int64), np.dtype(np.float32)}:
            for name in names:
                object.__setattr__(self, name, read_only(_finite(self.name, name, getattr(self, name))))

    def _labels(self, key: str, given: ArrayLike) -> NDArray[Any]:
        if self.classes == 0:
            return _numbers(self.name, key, given)
        values = np.asarray(given)
        if values.ndim > 1:
            raise InvalidInput(f"dataset {self.name}: {key} must hold one class number per example, got {values.shape}")
        wrong = ~np.isin(values, np.arange(self.classes))
        if wrong.any():
            raise InvalidInput(
                f"dataset {self.name}: {key} must hold class numbers from 0 to {self.classes - 1}, "
                f"got {values[wrong][0]}"
            )
        return values.astype(np.int64, copy=False)

    def _owners(self, given: ArrayLike) -> Integers:
        values = np.asarray(given)
        if values.shape != (len(self.train_x),):
            raise InvalidInput(
                f"dataset {self.name}: owner must name a client for each of the {len(self.train_x)} training examples, "
                f"got {values.size}"
            )
        if values.dtype.kind not in "iu" or values.min() < 0:
            raise InvalidInput(
                f"dataset {self.name}: owner must hold whole numbers of at least 0, got {values.min()} ({values.dtype})"
            )
        return read_only(values.astype(np.int64, copy=False))

    def _check_scale(self) -> None:
        if self.mean is None or self.std is None:
            missing = "mean" if self.mean is None else "std"
            raise InvalidInput(f"dataset {self.name}: mean and std belong together, got no {missing}; give both")
        if self.train_x.dtype != np.uint8:
            raise InvalidInput(
                f"dataset {self.name}: mean and std are for pixels (uint8), got {self.train_x.dtype}; "
                "scale the examples before and leave both out"
            )
        channels = self.train_x.shape[1] if self.train_x.ndim > 1 else 1
        for key in ("mean", "std"):
            values = np.asarray(getattr(self, key), dtype=np.float64)
            if values.shape != (channels,):
                raise InvalidInput(
                    f"dataset {self.name}: {key} must be one number for each of the {channels} channels, "
                    f"got {values.size}"
                )
            bad = ~np.isfinite(values) if key == "mean" else ~(np.isfinite(values) & (values > 0))
            if bad.any():
                rule = "finite" if key == "mean" else "positive"
                raise InvalidInput(f"dataset {self.name}: {key} must be {rule}, got {values[bad][0]}")
            object.__setattr__(self, key, tuple(values.tolist()))

    @cached_property
    def hash(self) -> str:
        """Fingerprint of the arrays, their kind, and how they are scaled; the name does not count."""
        digest = hashlib.sha256(str(self.classes).encode())
        if self.mean is not None:
            digest.update(f"{self.mean}{self.std}".encode())
        for array in (self.train_x, self.train_y, self.test_x, self.test_y, self.owner):
            if array is not None:
                digest.update(f"{array.dtype.str}{array.shape}".encode())
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:16]

    def validation(self, share: float, seed: int) -> "Dataset":
        """Return a Dataset whose test set is a share of the training examples, taken evenly from
        each class and owner.
        """
        held = self._held(share, seed)
        kept = self.reduced(share, seed)
        return replace(kept, name=f"{self.name} (validation)", test_x=self.train_x[held], test_y=self.train_y[held])

    def reduced(self, share: float, seed: int) -> "Dataset":
        """Return a Dataset without the training examples that `validation` holds out, and with the same test set."""
        held = self._held(share, seed)
        return replace(
            self,
            name=f"{self.name} (without holdout)",
            train_x=self.train_x[~held],
            train_y=self.train_y[~held],
            owner=None if self.owner is None else self.owner[~held],
        )

    def _held(self, share: float, seed: int) -> NDArray[np.bool_]:
        """Return which examples to hold out."""
        examples = len(self.train_x)
        if not 0 < share < 1 or not 0 < round(share * examples) < examples:
            raise InvalidInput(
                f"dataset {self.name}: share must leave examples on both sides, got {share} of {examples} examples"
            )
        group = self.train_y if self.classes else np.zeros(examples, dtype=np.int64)
        if self.owner is not None:
            group = self.owner * max(1, self.classes) + group
        return held_out(group, share, generator(seed, HOLD_OUT))


def held_out(group: Integers, share: float, rng: np.random.Generator | None = None) -> NDArray[np.bool_]:
    """Mark a share of the examples, evenly through every group (to within one example).

    With a generator they are drawn at random; without one they are taken at even distances in every group.

    >>> held_out(np.array([0, 0, 0, 0, 1, 1]), share=0.5)
    array([False,  True, False,  True, False,  True])
    """
    examples = group.size
    shuffled = np.arange(examples) if rng is None else rng.permutation(examples)
    order = shuffled[np.argsort(group[shuffled], kind="stable")]
    count, rank = round(share * examples), np.arange(examples)
    held = np.zeros(examples, dtype=np.bool_)
    held[order] = (rank + 1) * count // examples > rank * count // examples
    return held


def _examples(name: str, key: str, given: ArrayLike) -> NDArray[Any]:
    """Return examples as an array; pixels stay as they are."""
    values = np.asarray(given)
    return values if values.dtype == np.uint8 else _numbers(name, key, values)


def _numbers(name: str, key: str, given: ArrayLike) -> NDArray[Any]:
    """Return numbers as an array; integers stay integers, everything else becomes float32."""
    values = np.asarray(given)
    if values.dtype.kind not in "iu":
        return _finite(name, key, values)
    if values.dtype == np.uint64 and values.size and int(values.max()) >= 2**63:
        raise InvalidInput(f"dataset {name}: {key} must be at most 2^63 - 1, got {values.max()}")
    return values.astype(np.int64, copy=False)


def _finite(name: str, key: str, given: ArrayLike) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # a value too large becomes inf and is refused below
        try:
            values = np.asarray(given, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"dataset {name}: {key} must hold numbers ({error}); turn them into numbers") from None
    bad = ~np.isfinite(values)
    if bad.any():
        raise InvalidInput(f"dataset {name}: {key} must be finite, got {values[bad][0]}; clean the data first")
    return values


def generator(seed: int, purpose: int) -> np.random.Generator:
    """Return the generator of a seed for one purpose; its key has two parts, unlike those of simulated replications."""
    if seed < 0:
        raise InvalidInput(f"seed must be a whole number of at least 0, got {seed}")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose, 0)))
