"""What the page on operations says a server does: backups, upgrades, and what a client that lies can do."""

import json
import shutil
import threading
import time
from dataclasses import replace

import pytest

from live.pretended_clients import Federation, Pretended
from sojourn import InvalidInput, UnreadableFile
from sojourn.learning.run.config import TrainConfig
from sojourn.live.replayed import replay_run
from sojourn.live.run import LiveRun, Settings, built_for
from sojourn.live.worker import FederationWorker


@pytest.fixture
def config(tmp_path):
    (tmp_path / "fleet.csv").write_text("name,count,rate\nfast,3,8\nslow,3,2\n")
    keys = {"cap": "1", "concurrency": 6, "steps": 200, "evaluate_every": 50, "model": "logistic", "device": "cpu"}
    return TrainConfig.of({"fleet": str(tmp_path / "fleet.csv"), **keys}, "test")


def clients_of(config, worker=None):
    return Federation(worker or FederationWorker(built_for(config).federation), lambda *_: 0.1, range(6))


def run_of(config, folder, clients, resume=False):
    return LiveRun(config, folder, lambda *_: Pretended(clients), Settings(commit_seconds=0.001), resume)


def stopped_after(config, folder, updates):
    stop, clients = threading.Event(), clients_of(config)
    with run_of(config, folder, clients) as run:
        run.run(stop, lambda run: stop.set() if run.server.received >= updates else None)
    return clients


def backed_up(live, place):
    """Copy a running server's folder in the order that the page says: checkpoints, then rows, then the rest."""
    place.mkdir()
    shutil.copytree(live / "checkpoints", place / "checkpoints", copy_function=_if_there)
    for name in ("rows.bin", "config.json", "metrics.csv", "log.jsonl"):
        _if_there(live / name, place / name)


def _if_there(source, target):
    try:
        shutil.copy2(source, target)
    except FileNotFoundError:  # the server has replaced it; the one before is kept too
        return


@pytest.mark.slow
def test_a_backup_of_a_running_server_can_be_resumed_from(config, tmp_path):
    live, copies = tmp_path / "live", []

    def watch(run):
        committed = run.journal.rows > 0
        time.sleep(0.002 if committed else 0.05)  # so that commits are written meanwhile
        if committed and run.server.received >= 30 * (len(copies) + 1) and len(copies) < 3:
            copies.append(tmp_path / f"backup-{len(copies)}")
            backed_up(live, copies[-1])

    with run_of(config, live, clients_of(config)) as run:
        assert run.run(threading.Event(), watch)
    assert len(copies) == 3
    for place in copies:
        with run_of(config, place, clients_of(config), resume=True) as again:  # clients that were started anew
            assert 0 < again.server.received <= 120
            assert again.run(threading.Event())
        found = replay_run(place, tmp_path / f"again-{place.name}")
        assert (found.same, found.updates) == (True, 200)


def test_a_run_of_an_earlier_version_is_resumed_and_a_later_form_of_checkpoints_is_refused(config, tmp_path):
    clients = stopped_after(config, tmp_path / "live", 60)
    facts = json.loads((tmp_path / "live/config.json").read_text())
    facts["versions"]["sojourn"] = "0.0.1"
    (tmp_path / "live/config.json").write_text(json.dumps(facts))
    shutil.copytree(tmp_path / "live", tmp_path / "later")
    for path in (tmp_path / "later/checkpoints").glob("*.json"):
        content = json.loads(path.read_text())
        del content["sum"]
        path.write_text(json.dumps({**content, "sojourn_checkpoint": 2}))
    with run_of(config, tmp_path / "live", clients, resume=True) as run:
        assert run.run(threading.Event())
    with pytest.raises(UnreadableFile, match="schema 2, this version reads 1"):
        run_of(config, tmp_path / "later", clients, resume=True)


def test_a_run_is_not_resumed_with_another_model_or_fleet(config, tmp_path):
    clients = stopped_after(config, tmp_path / "live", 20)
    with pytest.raises(InvalidInput, match=r"holds another run: its model is .logistic. "):
        run_of(replace(config, model="mlp(hidden=8)"), tmp_path / "live", clients, resume=True)


class Liar(FederationWorker):
    """A client that multiplies its updates."""

    def compute(self, task):
        update = super().compute(task)
        if task.client:
            return update
        return update._replace(gradient=None if update.gradient is None else -1e4 * update.gradient)


def test_a_single_client_that_lies_ruins_the_model_and_nobody_notices(config, tmp_path):
    accuracies, faults = [], []
    for worker in (FederationWorker, Liar):
        clients = clients_of(config, worker(built_for(config).federation))
        with run_of(config, tmp_path / worker.__name__, clients) as run:
            assert run.run(threading.Event())
        accuracies.append(run.metrics.last["accuracy"])
        faults.append(dict(run.loop.faults.counts))
    assert accuracies[0] > 0.8
    assert accuracies[1] < 0.5
    assert faults == [{}, {}]
