"""A client that did not fetch its task in time gets others as soon as it asks for one, without joining again."""

import threading

import pytest
from grpc_peers import SECONDS, Peer, engine_of, events_until, many, offer_of
from waiting import until

from sojourn.learning.run.config import TrainConfig
from sojourn.live.engine import Asked, Pulled
from sojourn.live.serve import open_server
from sojourn.live.settings import ServerFile


@pytest.fixture
def engine():
    made = engine_of()
    yield made
    made.stop(ended=False)


def test_a_silent_client_whose_task_was_dropped_gets_another_one_when_it_asks(tmp_path):
    (tmp_path / "fleet.csv").write_text("name,count,rate\noslo,1,1000\n")
    config = TrainConfig(str(tmp_path / "fleet.csv"), cap="1", concurrency=1, steps=9, model="logistic", device="cpu")
    run = open_server(config, ServerFile("127.0.0.1:0", out=str(tmp_path / "live"), patience=0.1))
    stop = threading.Event()
    serving = threading.Thread(target=run.run, args=(stop,))
    serving.start()
    try:
        with Peer(run.engine.address) as peer:
            peer.join("oslo")
            watch = peer.watch()  # which keeps it connected
            until(lambda: run.loop.faults.counts["dropped"] == 1, SECONDS, "its task is dropped")
            assert any(peer.pull()[0].HasField("task") for _ in range(3))
            watch.cancel()
    finally:
        stop.set()
        serving.join(SECONDS)
        run.close()


def test_a_client_is_heard_from_once_after_a_task_was_withdrawn_and_not_while_it_has_one(engine, monkeypatch):
    monkeypatch.setattr("sojourn.live.engines.grpc.service.POLL", 0.2)
    with Peer(engine.address) as peer:
        peer.join("a")
        engine.offer(offer_of(0, 0))
        engine.offer(offer_of(0, 1))
        assert peer.pull()[0].task.name.nth == 0
        engine.withdraw(offer_of(0, 1).name)
        reply = peer.pull()[0]  # it may be stuck with the task that it has
        assert not reply.HasField("task")
        peer.push((0, 0, 1), offer_of(0, 0).params)
        engine.offer(offer_of(0, 2))
        assert peer.pull()[0].task.name.nth == 2
        found = events_until(engine, many(Pulled, 2))
        assert found.count(Asked(0)) == 1
        assert found.index(Asked(0)) == len(found) - 2
