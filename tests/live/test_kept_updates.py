"""What a client keeps until the next commit is bounded, and what it says of its memory too."""

import threading

import pytest
import torch
from grpc_peers import Peer, engine_of, offer_of

from live.pretended_clients import Federation, Pretended
from sojourn.learning.replay.local import Update
from sojourn.learning.run.config import TrainConfig
from sojourn.live import server
from sojourn.live.engines.grpc import member, service
from sojourn.live.run import LiveRun, built_for
from sojourn.live.server import inexact
from sojourn.live.worker import FederationWorker


@pytest.fixture
def engine(monkeypatch):
    monkeypatch.setattr(member, "KEPT", (2, 2))
    made = engine_of()
    yield made
    made.stop(ended=False)


def test_a_client_with_many_updates_that_are_not_safe_gets_a_task_as_soon_as_one_is(engine, monkeypatch):
    monkeypatch.setattr(service, "POLL", 0.2)
    with Peer(engine.address) as peer:
        peer.join("a")
        for nth in range(3):
            engine.offer(offer_of(0, nth))
        for nth in range(2):
            assert peer.pull()[0].task.name.nth == nth
            peer.push((0, nth, 1), torch.arange(6.0))
        assert not peer.pull()[0].HasField("task")
        monkeypatch.setattr(service, "POLL", 300.0)  # longer than a call may take
        later = threading.Timer(0.2, engine.acknowledge, ([offer_of(0, 0).name],))
        later.start()
        assert peer.pull()[0].task.name.nth == 2
        later.join()


class Remembers(FederationWorker):
    """Says something about a memory, another thing each time."""

    marks: tuple[int, ...] = (7,)

    def compute(self, task) -> Update:
        return super().compute(task)._replace(remembered=self.marks[task.nth % len(self.marks)])


def run_of(tmp_path, **keys):
    (tmp_path / "fleet.csv").write_text("name,count,rate\nall,2,5\n")
    config = TrainConfig(str(tmp_path / "fleet.csv"), cap="1", steps=40, model="logistic", device="cpu", **keys)
    clients = Federation(Remembers(built_for(config).federation), lambda *_: 0.1, range(2))
    with LiveRun(config, tmp_path / "live", lambda *_: Pretended(clients)) as run:
        assert run.run(threading.Event())
    return run.server


def test_where_no_client_remembers_nobody_is_believed_who_says_so(tmp_path):
    found = run_of(tmp_path)
    assert (found.unlike, found.forgotten, found.snapshot()["memories"]["known"]) == ([], [], {})


def test_what_is_noted_of_memories_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "MOST_UNLIKE", 5)
    monkeypatch.setattr(server, "MOST_FORGOTTEN", 3)
    monkeypatch.setattr(Remembers, "marks", (0, 7))
    found = run_of(tmp_path, wrap="topk(share=0.5, feedback=true)")
    assert found.algorithm.remembers
    assert (len(found.forgotten), len(found.unlike)) == (3, 5)
    assert inexact(found.facts).startswith("5 or more updates came from clients")
