"""A run that is stopped takes what is back within some seconds, sends no more tasks, and goes on as after any stop."""

import threading
from dataclasses import replace

import pytest

from live.pretended_clients import Federation, Pretended
from sojourn.learning.run.config import TrainConfig
from sojourn.live.replayed import replay_run
from sojourn.live.run import LiveRun, built_for
from sojourn.live.worker import FederationWorker

SECONDS = 5.0
FAST, SLOW, STUCK = range(3)


@pytest.fixture
def config(tmp_path):
    (tmp_path / "fleet.csv").write_text("name,count,rate\nfast,1,1\nslow,1,0.01\nstuck,1,1\n")
    keys = {"partition": "classes(k=4)", "model": "logistic", "device": "cpu", "cap": "1", "concurrency": 3}
    return TrainConfig(str(tmp_path / "fleet.csv"), steps=100, **keys)


def clients_of(config):
    """Tasks of a second; the slow client takes 100, and the stuck one never answers its sixth."""

    def service(client, nth):
        return {FAST: 1.0, SLOW: 100.0, STUCK: 1e9 if nth == 5 else 1.0}[client]

    return Federation(FederationWorker(built_for(config).federation), service, range(3))


def run_of(config, folder, clients, resume=False):
    return LiveRun(config, folder, lambda *_: Pretended(clients), resume=resume)


def stopped(run, after):
    """Stop the run after so many updates; return what was seen from then on: time, tasks sent, tasks in flight."""
    stop, seen = threading.Event(), []

    def watch(now):
        if now.server.received >= after:
            stop.set()
            seen.append((now.engine.now(), int(now.loop.sent.sum()), len(now.loop.pending)))

    with run:
        assert not run.run(stop, watch, SECONDS)
    return seen


@pytest.mark.parametrize("changes", [{}, {"algorithm": "fedbuff(size=3)", "local_steps": 2}, {"algorithm": "fedavg"}])
def test_tasks_that_come_back_soon_are_applied_and_a_replay_is_the_same(config, tmp_path, changes):
    config = replace(config, **changes)
    clients = clients_of(config)
    clients.times = lambda client, nth: 1.0 + client / 10
    seen = stopped(run_of(config, tmp_path / "live", clients), after=20)
    assert len({sent for _, sent, _ in seen[1:]}) == 1
    assert seen[-1][2] == 0
    assert not clients.serving
    assert seen[-1][0] - seen[0][0] < 2.0
    with run_of(config, tmp_path / "live", clients, resume=True) as again:
        assert again.server.received == seen[-1][1]  # all that were sent
        assert again.run(threading.Event())
    found = replay_run(tmp_path / "live", tmp_path / "again")
    assert (found.same, found.updates) == (True, 100)


def test_a_task_that_takes_long_is_not_awaited_and_goes_on_after_the_resume(config, tmp_path):
    clients = clients_of(config)
    clients.times = lambda client, nth: 100.0 if client == SLOW else 1.0
    seen = stopped(run_of(config, tmp_path / "live", clients), after=9)
    assert seen[-1][0] - seen[0][0] < 2.0
    assert seen[-1][2] == 1
    (kept,) = clients.serving
    assert kept == SLOW
    with run_of(config, tmp_path / "live", clients, resume=True) as again:
        assert again.run(threading.Event())
    assert not again.loop.faults.counts
    found = replay_run(tmp_path / "live", tmp_path / "again")
    assert (found.same, found.updates) == (True, 100)


def test_a_client_that_is_stuck_is_awaited_for_a_bounded_time(config, tmp_path):
    clients = clients_of(config)
    seen = stopped(run_of(config, tmp_path / "live", clients), after=11)
    assert seen[-1][0] - seen[0][0] == pytest.approx(SECONDS, abs=1.0)
    assert set(clients.serving) == {SLOW, STUCK}
