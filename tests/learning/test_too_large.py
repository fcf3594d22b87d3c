"""What would fill the memory is refused in a sentence that says what it needs and what there is."""

import pytest

from sojourn import InvalidInput
from sojourn import machine_memory as room
from sojourn.experiments.training import open_run
from sojourn.learning.data.load import load_dataset
from sojourn.learning.models.load import load_model
from sojourn.learning.run.config import TrainConfig

SMALL = {"data": "quadratic(dimension=3, clients=6, examples=5)", "partition": "natural", "model": "problem"}


@pytest.fixture
def fleet(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nfast,3,4\nslow,3,1\n")
    return str(path)


def test_a_run_of_a_million_million_steps_is_refused_before_it_begins(fleet, tmp_path):
    message = r"a run of 1000000000000 steps needs about 600,000 GB of memory, .* are free; give fewer steps"
    with pytest.raises(InvalidInput, match=message):
        open_run(TrainConfig(fleet, steps=10**12, **SMALL), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_by_time_is_refused_once_it_does_not_fit(fleet, tmp_path, monkeypatch):
    monkeypatch.setattr(room, "available", lambda: 1e8)
    message = r"a run until time 10+\.0 needs about .* of memory, 0\.1 GB are free; give it less time"
    with pytest.raises(InvalidInput, match=message):
        open_run(TrainConfig(fleet, time=1e9, **SMALL), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mlp(hidden=1000000000, layers=2)", r"needs about 16,00.,...,... GB of memory, .* are free; make it smaller"),
        ("cnn(channels=1000000000)", r"needs about .* GB of memory, .* are free; make it smaller"),
        ("mlp(hidden=1000000000000)", "hidden must be at most 1,000,000,000, got 1000000000000"),
        ("mlp(layers=1000000000)", "layers must be at most 1,000, got 1000000000"),
        ("resnet18(width=9999999999999999999999)", "width must be at most 1,000,000,000, got 9999999999999999999999"),
        ("mlp(hidden=1e12)", "hidden must be a whole number, got '1e12'"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(text, message):
    with pytest.raises(InvalidInput, match=message):
        load_model(text, load_dataset("digits"), "digits", seed=0)


@pytest.mark.parametrize(
    "text",
    [
        *("quadratic(dimension=1000000000, clients=1000)", "logistic(dimension=10000000)"),
        *("quadratic(examples=1000000000000)", "logistic(clients=1000000000000000)"),
    ],
)
def test_a_dataset_that_does_not_fit_is_refused(text):
    with pytest.raises(InvalidInput, match=r"needs about .* GB of memory, .* are free; lower its dimension, clients"):
        load_dataset(text)


@pytest.mark.parametrize("key", ["seed", "steps", "concurrency", "batch_size", "evaluate_every"])
def test_a_setting_beyond_64_bits_is_refused(fleet, key):
    for value in (2**63, 10**400):
        with pytest.raises(InvalidInput, match=f"{key} must be at most 2\\^63 - 1 in size"):
            TrainConfig(fleet, **{key: value})


def test_what_there_is_is_what_the_machine_and_its_limits_leave(monkeypatch):
    monkeypatch.setattr(room, "_of_machine", lambda: 8e9)
    monkeypatch.setattr(room, "_of_group", lambda: 2e9)
    assert room.available() == 2e9
    room.check_memory(1e9, "it", "make it smaller")
    with pytest.raises(InvalidInput, match="it needs about 3 GB of memory, 2 GB are free; make it smaller"):
        room.check_memory(3e9, "it", "make it smaller")


def test_the_limit_of_a_control_group_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "_GROUP", tmp_path)
    assert room._of_group() == float("inf")
    for name, text in {"max": "1000\n", "current": "700\n", "stat": "anon 1\ninactive_file 200\n"}.items():
        (tmp_path / f"memory.{name}").write_text(text)
    assert room._of_group() == 500
    (tmp_path / "memory.max").write_text("max\n")
    assert room._of_group() == float("inf")
