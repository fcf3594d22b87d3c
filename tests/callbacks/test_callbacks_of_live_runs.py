"""Callbacks of live runs: in a thread of their own, so that the loop never waits for them."""

import threading
import time

import pytest

from callbacks.own_callbacks import Failing, Noted
from live.pretended_clients import Federation, Pretended
from live.waiting import until
from sojourn import Trace
from sojourn.callbacks import Callback, Checkpoints, EarlyStop, Ending, RunFacts, guard
from sojourn.callbacks.guard import QueuedCallbacks
from sojourn.errors import SojournError
from sojourn.learning.run.config import TrainConfig
from sojourn.live.replayed import replay_run
from sojourn.live.run import LiveRun, built_for
from sojourn.live.worker import FederationWorker


@pytest.fixture
def config(tmp_path):
    (tmp_path / "fleet.csv").write_text("name,count,rate\nfast,3,8\nslow,3,2\n")
    keys = {"cap": "1", "concurrency": 6, "steps": 120, "evaluate_every": 30, "model": "logistic", "device": "cpu"}
    return TrainConfig.of({"fleet": str(tmp_path / "fleet.csv"), **keys}, "test")


def run_of(config, folder, *callbacks, resume=False, clients=None, told=None):
    worker = FederationWorker(built_for(config).federation)
    clients = clients or Federation(worker, lambda client, nth: 0.1 + 0.05 * client, range(6))
    return LiveRun(config, folder, lambda *_: Pretended(clients), None, resume, told, callbacks=callbacks)


def whole(run, watch=None):
    with run:
        return run.run(threading.Event(), watch)


def test_a_callback_is_told_of_every_evaluation_and_of_the_updates_it_asks_for(config, tmp_path):
    noted = Noted(every=25)
    run = run_of(config, tmp_path / "live", noted)
    assert whole(run)
    rows = [row["received"] for row in noted.rows]
    assert rows[0] == 0
    assert rows[-1] == 120
    assert rows == sorted(set(rows))
    assert noted.updates == [25, 50, 75, 100]
    assert noted.begun[0].live
    assert noted.endings == [Ending(True, "", 120)]


def test_callbacks_change_neither_the_model_nor_its_replay(config, tmp_path):
    whole(run_of(config, tmp_path / "plain"))
    run = run_of(config, tmp_path / "live", Noted(every=7), Checkpoints(every=40), Failing("updated"))
    whole(run)
    assert (tmp_path / "live/model.safetensors").read_bytes() == (tmp_path / "plain/model.safetensors").read_bytes()
    last = tmp_path / "live/models/model-000000000120.safetensors"
    assert last.read_bytes() == (tmp_path / "live/model.safetensors").read_bytes()
    assert Trace.load(tmp_path / "live/trace.parquet") == Trace.load(tmp_path / "plain/trace.parquet")


def test_a_callback_that_fails_is_in_the_log_once_and_the_run_goes_on(config, tmp_path):
    told = []
    run = run_of(config, tmp_path / "live", Failing("evaluated"), told=lambda what, facts: told.append((what, facts)))
    assert whole(run)
    said = [facts["reason"] for what, facts in told if what == "callback"]
    assert len(said) == 1
    assert said[0].startswith("callback failing-evaluated failed in evaluated (OSError: no such luck); the run goes on")
    assert (tmp_path / "live/log.jsonl").read_text().count('"what": "callback"') == 1


def test_a_run_that_reaches_its_target_is_complete_and_can_be_replayed(config, tmp_path):
    run = run_of(config.resolved(steps=100_000), tmp_path / "live", EarlyStop("accuracy", 0.5))
    assert whole(run, lambda run: time.sleep(0.001))  # so that the evaluations keep up
    assert run.stopped.startswith("accuracy 0.")
    assert 0 < run.server.received < 100_000
    assert '"what": "early stop"' in (tmp_path / "live/log.jsonl").read_text()
    assert f'"stopped": "{run.stopped}"' in (tmp_path / "live/summary.json").read_text()
    again = replay_run(tmp_path / "live", tmp_path / "again")
    assert again.same
    assert again.updates == run.server.received


def test_a_resumed_run_tells_its_callbacks_where_it_is_and_removes_models_that_were_undone(config, tmp_path):
    first, second = Noted(every=20), Noted(every=20)
    stop = threading.Event()
    clients = Federation(FederationWorker(built_for(config).federation), lambda client, nth: 0.1, range(6))
    with run_of(config, tmp_path / "live", first, Checkpoints(every=10), clients=clients) as run:
        assert not run.run(stop, lambda run: stop.set() if run.server.received >= 50 else None)
    assert first.endings[0].reason == "it was stopped"
    undone = tmp_path / "live/models/model-000000000999.safetensors"
    undone.write_bytes(b"of updates that a crash has undone")
    run = run_of(config, tmp_path / "live", second, Checkpoints(every=10), resume=True, clients=clients)
    before = second_received = run.server.received
    assert whole(run)
    assert not undone.exists()
    assert (second.begun[0].received, second.begun[0].resumed) == (before, True)
    assert first.updates + second.updates == [20, 40, 60, 80, 100, 120]
    rows = [row["received"] for row in (*second.begun[0].rows, *second.rows)]
    assert rows == sorted(set(rows))
    assert second_received >= 50


class Slow(Callback):
    """Waits until it may go on."""

    name, every = "slow", 1

    def __init__(self):
        self.waits, self.go_on, self.rows, self.lost = threading.Event(), threading.Event(), 0, 0

    def evaluated(self, row, model):
        self.waits.set()
        self.go_on.wait(60)
        self.rows += 1

    def updated(self, received, model):
        try:
            model()
        except SojournError:
            self.lost += 1
            raise


def test_a_callback_that_hangs_holds_up_neither_the_loop_nor_its_evaluations(config, tmp_path):
    slow, seen = Slow(), []
    run = run_of(config, tmp_path / "live", slow)

    def watch(run):
        assert slow.waits.wait(60)  # its first evaluation is made in another thread
        seen.append(run.server.received)
        if run.server.received == 120:
            slow.go_on.set()

    assert whole(run, watch)
    assert max(seen) == 120  # the callback has been waiting since the first evaluation
    assert slow.rows >= 2
    assert slow.lost >= 120 - guard.MODELS - 10  # models do not pile up meanwhile


def test_an_early_stop_does_not_wait_for_a_callback_that_hangs(config, tmp_path):
    slow = Slow()
    run = run_of(config.resolved(steps=100_000), tmp_path / "live", slow, EarlyStop("accuracy", 0.5))
    with run:
        assert run.run(threading.Event(), lambda run: time.sleep(0.001) if run.stopped is None else slow.go_on.set())
    assert run.stopped is not None
    assert run.server.received < 10_000


def test_what_waits_is_bounded_and_evaluations_are_never_left_out(monkeypatch, tmp_path):
    monkeypatch.setattr(guard, "EVENTS", 5)
    slow = Slow()
    queued = QueuedCallbacks([slow], lambda said: None)
    queued.begin(RunFacts(tmp_path, {}, True))
    for received in range(50):
        queued.evaluated({"received": received}, dict)
        queued.updated(received, dict)
    assert queued.left_out > 30
    assert not queued.end(Ending(True, "", 50), seconds=0.01)
    slow.go_on.set()
    until(lambda: slow.rows == 50, 60, "it is told of every evaluation")
