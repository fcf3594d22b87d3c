"""Callbacks of simulated training: told everything, unable to change anything but the end."""

import threading

import pytest
from safetensors.torch import load_file
from torch import equal

from callbacks.own_callbacks import Failing, Noted
from sojourn import Fleet, InvalidInput, train
from sojourn.callbacks import Checkpoints, EarlyStop
from sojourn.errors import SojournError
from sojourn.experiments.training import open_run
from sojourn.learning.run.config import TrainConfig, callbacks_in

FLEET = Fleet.of(fast=(3, 8.0), slow=(3, 2.0))
RUN = {"steps": 60, "evaluate_every": 20, "model": "logistic", "device": "cpu", "progress": False}
SAME = ("model.safetensors", "metrics.csv", "config.json", "summary.json", "trace.parquet")


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return train(FLEET, folder=tmp_path_factory.mktemp("plain") / "run", **RUN)


def same(one, other, names=SAME):
    return [name for name in names if (one / name).read_bytes() != (other / name).read_bytes()] == []


def shown(rows):
    """Rows in a form in which NaN equals itself."""
    return [{key: repr(float(value)) for key, value in row.items()} for row in rows]


def test_a_callback_is_told_of_every_evaluation_and_of_the_updates_it_asks_for(plain, tmp_path):
    noted = Noted(every=7)
    run = train(FLEET, folder=tmp_path / "run", callbacks=[noted], **RUN)
    assert [row["received"] for row in noted.rows] == [0, 20, 40, 60]
    assert shown(noted.rows) == shown(run.metrics)
    assert noted.updates == [7, 14, 21, 28, 35, 42, 49, 56]
    (begun,), (ended,) = noted.begun, noted.endings
    assert (begun.folder, begun.live, begun.resumed) == (tmp_path / "run", False, False)
    assert begun.config["steps"] == 60
    assert (ended.complete, ended.reason, ended.received) == (True, "", 60)
    assert same(run.folder, plain.folder)


def test_the_model_that_a_callback_gets_is_the_model_of_that_update(tmp_path):
    noted = Noted(every=20)
    train(FLEET, folder=tmp_path / "long", callbacks=[noted], **RUN)
    short = train(FLEET, folder=tmp_path / "short", **{**RUN, "steps": 40})
    found = load_file(short.folder / "model.safetensors")
    assert all(equal(noted.models[1][name], tensor) for name, tensor in found.items())
    assert noted.models[1].keys() == found.keys()


@pytest.mark.parametrize("method", ["begin", "evaluated", "updated", "end"])
def test_a_callback_that_fails_is_reported_once_and_the_run_is_the_same(plain, tmp_path, method):
    failing, noted = Failing(method), Noted()
    with pytest.warns(UserWarning, match=rf"callback failing-{method} failed in {method} \(OSError: no such") as said:
        run = train(FLEET, folder=tmp_path / "run", callbacks=[failing, noted], **RUN)
    assert len(said) == 1
    assert failing.calls == {"begin": 1, "evaluated": 4, "updated": 6, "end": 1}[method]
    assert len(noted.rows) == 4
    assert same(run.folder, plain.folder)


def test_a_run_that_is_ended_early_is_complete_and_says_why(tmp_path):
    run = train(FLEET, folder=tmp_path / "run", callbacks=[Noted(every=1, stop_at=13)], **RUN)
    assert run.complete
    assert run.stopped == "enough"
    assert [row["received"] for row in run.metrics] == [0, 13]
    short = train(FLEET, folder=tmp_path / "short", **{**RUN, "steps": 13})
    assert same(run.folder, short.folder, ("model.safetensors",))
    again = train(FLEET, folder=tmp_path / "run", resume=True, **RUN)  # nothing is left to do
    assert (again.complete, again.stopped, again.last["received"]) == (True, "enough", 13)


def test_a_run_that_reaches_its_target_ends_there(tmp_path):
    run = train(FLEET, folder=tmp_path / "run", callbacks=["early-stop(test_loss<=0.5)"], **{**RUN, "steps": 4000})
    assert run.last["test_loss"] <= 0.5 < run.metrics[-2]["test_loss"]
    assert run.stopped.startswith("test_loss 0.")
    assert run.stopped.endswith(f"has reached the target, 0.5, after {int(run.last['received'])} updates")


def test_an_interrupted_run_goes_on_with_its_callbacks_and_no_row_is_told_twice(plain, tmp_path):
    config = TrainConfig.of({"fleet": "object:fleet-" + FLEET.hash, **{k: RUN[k] for k in RUN if k != "progress"}}, "t")
    stop, first, second = threading.Event(), Noted(every=10), Noted(every=10)
    first.evaluated = lambda row, model: (first.rows.append(dict(row)), stop.set() if row["received"] else None)[1]
    from sojourn.learning.run.trainer import together

    together([open_run(config, tmp_path / "run", callbacks=[first])], stop=stop)
    (ended,) = first.endings
    assert (ended.complete, ended.reason, ended.received) == (False, "it was interrupted", 20)
    together([open_run(config, tmp_path / "run", resume=True, callbacks=[second])])
    assert [row["received"] for row in (*first.rows, *second.rows)] == [0, 20, 40, 60]
    assert (second.begun[0].received, second.begun[0].resumed) == (20, True)
    assert shown(second.begun[0].rows) == shown(first.rows)
    assert first.updates + second.updates == [10, 20, 30, 40, 50, 60]
    assert same(tmp_path / "run", plain.folder, ("model.safetensors", "metrics.csv", "summary.json"))


def test_checkpoints_are_kept_up_to_their_number(tmp_path):
    run = train(FLEET, folder=tmp_path / "run", callbacks=[Checkpoints(every=15, most=3)], **RUN)
    models = sorted((run.folder / "models").iterdir())
    assert [path.name for path in models] == [f"model-{many:012d}.safetensors" for many in (30, 45, 60)]
    assert models[-1].read_bytes() == (run.folder / "model.safetensors").read_bytes()


def test_a_run_that_replaces_another_does_not_go_on_with_its_callbacks(tmp_path):
    train(FLEET, folder=tmp_path / "run", callbacks=[Checkpoints(every=15), "tensorboard"], **RUN)
    run = train(FLEET, folder=tmp_path / "run", overwrite=True, **RUN)
    assert not (run.folder / "models").exists()
    assert not (run.folder / "tensorboard").exists()


def test_a_run_is_refused_before_anything_is_written_if_a_callback_refuses_it(tmp_path):
    with pytest.raises(InvalidInput, match="the run has no metric 'acuracy'; did you mean accuracy"):
        train(FLEET, folder=tmp_path / "run", callbacks=[EarlyStop("acuracy", 0.9, direction="up")], **RUN)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "package"), [("mlflow", "mlflow"), ("wandb", "wandb"), ("tensorboard", "tensorboard")]
)
def test_a_package_that_is_missing_is_named_before_the_run_begins(tmp_path, monkeypatch, name, package):
    home = {"mlflow": "mlflow_run", "wandb": "wandb_run", "tensorboard": "event_files"}[name]
    monkeypatch.setattr(f"sojourn.callbacks.{home}.find_spec", lambda _: None)
    with pytest.raises(SojournError, match=f"callback {name} needs the package {package}, which is not installed"):
        train(FLEET, folder=tmp_path / "run", callbacks=[name], **RUN)
    assert not (tmp_path / "run").exists()


def test_the_event_files_of_tensorboard_have_every_evaluation(plain, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = train(FLEET, folder=tmp_path / "run", callbacks=["tensorboard"], **RUN)
    events = EventAccumulator(str(run.folder / "tensorboard")).Reload()
    found = [(one.step, one.value) for one in events.Scalars("test_loss")]
    assert found == [(row["received"], pytest.approx(row["test_loss"])) for row in run.metrics]
    assert same(run.folder, plain.folder)


def test_a_run_file_may_name_callbacks(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('fleet = "fleet.csv"\ncallbacks = ["tensorboard", "early-stop(accuracy>=0.9)"]\n')
    assert callbacks_in(path) == ["tensorboard", "early-stop(accuracy>=0.9)"]
    assert TrainConfig.load(path) == TrainConfig("fleet.csv")
    path.write_text('fleet = "fleet.csv"\ncallbacks = "tensorboard"\n')
    with pytest.raises(InvalidInput, match="callbacks must be a list of texts, got 'tensorboard'"):
        callbacks_in(path)
