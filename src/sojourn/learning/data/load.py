"""Load datasets and problems from their text form, as used on the command line and in configuration files."""

from collections.abc import Callable

from sojourn.errors import InvalidInput
from sojourn.learning.data.dataset import Dataset
from sojourn.learning.data.digits import digits
from sojourn.learning.data.given import dataset_of
from sojourn.learning.data.images.load import KINDS, load_images
from sojourn.learning.data.images.source import Watch
from sojourn.learning.data.problem import Problem
from sojourn.learning.data.synthetic import logistic, quadratic
from sojourn.own_code import names_code, own_call
from sojourn.text import Options, parse_choice

_SIZES: Options = dict.fromkeys(("dimension", "clients", "examples", "seed"), int)
_OPTIONS: dict[str, Options] = {
    "digits": {"validation": float},
    "fashion-mnist": {"folder": str, "validation": float},
    "cifar10": {"folder": str, "validation": float},
    "tiny-imagenet": {"folder": str, "validation": float, "per_class": int},
    "quadratic": {**_SIZES, **dict.fromkeys(("largest", "condition", "heterogeneity", "noise"), float)},
    "logistic": {**_SIZES, **dict.fromkeys(("l2", "shift", "angle"), float)},
}
_PROBLEMS: dict[str, Callable[..., Problem]] = {"quadratic": quadratic, "logistic": logistic}


def load_dataset(text: str, watch: Watch | None = None) -> Dataset:
    """Return the dataset of a text: `digits`, `quadratic(dimension=10)`, `logistic(...)`, or `package.module:function`.

    The function is yours and returns a Dataset, or something from which `dataset_of` makes one; it may take arguments,
    `package.module:function(size=100)`. `digits(validation=0.2)` tests on a share of the training examples instead of
    the test set, for example to choose a step size. The images have the same option: `fashion-mnist`,
    `cifar10(folder=/some/where, validation=0.1)`, `tiny-imagenet(per_class=100)`; `watch` reports downloads and
    decoding (see `sojourn.learning.data.images.load`).

    >>> load_dataset("quadratic(dimension=3, clients=2, examples=5)").train_x.shape
    (10, 3)
    """
    if names_code(text):
        return _from_function(text.strip())
    name, options = parse_choice("dataset", text, _OPTIONS)
    if name in _PROBLEMS:
        return _PROBLEMS[name](**options).dataset
    share = options.pop("validation", None)
    data = load_images(name, **options, watch=watch) if name in KINDS else digits()
    return data if share is None else data.validation(share, seed=0)


def load_problem(text: str) -> Problem:
    """Return the problem of a text, `quadratic(...)` or `logistic(...)`, with its dataset and its known constants.

    >>> load_problem("quadratic(largest=4, condition=2, dimension=2)").smoothness
    4.0
    """
    name, options = parse_choice("problem", text, {name: _OPTIONS[name] for name in _PROBLEMS})
    return _PROBLEMS[name](**options)


def _from_function(text: str) -> Dataset:
    found = own_call("dataset", text)
    if isinstance(found, tuple) and len(found) == 4:  # train_x, train_y, test_x, test_y
        return dataset_of(found[:2], found[2:], name=text)
    try:
        return dataset_of(found, name=text)
    except InvalidInput as error:
        raise InvalidInput(f"dataset {text}: {error}") from None
