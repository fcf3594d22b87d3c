"""The user's own model and data: integers, losses, metrics, owners, partitions, and what goes wrong in their code."""

import json
import math

import numpy as np
import pytest
import torch
from torch import nn

from sojourn import Fleet, InvalidInput
from sojourn.experiments.training import open_run
from sojourn.learning.data.dataset import Dataset
from sojourn.learning.data.given import dataset_of
from sojourn.learning.run.config import TrainConfig
from sojourn.learning.run.metrics import read_metrics

HERE = __name__
WORDS = 7


def text(owners: bool = True):
    """Sequences in which the next word is the word after it, mostly."""
    rng = np.random.default_rng(1)
    first = rng.integers(WORDS, size=(90, 1))
    lines = (first + np.arange(9) + (rng.random((90, 9)) < 0.1)) % WORDS
    owner = np.arange(90) % 6
    return Dataset(
        "text", lines[:60, :-1], lines[:60, 1:], lines[60:, :-1], lines[60:, 1:], owner=owner[:60] if owners else None
    )


class Words(nn.Module):
    """An embedding, which takes nothing but integers."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.lookup, self.out = nn.Embedding(WORDS, width), nn.Linear(width, WORDS)

    def forward(self, x):
        return self.out(self.lookup(x))


def line():
    """A line with two slopes, as a pair of arrays."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((200, 2))
    return x, x @ [1.0, -2.0] + 0.5


def tags():
    """Three labels, each yes or no."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((200, 3))
    return x, (x > 0).astype(np.float32)


def linear(dataset, outputs: int = 1):
    return nn.Linear(dataset.train_x.shape[1], outputs)


def absolute(output, y):
    return (output.squeeze(-1) - y).abs().mean()


def within(output, y):
    """One number for each example."""
    return (output.squeeze(-1) - y).abs() < 0.5


def three_numbers(output, y):
    return torch.zeros(3)


def nothing(output, y):
    """A metric that forgot to return."""


def first_gets_most(labels, clients, rng, most: int = 100):
    owner = rng.integers(clients, size=len(labels))
    owner[:most] = 0
    return owner


def shapeless(labels, clients, rng):
    return np.zeros(3)


class Fails(nn.Module):
    """Raises in training, not in evaluation."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def forward(self, x):
        if self.training:
            raise IndexError("no such thing")
        return self.layer(x)


@pytest.fixture
def fleet(tmp_path):
    Fleet.of(fast=(3, 4.0), slow=(3, 1.0)).save(tmp_path / "fleet.csv")
    return str(tmp_path / "fleet.csv")


def trained(fleet, folder, **words):
    run = open_run(TrainConfig(fleet, steps=words.pop("steps", 150), batch_size=8, **words), folder)
    run.go()
    return run, read_metrics(folder)


def test_an_embedding_trains_on_integers_and_is_judged_by_perplexity(fleet, tmp_path):
    run, rows = trained(fleet, tmp_path / "run", data=f"{HERE}:text", model=f"{HERE}:Words(width=6)", step_size=2.0)
    assert run.built.federation.examples.x.dtype == torch.int64
    assert rows[0]["perplexity"] == pytest.approx(WORDS, rel=0.3)
    assert rows[-1]["perplexity"] < 0.5 * rows[0]["perplexity"]
    assert rows[-1]["perplexity"] == pytest.approx(math.exp(rows[-1]["test_loss"]), rel=1e-5)
    assert rows[-1]["token_accuracy"] > 0.8
    assert run.built.config.loss == "cross-entropy"


def test_a_line_is_fitted_by_squared_error(fleet, tmp_path):
    run, rows = trained(fleet, tmp_path / "run", data=f"{HERE}:line", model=f"{HERE}:linear", step_size=0.05)
    assert run.built.config.loss == "mse"
    assert rows[-1]["rmse"] == pytest.approx(math.sqrt(rows[-1]["test_loss"]), rel=1e-5)
    assert rows[-1]["rmse"] < 0.1 < rows[0]["rmse"]
    assert math.isnan(rows[-1]["accuracy"])


def test_loss_and_metrics_of_your_own(fleet, tmp_path):
    words = {"data": f"{HERE}:line", "model": f"{HERE}:linear", "loss": f"{HERE}:absolute", "step_size": 0.05}
    _, rows = trained(fleet, tmp_path / "run", metrics=f"mae, {HERE}:within", **words)
    assert rows[-1]["mae"] == pytest.approx(rows[-1]["test_loss"], rel=1e-5)
    assert rows[0]["within"] < rows[-1]["within"] <= 1
    assert "rmse" not in rows[0]


def test_several_labels_are_learnt_by_binary_cross_entropy(fleet, tmp_path):
    words = {"data": f"{HERE}:tags", "model": f"{HERE}:linear(outputs=3)", "loss": "binary-cross-entropy"}
    _, rows = trained(fleet, tmp_path / "run", step_size=1.0, **words)
    assert rows[-1]["label_accuracy"] > 0.9


def test_examples_with_owners_are_dealt_to_them_unless_told_otherwise(fleet, tmp_path):
    words = {"data": f"{HERE}:text", "model": f"{HERE}:Words", "steps": 5}
    run, _ = trained(fleet, tmp_path / "own", **words)
    owner = run.built.federation.dataset.owner
    assert run.built.config.partition == "natural"
    assert all((owner[run.built.federation.partition.of(client)] == client).all() for client in range(6))
    assert run.built.unused == []
    told, _ = trained(fleet, tmp_path / "iid", partition="iid", **words)
    assert told.built.unused == ["owners"]
    nobody, _ = trained(fleet, tmp_path / "none", **(words | {"data": f"{HERE}:text(owners=false)"}))
    assert (nobody.built.config.partition, nobody.built.unused) == ("iid", [])


def test_a_partition_of_your_own_is_called_with_its_arguments(fleet, tmp_path):
    words = {"data": f"{HERE}:line", "model": f"{HERE}:linear", "steps": 5}
    run, _ = trained(fleet, tmp_path / "run", partition=f"{HERE}:first_gets_most(most=90)", **words)
    sizes = run.built.federation.partition.sizes
    assert sizes[0] >= 90 > sizes[1:].max()
    with pytest.raises(InvalidInput, match=r"must return a client number for each of the 160 examples"):
        trained(fleet, tmp_path / "bad", partition=f"{HERE}:shapeless", **words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"loss": "hinge"}, "loss must be one of cross-entropy, mse, binary-cross-entropy, or package.module:function"),
        ({"loss": "own"}, "loss own needs a model with a method loss"),
        ({"metrics": "f1"}, "metric must be one of mse, rmse, .*, got 'f1'"),
        ({"metrics": "mae, mae"}, "metrics must have different names, got mae, mae"),
        ({"metrics": f"{HERE}:three_numbers"}, r"metric three_numbers must return one number, or one for each"),
        ({"metrics": f"{HERE}:nothing"}, "metric nothing must return a number, got NoneType"),
        ({"loss": f"{HERE}:within"}, "loss .*:within must return one number as a tensor, got a tensor of shape"),
        ({"model": f"{HERE}:linear(outputs=2)"}, r"output must have the shape of the labels, \(\d+,\), got \(\d+, 2\)"),
        ({"model": "mlp"}, "model mlp classifies, dataset .* has no classes; use a model of your own"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence_and_leaves_no_folder(fleet, tmp_path, words, said):
    given = {"data": f"{HERE}:line", "model": f"{HERE}:linear", **words}
    with pytest.raises(InvalidInput, match=said):
        trained(fleet, tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()


def test_an_error_in_the_users_model_leaves_the_folder_free_for_the_next_try(fleet, tmp_path):
    with pytest.raises(IndexError, match="no such thing"):
        trained(fleet, tmp_path / "run", data=f"{HERE}:line", model=f"{HERE}:Fails")
    assert not (tmp_path / "run").exists()
    trained(fleet, tmp_path / "run", data=f"{HERE}:line", model=f"{HERE}:linear", steps=5)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["complete"]


class Items(torch.utils.data.Dataset):
    """A map-style dataset of tensors."""

    def __init__(self, many, classes=3):
        self.many, self.classes = many, classes

    def __len__(self):
        return self.many

    def __getitem__(self, row):
        return torch.full((2, 2), float(row)), row % self.classes


def test_a_map_style_dataset_of_pytorch_becomes_a_dataset():
    data = dataset_of(Items(30), Items(6))
    assert (data.train_x.shape, data.test_x.shape, data.classes) == ((30, 2, 2), (6, 2, 2), 3)
    assert data.train_x[4, 0, 0] == 4
    assert dataset_of(Items(30)).test_x.shape == (6, 2, 2)


def test_pairs_of_arrays_tensors_and_lists_become_a_dataset():
    x = torch.arange(10.0).reshape(5, 2)
    for labels in ([0, 1, 0, 1, 1], torch.tensor([0, 1, 0, 1, 1]), np.array([0, 1, 0, 1, 1])):
        data = dataset_of((x, labels), (x, labels))
        assert (data.classes, data.train_y.tolist()) == (2, [0, 1, 0, 1, 1])
    assert dataset_of((x, [0, 1, 0, 1, 1]), (x, [0, 1, 0, 1, 1]), classes=0).classes == 0
    assert dataset_of((x, [0.5, 1, 0, 1, 1]), (x, [0, 1, 0, 1, 1])).train_y.dtype == np.float32
    dealt = dataset_of((x, [0, 1, 0, 1, 1]), (x, [0, 1, 0, 1, 1]), owner=[0, 1, 2, 0, 1])
    assert dealt.owner.tolist() == [0, 1, 2, 0, 1]


def test_a_label_that_is_whole_does_not_round_those_after_it():
    items = [(np.zeros(2, dtype=np.int64), 0), *((np.full(2, 0.5), 0.5) for _ in range(9))]
    data = dataset_of(items, classes=0)
    assert sorted(set(data.train_y.tolist())) == [0.0, 0.5]
    assert sorted(set(data.train_x.ravel().tolist())) == [0.0, 0.5]


def test_whole_numbers_that_are_values_are_no_classes():
    x = np.arange(80.0).reshape(40, 2)
    assert dataset_of((x, np.arange(40) - 20), classes=0).train_y.dtype == np.float32
    assert dataset_of((x, np.arange(40) - 20), (x[:4], [-1, 0, 1, 2]), classes=0).test_y.dtype == np.float32
    assert dataset_of((x, np.arange(40) > 20)).classes == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (7, "data must be a Dataset, a pair of arrays .*, got int"),
        ((np.zeros((3, 2)), np.zeros(4)), "data must have one label for each example, got 3 examples and 4 labels"),
        ([], "data must hold at least one example, got none"),
        ([1, 2, 3], "an item of data must be a pair of an example and its label, got int"),
        ((["a", "b"], [0, 1]), "train_x must hold numbers"),
        (
            [(np.zeros(2), 0), (np.zeros(3), 0), (np.zeros(3), 1)],
            "items of data must all have the same shape, number 1 has",
        ),
        ((np.zeros((4, 2)), [-1, 1, -1, 1]), "classes, numbered from 0, got -1; number them from 0, or give classes=0"),
    ],
)
def test_what_is_no_data_is_refused(given, said):
    with pytest.raises(InvalidInput, match=said):
        dataset_of(given)
