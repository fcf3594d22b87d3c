"""Callbacks by name: what the command line and files take, and what they refuse."""

import pytest

from sojourn.callbacks import CALLBACKS, Callback, EarlyStop, callback, callbacks
from sojourn.errors import InvalidInput


def test_a_callback_has_options_in_brackets():
    made = callback("checkpoints(every=1000, most=2)")
    assert (made.every, made.most) == (1000, 2)
    assert callback("mlflow(uri=sqlite:///runs.db, experiment=first)").uri == "sqlite:///runs.db"
    assert {type(callback(one)).name for one in ("tensorboard", "mlflow", "wandb(mode=offline)")} < set(CALLBACKS)


@pytest.mark.parametrize(
    ("text", "metric", "target", "direction"),
    [
        ("early-stop(accuracy>=0.9)", "accuracy", 0.9, "up"),
        ("early-stop(test_loss <= 1e-3)", "test_loss", 1e-3, "down"),
        ("early-stop(metric=client_worst, target=0.5)", "client_worst", 0.5, "up"),
        ("early-stop(test_loss>=3)", "test_loss", 3.0, "up"),
        ("early-stop(metric=mine, target=-2, direction=down)", "mine", -2.0, "down"),
    ],
)
def test_a_target_may_be_written_as_it_is_said(text, metric, target, direction):
    made = callback(text)
    assert (made.metric, made.target, made.direction) == (metric, target, direction)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("early-stop(accuracy>=high)", "target must be a number, got 'high'"),
        ("early-stop", "needs metric"),
        ("early-stop(metric=accuracy)", "needs a target or a patience, got neither"),
        ("early-stop(metric=accuracy, patience=0)", "patience must be at least 1, got 0"),
        ("early-stop(metric=mine, target=1)", "needs a direction for the metric 'mine'"),
        ("early-stop(metric=mine, target=1, direction=sideways)", "direction must be up or down, got 'sideways'"),
        ("early-stop(metric=accuracy, target=nan)", "target must be finite, got nan"),
        ("checkpoints", "callback checkpoints needs every"),
        ("checkpoints(every=0)", "every must be at least 1, got 0"),
        ("checkpoints(every=ten)", "every must be a whole number, got 'ten'"),
        ("checkpoints(evry=5)", "options are every, most, got 'evry=5'"),
        ("wandb(mode=loud)", "mode must be one of offline, online"),
        ("tensorbord", "did you mean tensorboard"),
        ("callbacks.own_callbacks:None_such", "has no function 'None_such'"),
        ("fractions:Fraction", "must define check, begin, evaluated, updated, end, name, every; inherit from"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(text, said):
    with pytest.raises(InvalidInput, match=said):
        callback(text)


def test_a_callback_of_ones_own_is_named_by_its_place():
    made = callback("callbacks.own_callbacks:Noted(every=3)")
    assert (made.name, made.every) == ("noted", 3)


def test_texts_and_objects_may_be_mixed_and_a_class_or_a_single_one_is_refused():
    assert [one.name for one in callbacks(["tensorboard", EarlyStop("accuracy", 0.5)])] == ["tensorboard", "early-stop"]
    with pytest.raises(InvalidInput, match="must be an object, got the class Callback"):
        callbacks([Callback])
    with pytest.raises(InvalidInput, match="callbacks must be a list, got 'mlflow'; put it in brackets"):
        callbacks("mlflow")
    bad = Callback()
    bad.every = 0
    with pytest.raises(InvalidInput, match="every must be a whole number of at least 1, or None, got 0"):
        callbacks([bad])


def rows(*values):
    return [{"received": 10 * number, "test_loss": value} for number, value in enumerate(values)]


def stopped_at(stop, *values):
    """The row at which an early stop ends a run; None = it does not."""
    found = [stop.evaluated(row, dict) for row in rows(*values)]
    return next((number for number, reason in enumerate(found) if reason), None)


def test_patience_counts_evaluations_without_improvement():
    assert stopped_at(EarlyStop("test_loss", patience=2), 3.0, 2.0, 2.1, 1.9, 1.9, 2.0, 0.0) == 5
    assert stopped_at(EarlyStop("test_loss", patience=2), 3.0, 2.0, 1.0, 0.5) is None
    assert stopped_at(EarlyStop("test_loss", patience=2, least=0.5), 3.0, 2.0, 1.9, 1.8, 1.7) == 3
    assert stopped_at(EarlyStop("test_loss", patience=2), 3.0, float("nan"), float("nan")) == 2


def test_a_resumed_early_stop_remembers_what_was_before():
    class Facts:
        rows = rows(3.0, 2.0, 2.1)

    stop = EarlyStop("test_loss", patience=2)
    assert stop.begin(Facts) is None
    assert "has not improved on 2 in 2 evaluations" in stop.evaluated({"received": 30, "test_loss": 2.5}, dict)
    assert "has reached the target" in EarlyStop("test_loss", 2.0).begin(Facts)
