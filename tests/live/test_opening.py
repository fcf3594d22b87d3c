"""A live run that cannot be opened leaves nothing behind that listens or works."""

import threading

import pytest
from waiting import free_port

from sojourn.errors import UnreadableFile, UnwritableFile
from sojourn.learning.run.config import TrainConfig
from sojourn.live.follower import Follower
from sojourn.live.loop import Loop
from sojourn.live.serve import open_server
from sojourn.live.settings import ServerFile


@pytest.fixture
def opened(tmp_path):
    """Return a function that opens one run, always at the same port."""
    (tmp_path / "fleet.csv").write_text("name,count,rate\nall,2,5\n")
    config = TrainConfig(str(tmp_path / "fleet.csv"), steps=10, model="logistic", device="cpu")
    file = ServerFile(f"127.0.0.1:{free_port()}", out=str(tmp_path / "live"))
    return lambda resume=False: open_server(config, file, resume)


def listening():
    return [one.name for one in threading.enumerate() if one.name == "sojourn-grpc"]


def test_a_run_that_cannot_be_resumed_gives_back_its_port(opened, monkeypatch):
    def fails(*given):
        raise UnreadableFile("the checkpoint does not belong to this run")

    opened().close()
    with monkeypatch.context() as patched:
        patched.setattr("sojourn.live.run.restore", fails)
        with pytest.raises(UnreadableFile):
            opened(resume=True)
    assert not listening()
    with opened(resume=True) as run:
        assert run.loop.epoch == 2
        assert listening()
    assert not listening()


def test_a_run_that_cannot_write_its_first_commit_gives_back_its_port_and_its_folder(opened, monkeypatch):
    def fails(self):
        raise UnwritableFile("cannot write the checkpoint: No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Loop, "commit", fails)
        with pytest.raises(UnwritableFile):
            opened()
    assert not listening()
    with opened() as run:
        assert run.loop.epoch == 1


def test_a_run_that_cannot_be_opened_ends_the_work_on_its_plans(opened, monkeypatch):
    def fails(*given, **options):
        raise OSError("no more threads")

    closed, close = [], Follower.close
    monkeypatch.setattr(Follower, "close", lambda self: (closed.append(self), close(self)))
    with monkeypatch.context() as patched:
        patched.setattr("sojourn.live.engines.grpc.server.GrpcEngine", fails)
        with pytest.raises(OSError, match="no more threads"):
            opened()
    assert len(closed) == 1
    opened().close()
    assert len(closed) == 2
