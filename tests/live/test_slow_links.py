"""Clients with slow connections: parts of a model or an update that move are signs of life."""

import asyncio
import threading
from dataclasses import replace
from math import nan

import grpc
import pytest
import torch
from grpc_peers import SECONDS, Doubles, Peer, Running, engine_of, events_until, many, of_kind, offer_of
from late_proxy import CHUNK, LateProxy
from waiting import until

from live.pretended_clients import Federation, Pretended
from sojourn.learning.replay.local import Update
from sojourn.learning.run.config import TrainConfig
from sojourn.live.engine import Arrived, Asked, Left, Moving, Pulled, TaskName
from sojourn.live.engines.grpc import federation_pb2 as pb
from sojourn.live.engines.grpc.calls import Calls
from sojourn.live.run import LiveRun, Settings, built_for
from sojourn.live.serve import open_server
from sojourn.live.settings import ServerFile
from sojourn.live.worker import FederationWorker
from sojourn.trace import APPLIED, DROPPED, LOST

MIB = 2**20
SIZE = MIB  # numbers of a model that travels in four chunks
PATIENCE = 4.0


@pytest.fixture
def config(tmp_path):
    (tmp_path / "fleet.csv").write_text("name,count,rate\nall,2,50\n")
    return TrainConfig(
        str(tmp_path / "fleet.csv"),
        cap="1",
        concurrency=2,
        steps=8,
        partition="iid",
        model="mlp(hidden=8)",
        device="cpu",
    )


class SlowLink(Pretended):
    """Tasks to client 1, or its updates, come in parts, each of which takes three quarters of the patience."""

    parts, part = 4, 0.75 * PATIENCE
    silent = False  # whether nothing is heard of the parts

    def happen(self, after, event):
        late = 0.0
        if isinstance(event, Pulled | Arrived) and event.name.client == 1 and not isinstance(event, self.before):
            late = self.parts * self.part
            event = event._replace(at=event.at + late)
        if isinstance(event, self.slow) and late and not self.silent:
            for number in range(self.parts):
                super().happen(after + number * self.part, Moving(event.name))
        super().happen(after + late, event)


def trace_of(config, folder, slow, silent):
    worker = FederationWorker(built_for(config).federation)
    federation = Federation(worker, lambda client, nth: 0.02 if client == 0 else 0.5, range(2))
    before = Pulled if slow is Arrived else ()
    engine = type("Slow", (SlowLink,), {"slow": slow, "before": before, "silent": silent})
    run = LiveRun(config, folder, lambda *_: engine(federation), Settings(patience=PATIENCE, begin_with=2))
    stop = threading.Event()

    def look(one):
        if one.loop.faults.counts["timeouts"] or one.server.received >= one.loop.limits.updates:
            stop.set()

    with run:
        run.run(stop, look)
        return run.loop.faults.counts["timeouts"], run.loop.journal.trace({}).fate.tolist()


@pytest.mark.parametrize("slow", [Pulled, Arrived])
def test_a_task_is_not_given_up_while_parts_of_it_or_of_its_update_move(config, tmp_path, slow):
    config = replace(config, steps=None, time=26.0)
    timeouts, fates = trace_of(config, tmp_path / "live", slow, silent=False)
    assert timeouts == 0
    assert set(fates) == {APPLIED}


@pytest.mark.parametrize(("slow", "fate"), [(Pulled, DROPPED), (Arrived, LOST)])
def test_a_task_of_which_nothing_moves_is_given_up(config, tmp_path, slow, fate):
    config = replace(config, steps=None, time=26.0)
    timeouts, fates = trace_of(config, tmp_path / "live", slow, silent=True)
    assert timeouts == 1
    assert fates.count(fate) == 1


@pytest.fixture
def engine():
    engine = engine_of(("a",), SIZE)
    yield engine
    engine.stop(ended=False)


def fetched(peer, name, offset):
    request = pb.FetchRequest(session=peer.session, name=name, offset=offset)
    return peer.call("Fetch", request.SerializeToString())


def test_every_part_of_a_model_is_told_of_once(engine):
    name = TaskName(0, 0, 1)
    with Peer(engine.address) as peer:
        peer.join()
        engine.offer(offer_of(0, 0, torch.zeros(SIZE)))
        task = peer.pull()[0].task
        for offset in (MIB, MIB, 2 * MIB, MIB, 3 * MIB):  # some of them twice
            fetched(peer, task.name, offset)
        events = events_until(engine, many(Pulled))
    assert [event for event in events if isinstance(event, Moving | Pulled)][:-1] == [Moving(name)] * 3


def test_every_part_of_an_update_is_told_of_once(engine):
    name = TaskName(0, 0, 1)
    with Peer(engine.address) as peer:
        peer.join()
        engine.offer(offer_of(0, 0, torch.zeros(SIZE)))
        task = peer.pull()[0].task
        for place in (1, 2, 3):
            fetched(peer, task.name, place * MIB)
        part = torch.zeros(MIB // 4)
        for place in (0, 0, 2, 0, 1, 3):
            peer.push(name, part, size=4 * MIB, offset=place * MIB)
        events = events_until(engine, many(Arrived))
    assert len(of_kind(Moving, events)) == 3 + 3


def test_a_client_whose_task_is_taken_back_while_it_fetches_it_goes_on_with_the_next(engine, monkeypatch):
    model, waiting, go_on = Calls.model, threading.Event(), threading.Event()

    async def slow(self, session, task, *given):
        if task.name.nth == 0:
            waiting.set()
            await asyncio.get_running_loop().run_in_executor(None, go_on.wait, SECONDS)
        return await model(self, session, task, *given)

    monkeypatch.setattr(Calls, "model", slow)
    running = Running(engine.address, {"a": Doubles()})
    engine.offer(offer_of(0, 0, torch.zeros(SIZE)))
    assert waiting.wait(SECONDS)
    engine.withdraw(TaskName(0, 0, 1))
    engine.offer(offer_of(0, 1, torch.zeros(SIZE)))
    go_on.set()
    events = events_until(engine, many(Arrived))
    counts = running.leave()
    assert of_kind(Arrived, events)[0].name.nth == 1
    assert Asked(0) in events
    assert not of_kind(Left, events)
    assert (counts["tasks"], counts["rejoined"]) == (1, 0)
    assert ("a", "task 0 was refused: the server has taken the task back") in running.said


def test_a_task_that_was_taken_back_cannot_be_fetched(engine):
    with Peer(engine.address) as peer:
        peer.join()
        engine.offer(offer_of(0, 0, torch.zeros(SIZE)))
        task = peer.pull()[0].task
        engine.withdraw(TaskName(0, 0, 1))
        with pytest.raises(grpc.RpcError) as caught:
            until(lambda: not fetched(peer, task.name, MIB), SECONDS, "it is withdrawn")
    assert caught.value.code() == grpc.StatusCode.OUT_OF_RANGE


class Throttled(LateProxy):
    """Hands on so many bytes per second each way."""

    rate = 4e6

    async def _hand_on(self, reader, writer):
        content = b"-"
        while content:
            content = await reader.read(CHUNK)
            await asyncio.sleep(len(content) / self.rate)
            writer.write(content)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


class Zeros(FederationWorker):
    """Does no work, and sends as many numbers as the model has."""

    def compute(self, task):
        return Update(torch.zeros_like(task.params), None, task.step_size, 1, torch.tensor(0.5))


@pytest.mark.slow
def test_a_client_whose_link_takes_longer_than_the_patience_contributes(config, tmp_path):
    """About 24 MB at 4 MB per second take six seconds each way, and the server waits three."""
    config = replace(config, model="mlp(hidden=80000)", steps=1, evaluate_every=10**9)
    file = ServerFile("127.0.0.1:0", out=str(tmp_path / "live"), patience=3.0, begin_with=1)
    run = open_server(config, file, names={"slow": 0})
    host, _, port = run.engine.address.rpartition(":")
    proxy = Throttled(("127.0.0.1", 0), (host, int(port)), nan)
    slow = Running(f"127.0.0.1:{proxy.address[1]}", {"slow": Zeros(built_for(config).federation)})
    limit = threading.Event()
    timer = threading.Timer(SECONDS, limit.set)
    timer.start()
    try:
        with run:
            assert run.run(limit), (run.loop.faults.counts, slow.said)
            assert not run.loop.faults.counts
    finally:
        timer.cancel()
        counts = slow.leave()
        proxy.close()
    assert counts["rejoined"] == 0
