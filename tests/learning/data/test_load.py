"""Datasets and problems by name, and a user's own by module and function."""

import numpy as np
import pytest

from sojourn import InvalidInput
from sojourn.learning.data.load import load_dataset, load_problem
from sojourn.learning.data.synthetic import Logistic, Quadratic

MODULE = """
import numpy as np
from sojourn.learning.data.dataset import Dataset

def line():
    return Dataset("line", np.arange(3.0)[:, None], [0.0, 1.0, 2.0], [[1.5]], [1.5])

def nothing():
    return [1, 2]

number = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "my_sojourn_data.py").write_text(MODULE)
    (tmp_path / "my_broken_data.py").write_text("raise RuntimeError('no network')")
    monkeypatch.syspath_prepend(tmp_path)


def test_options_in_the_text_reach_the_problem():
    text = "dimension=3, clients=2, examples=8, seed=5"
    quadratic = load_problem(f"quadratic({text}, largest=4, condition=2, heterogeneity=0, noise=0.5)")
    assert isinstance(quadratic, Quadratic)
    assert quadratic.curvature == pytest.approx([4, 4 / np.sqrt(2), 2])
    assert quadratic.partition.sizes.tolist() == [8, 8]
    logistic = load_problem(f"logistic({text}, l2=0.5, shift=2, angle=1)")
    assert isinstance(logistic, Logistic)
    assert (logistic.l2, logistic.dimension) == (0.5, 3)


def test_the_dataset_of_a_problem_is_the_one_of_its_text():
    for text in ("quadratic", "logistic(seed=3)"):
        assert load_dataset(text).hash == load_problem(text).dataset.hash


def test_a_dataset_of_your_own(module):
    data = load_dataset(" my_sojourn_data:line ")
    assert data.name == "line"
    assert data.train_y.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("digit", "dataset must be one of digits, fashion-mnist, cifar10, tiny-imagenet, quadratic, logistic, "
         "got 'digit'; did you mean digits?"),
        ("imagenet", "got 'imagenet'; did you mean tiny-imagenet?"),
        ("imagenet10", "got 'imagenet10'"),
        ("", "dataset must read like name or name(key=value, ...), got ''"),
        ("digits(seed=1)", "dataset digits: options are validation, got 'seed=1'"),
        ("quadratic(size=1)", "dataset quadratic: options are dimension, clients, examples, seed, largest, condition, "
         "heterogeneity, noise, got 'size=1'"),
        ("quadratic(dimension=2.5)", "dataset quadratic: dimension must be a whole number, got '2.5'"),
        ("quadratic(noise=loud)", "dataset quadratic: noise must be a number, got 'loud'"),
        ("quadratic(noise=1e300)", "dataset quadratic: train_x must be finite, got "),
        ("no_such_module:f", "dataset no_such_module:f: module 'no_such_module' cannot be imported "
         "(ModuleNotFoundError: No module named 'no_such_module'); put its folder on PYTHONPATH"),
        (":f", "dataset :f: module '' cannot be imported (ValueError: Empty module name)"),
        ("my_broken_data:f", "module 'my_broken_data' cannot be imported (RuntimeError: no network)"),
        ("my_sojourn_data:lines", "dataset my_sojourn_data:lines: module 'my_sojourn_data' has no function 'lines'; "
         "did you mean line?"),
        ("my_sojourn_data:number", "module 'my_sojourn_data' has no function 'number'"),
        ("my_sojourn_data:nothing", "my_sojourn_data:nothing: data must have one label for each example"),
    ],
)  # fmt: skip
def test_what_is_no_dataset_is_refused_in_one_sentence(module, text, message):
    with pytest.raises(InvalidInput) as caught:
        load_dataset(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_dataset_without_known_constants_is_no_problem():
    with pytest.raises(InvalidInput, match="problem must be one of quadratic, logistic, got 'digits'"):
        load_problem("digits")
