"""A live run that is not durable: it goes on after a stop, and starts again after a kill; its trace is whole."""

import threading

import pytest

from live.pretended_clients import Federation, Pretended
from sojourn.learning.run.config import TrainConfig
from sojourn.live.journal import Journal
from sojourn.live.replayed import replay_run
from sojourn.live.run import LiveRun, Settings, built_for
from sojourn.live.worker import FederationWorker


class Often(Journal):
    """Commits at every chance."""

    def wait(self):
        return 0.0


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """A function that opens the run over the same clients."""
    monkeypatch.setattr("sojourn.live.run.Journal", Often)
    (tmp_path / "fleet.csv").write_text("name,count,rate\nfast,3,8\nslow,2,1\n")
    config = TrainConfig(
        str(tmp_path / "fleet.csv"), cap="1", steps=120, partition="classes(k=2)", model="mlp(hidden=4)", device="cpu"
    )
    clients = Federation(FederationWorker(built_for(config).federation), lambda client, nth: 0.5 + client, range(5))

    def opened(resume=False):
        return LiveRun(config, tmp_path / "live", lambda *_: Pretended(clients), Settings(durable=False), resume)

    opened.clients, opened.folder = clients, tmp_path
    return opened


def until(updates):
    """An event, and a watch that sets it after so many updates."""
    stop = threading.Event()
    return stop, lambda run: stop.set() if run.server.received >= updates else None


def test_updates_are_acknowledged_while_no_checkpoint_is_written(begun):
    with begun() as run:
        first = sorted(run.journal.store.folder.iterdir())
        stop = threading.Event()

        def watch(run):
            if run.server.received >= 40:
                assert sorted(run.journal.store.folder.iterdir()) == first
                assert run.journal.path.stat().st_size > 0
                stop.set()

        assert not run.run(stop, watch)
        assert len(begun.clients.acknowledged) >= 40
        assert sorted(run.journal.store.folder.iterdir()) != first


def test_a_run_that_was_stopped_goes_on_where_it_was(begun):
    with begun() as run:
        run.run(*until(50))
        received = run.server.received
    with begun(resume=True) as run:
        assert run.server.received == received
        assert run.run(threading.Event())
    found = replay_run(begun.folder / "live", begun.folder / "again")
    assert found.same
    assert found.updates == 120


class Killed(Exception):
    pass


def test_a_run_that_was_killed_starts_again_and_its_trace_is_whole(begun):
    def die(run):
        if run.server.received >= 50:
            raise Killed

    run = begun()
    with pytest.raises(Killed):
        run.run(threading.Event(), die)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Often, "_save", lambda self: None)  # a kill gives it no time to write
        run.close()
    with begun(resume=True) as again:
        assert again.server.received == 0
        assert again.run(threading.Event())
    found = replay_run(begun.folder / "live", begun.folder / "again")
    assert found.same
    assert found.updates == 120


def test_a_run_that_ends_by_an_error_is_on_the_disk(begun):
    def fail(run):
        if run.server.received >= 50:
            raise Killed

    with pytest.raises(Killed), begun() as run:
        run.run(threading.Event(), fail)
    with begun(resume=True) as again:
        assert again.server.received >= 49
        assert again.run(threading.Event())
    assert replay_run(begun.folder / "live", begun.folder / "again").same
