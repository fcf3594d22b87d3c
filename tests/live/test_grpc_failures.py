"""The gRPC engine when things break: killed clients, servers that are started again, many clients at once."""

import json
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import grpc
import pytest
import torch
from grpc_peers import (
    SECONDS,
    Doubles,
    Peer,
    Running,
    arrivals,
    engine_of,
    events_until,
    many,
    of_kind,
    offer_of,
)

from sojourn.errors import SojournError
from sojourn.live.engine import Arrived, Joined, Left, Pulled, Rejected, TaskName
from sojourn.live.engines.grpc import federation_pb2 as pb
from sojourn.live.engines.grpc import service
from sojourn.live.engines.grpc.calls import Calls
from sojourn.live.engines.grpc.intake import Limits
from sojourn.live.engines.grpc.member import REMEMBERED
from sojourn.live.engines.grpc.wire import SERVICE

PEERS = Path(__file__).with_name("grpc_peers.py")


def clients(address, service, *names):
    command = [sys.executable, PEERS, address, str(service), *names]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_killed_client_is_gone_within_a_moment():
    engine = engine_of(grace=0.5)
    process = clients(engine.address, 60, "a", "b")
    try:
        engine.offer(offer_of(0, 0))
        events_until(engine, lambda events: many(Joined, 2)(events) and many(Pulled)(events), 3 * SECONDS)
        process.send_signal(signal.SIGKILL)
        events = events_until(engine, many(Left, 2), 10)  # keep-alive alone would need half a minute
    finally:
        process.kill()
        process.wait(SECONDS)
        process.communicate()
    assert sorted(event.client for event in of_kind(Left, events)) == [0, 1]
    with Peer(engine.address) as peer:  # a new process does not hold the task: it is handed over again
        peer.join()
        assert peer.pull()[0].task.name.nth == 0
    engine.stop(ended=False)


@pytest.mark.slow
def test_clients_that_are_interrupted_say_goodbye():
    engine = engine_of(grace=60)
    process = clients(engine.address, 60, "a", "b")
    try:
        engine.offer(offer_of(0, 0))
        events_until(engine, lambda events: many(Joined, 2)(events) and many(Pulled)(events), 3 * SECONDS)
        process.send_signal(signal.SIGINT)
        events = events_until(engine, many(Left, 2))
        process.communicate(timeout=SECONDS)
    finally:
        process.kill()
        process.wait(SECONDS)
        engine.stop(ended=False)
    assert {event.reason for event in of_kind(Left, events)} == {"the client was stopped"}


@pytest.mark.slow
def test_a_client_that_comes_back_in_time_does_not_leave():
    engine = engine_of(grace=2)
    with Peer(engine.address) as first:
        first.join()
        watch = first.watch()
        events = events_until(engine, many(Joined))
        watch.cancel()
        first.join()
        watch = first.watch()
        events += events_until(engine, many(Joined))
        time.sleep(2.5)
        events += [engine.receive(0) for _ in range(5)]
        assert of_kind(Joined, events) == [Joined(0, (), 0)] * 2
        assert not of_kind(Left, events)
        watch.cancel()
        assert events_until(engine, many(Left))[-1] == Left(0, "the connection broke")
        with pytest.raises(grpc.RpcError):
            first.pull()
    engine.stop(ended=False)


@pytest.mark.slow
def test_clients_come_back_to_a_server_that_is_started_again_and_push_what_they_kept(monkeypatch):
    answered = threading.Event()

    class Answered(Calls):
        async def push(self, *given):
            reply = await super().push(*given)
            answered.set()
            return reply

    monkeypatch.setattr("sojourn.live.engines.grpc.client.Calls", Answered)
    engine = engine_of(("a", "b"))
    running = Running(engine.address, {"a": Doubles(), "b": Doubles(service=3.0)})
    engine.offer(offer_of(0, 0))
    engine.offer(offer_of(1, 0))
    events = events_until(engine, lambda events: many(Arrived)(events) and many(Pulled, 2)(events))
    assert [event.name.client for event in of_kind(Arrived, events)] == [0]
    assert answered.wait(SECONDS)
    address = engine.address
    engine.stop(ended=False)  # a has sent its update, which was not acknowledged; b is at work
    again = engine_of(("a", "b"), address=address, epoch=2)
    events = events_until(again, many(Joined, 2))
    held = {event.client: event.held for event in of_kind(Joined, events)}
    assert held == {0: (TaskName(0, 0, 1),), 1: (TaskName(1, 0, 1),)}
    if not many(Arrived, 2)(events):
        events += events_until(again, lambda more: many(Arrived, 2)(events + more))
    assert sorted(event.name for event in of_kind(Arrived, events)) == [TaskName(0, 0, 1), TaskName(1, 0, 1)]
    again.acknowledge([TaskName(0, 0, 1), TaskName(1, 0, 1)])
    for client in (0, 1):
        again.offer(offer_of(client, 0, epoch=2))
    assert {arrived.name.epoch for arrived in arrivals(again, 2)} == {2}
    again.stop()
    counts = running.end()
    assert (counts["tasks"], counts["pushed"], counts["rejoined"]) == (4, 5, 2)
    assert counts["acknowledged"] == 2


def test_a_task_whose_model_did_not_arrive_whole_is_handed_over_again_before_all_others():
    size = 600_000  # three chunks
    engine = engine_of(("a",), size, prefetch=True)
    with Peer(engine.address) as peer:
        peer.join()
        for nth in range(4):
            engine.offer(offer_of(0, nth, torch.zeros(size)))
        assert [peer.pull()[0].task.name.nth for _ in range(2)] == [0, 1]
        peer.join(held=[pb.TaskName(client=0, nth=1, epoch=1)])
        assert peer.pull()[0].task.name.nth == 0
    engine.stop(ended=False)


def test_a_task_that_a_client_has_had_and_lost_is_not_handed_over_again(monkeypatch):
    monkeypatch.setattr(service, "POLL", 0.1)
    engine = engine_of(prefetch=True)
    with Peer(engine.address) as peer:
        peer.join()
        for nth in range(4):
            engine.offer(offer_of(0, nth))
        assert [peer.pull()[0].task.name.nth for _ in range(2)] == [0, 1]
        peer.join(held=[pb.TaskName(client=0, nth=1, epoch=1)])  # it was started again, and the loop ends task 0
        assert peer.pull()[0].task.name.nth == 2
        assert not peer.pull()[0].HasField("task")
        peer.push((0, 1, 1), torch.ones(6))
        assert peer.pull()[0].task.name.nth == 3
        reply = peer.join(held=[pb.TaskName(client=0, nth=nth, epoch=1) for nth in (1, 2, 3)])
        assert [one.nth for one in reply.received] == [1]
    engine.stop(ended=False)


def test_tasks_that_a_client_only_says_it_holds_take_no_memory_from_join_to_join():
    engine = engine_of(epoch=2)
    with Peer(engine.address) as peer:
        for turn in range(4):
            peer.join(held=[pb.TaskName(client=0, nth=nth, epoch=7 + turn) for nth in range(1000)])
        member = engine._service._members[0]
        assert len(member.news) == 1000
        assert len(member.fates) <= 1000 + REMEMBERED
        reply, _ = peer.pull()
        assert len(reply.refused) == 1000
        peer.join()
        assert not member.news
        assert len(member.fates) <= REMEMBERED
    engine.stop(ended=False)


def test_a_client_cannot_let_more_than_some_pushes_wait_for_the_loop():
    engine = engine_of(limits=Limits(waiting=1, pushes=2))
    with Peer(engine.address) as peer:
        peer.join()
        content = pb.PushRequest(session=peer.session, name=pb.TaskName(client=0, nth=9, epoch=1)).SerializeToString()
        push = peer.channel.unary_unary(f"/{SERVICE}/Push")
        done = queue.SimpleQueue()
        for _ in range(4):
            push.future(content, timeout=SECONDS).add_done_callback(done.put)
        refused = [done.get(timeout=SECONDS) for _ in range(2)]
        assert {one.code() for one in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert refused[0].details() == "2 updates of the client are waiting already"
        events_until(engine, many(Rejected, 2))  # the others are taken in as soon as the loop has time
        assert {done.get(timeout=SECONDS).code() for _ in range(2)} == {grpc.StatusCode.OK}
    engine.stop(ended=False)


def test_tasks_that_a_client_cannot_hold_are_not_believed():
    engine = engine_of(epoch=3)
    with Peer(engine.address) as peer:
        names = [(0, 5, 2), (0, 5, 3), (0, 5, 4), (1, 5, 2), (0, 5, 0)]
        peer.join(held=[pb.TaskName(client=client, nth=nth, epoch=epoch) for client, nth, epoch in names])
        assert [peer.push(name, torch.ones(6)).answer for name in names] == [pb.ANSWER_RECEIVED] + [
            pb.ANSWER_REFUSED
        ] * 4
        assert events_until(engine, many(Joined))[0].held == (TaskName(0, 5, 2),)
    engine.stop(ended=False)


def test_a_client_that_reaches_no_server_gives_up():
    engine = engine_of()
    engine.stop(ended=False)
    running = Running(engine.address, {"a": Doubles()}, patience=0.5)
    running.end()
    assert isinstance(running.error, SojournError)
    assert "has not answered for" in str(running.error)


def test_pushes_wait_while_the_loop_is_busy():
    engine = engine_of(limits=Limits(waiting=3))
    running = Running(engine.address, {"a": Doubles()})
    for nth in range(20):
        engine.offer(offer_of(0, nth))
    time.sleep(1)
    assert engine._service.events.qsize() <= 5
    assert len(arrivals(engine, 20)) == 20
    running.leave()
    engine.stop()


@pytest.mark.parametrize(
    ("number", "each"),
    [(40, 10), pytest.param(200, 10, marks=pytest.mark.slow), pytest.param(1000, 2, marks=pytest.mark.slow)],
)
@pytest.mark.slow
def test_many_clients_of_one_process_do_many_tasks_over_one_connection(number, each):
    names = [f"client-{one}" for one in range(number)]
    engine = engine_of(names)
    process = clients(engine.address, 0, *names)
    done, until = set(), time.monotonic() + 6 * SECONDS
    try:
        for nth in range(each):
            for client in range(number):
                engine.offer(offer_of(client, nth))
        while len(done) < number * each and time.monotonic() < until:
            event = engine.receive(0.1)
            if isinstance(event, Arrived):
                done.add(event.name)
                engine.acknowledge([event.name])
        engine.stop()
        counts = json.loads(process.communicate(timeout=SECONDS)[0])
    finally:
        process.kill()
        process.wait(SECONDS)
    assert len(done) == counts["tasks"] == counts["pushed"] == number * each
    assert counts["rejoined"] == counts["refused"] == counts["failed"] == 0
