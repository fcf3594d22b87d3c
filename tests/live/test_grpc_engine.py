"""The gRPC engine: what travels, in which order, and what is refused."""

import time
from collections import Counter

import grpc
import pytest
import torch
from grpc_peers import (
    SECONDS,
    Doubles,
    Gradients,
    Peer,
    Running,
    arrivals,
    engine_of,
    events_until,
    many,
    of_kind,
    offer_of,
)

from sojourn.errors import InvalidInput
from sojourn.live.engine import Arrived, Joined, Left, Pulled, Rejected, TaskName, TurnedAway
from sojourn.live.engines.grpc import calls, service
from sojourn.live.engines.grpc import federation_pb2 as pb
from sojourn.live.engines.grpc.one_client import Client, Kept
from sojourn.live.engines.grpc.wire import MOST_FIELDS, to_name
from sojourn.live.worker import LoopWorker

CODE = grpc.StatusCode


@pytest.fixture
def engine():
    engine = engine_of()
    yield engine
    engine.stop(ended=False)


@pytest.fixture
def peer(engine):
    with Peer(engine.address) as peer:
        yield peer


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("size", "statistics"), [(1000, 0), (1000, 3), (1_300_000, 5)])
def test_models_and_updates_travel_bit_for_bit(dtype, size, statistics):
    engine = engine_of(("a",), size, statistics, dtype=dtype)
    running = Running(engine.address, {"a": Doubles()})
    params, stats = torch.randn(size, dtype=dtype), torch.randn(statistics, dtype=dtype) if statistics else None
    engine.offer(offer_of(0, 0, params, stats))
    (arrived,) = arrivals(engine, 1)
    engine.stop()
    running.end()
    update = arrived.update
    assert arrived.name == TaskName(0, 0, 1)
    assert update.gradient is None
    assert update.delta.dtype == dtype
    assert torch.equal(update.delta, params * 2)
    assert (update.stats is None) if stats is None else torch.equal(update.stats, stats + 1)
    assert (update.step_size, update.steps) == (0.5, 2)
    assert torch.equal(update.loss, torch.tensor(0.1, dtype=dtype))
    assert arrived.size == (size + statistics) * dtype.itemsize
    assert 0 <= arrived.service <= arrived.held


def test_a_gradient_stays_a_gradient(engine):
    running = Running(engine.address, {"b": Gradients()})
    engine.offer(offer_of(1, 0))
    (arrived,) = arrivals(engine, 1)
    assert torch.equal(arrived.update.gradient, torch.arange(6.0) * 3)
    assert arrived.update.delta is None
    running.leave()


def test_a_queue_is_served_in_order_and_clients_are_told_what_became_of_updates(engine):
    worker = Doubles()
    running = Running(engine.address, {"a": worker})
    for nth in range(5):
        engine.offer(offer_of(0, nth))
    events = events_until(engine, many(Arrived, 5))
    assert [event.name.nth for event in of_kind(Pulled, events)] == [0, 1, 2, 3, 4]
    assert [event.name.nth for event in of_kind(Arrived, events)] == worker.done == [0, 1, 2, 3, 4]
    assert events[0] == Joined(0, (), 11)
    assert worker.numbers == [0]
    engine.acknowledge([TaskName(0, nth, 1) for nth in range(4)])
    engine.refuse(TaskName(0, 4, 1), "too old")
    engine.stop()
    counts = running.end()
    assert (counts["tasks"], counts["acknowledged"], counts["refused"]) == (5, 4, 1)
    assert ("a", "task 4 was refused: too old") in running.said


def test_many_tasks_that_are_refused_for_one_reason_are_one_line():
    said = []
    client = Client("a", Doubles(), None, None, Counter(), None, lambda name, words: said.append(words))
    client._kept = {name: Kept(name, None, 0.0) for name in (TaskName(0, nth, 1) for nth in range(5))}
    reply = pb.PullReply(refused=[pb.Refusal(name=to_name(TaskName(0, nth, 1)), reason="gone") for nth in range(4)])
    reply.refused.append(pb.Refusal(name=to_name(TaskName(0, 4, 1)), reason="too old"))
    client._hear(reply)
    assert said == ["4 tasks from 0 to 3 were refused: gone", "task 4 was refused: too old"]
    assert client._counts["refused"] == 5


@pytest.mark.parametrize(("prefetch", "most"), [(False, 1), (True, 2)])
def test_a_client_holds_one_task_or_two_if_it_prefetches(prefetch, most, monkeypatch):
    monkeypatch.setattr(service, "POLL", SECONDS)  # so that only a task ends the last pull
    engine = engine_of(prefetch=prefetch)
    with Peer(engine.address) as peer:
        peer.join()
        for nth in range(4):
            engine.offer(offer_of(0, nth))
        got = [peer.pull()[0].task.name.nth for _ in range(most)]
        assert got == list(range(most))
        waiting = peer.channel.unary_unary("/sojourn.live.v1.Federation/Pull").future(
            pb.PullRequest(session=peer.session).SerializeToString()
        )
        time.sleep(0.2)
        assert not waiting.done()
        assert peer.push((0, 0, 1), torch.ones(6)).answer == pb.ANSWER_RECEIVED
        assert pb.PullReply.FromString(waiting.result(SECONDS)).task.name.nth == most
    engine.stop(ended=False)


def test_an_artificial_service_lasts_as_long_as_it_should(engine):
    running = Running(engine.address, {"a": Doubles(service=1.0), "b": Doubles(service=1.0)})
    begin = time.monotonic()
    engine.offer(offer_of(0, 0))
    engine.offer(offer_of(1, 0))
    for arrived in arrivals(engine, 2):
        assert 1.0 <= arrived.service <= arrived.held < 5
    assert time.monotonic() - begin < 20
    running.leave()


def test_the_model_of_many_tasks_is_one_payload(engine):
    params = torch.arange(6.0)
    for nth in range(10):
        engine.offer(offer_of(0, nth, params))
    assert len(engine._payloads) == 1


def test_a_repeated_push_does_no_harm(engine, peer, monkeypatch):
    monkeypatch.setattr(service, "POLL", 0.1)
    peer.join()
    engine.offer(offer_of(0, 0))
    peer.pull()
    name = TaskName(0, 0, 1)
    assert [peer.push(name, torch.ones(6)).answer for _ in range(3)] == [pb.ANSWER_RECEIVED] * 3
    engine.acknowledge([name])
    reply, _ = peer.pull()
    assert [one.nth for one in reply.acknowledged] == [0]
    assert peer.push(name, torch.ones(6)).answer == pb.ANSWER_ACKNOWLEDGED
    engine.offer(offer_of(0, 1))
    peer.pull(reply.serial)
    peer.push((0, 1, 1), torch.ones(6))
    assert [event.name.nth for event in arrivals(engine, 2)] == [0, 1]


def test_news_are_told_again_until_the_client_has_seen_them(engine, peer, monkeypatch):
    monkeypatch.setattr(service, "POLL", 0.1)
    peer.join()
    for nth in range(3):
        engine.offer(offer_of(0, nth))
    peer.pull()
    peer.push((0, 0, 1), torch.ones(6))
    engine.acknowledge([TaskName(0, 0, 1)])
    first, _ = peer.pull()
    engine.refuse(TaskName(0, 1, 1), "no use")
    again, _ = peer.pull()
    engine.refuse(TaskName(0, 2, 1), "no use")
    last, _ = peer.pull(again.serial)
    assert len(first.acknowledged) == len(again.acknowledged) == 1
    assert [one.name.nth for one in again.refused] == [1]
    assert not last.acknowledged
    assert [one.name.nth for one in last.refused] == [2]


def test_a_task_that_is_taken_back_blocks_its_client_until_its_update_is_there(engine, peer, monkeypatch):
    monkeypatch.setattr(service, "POLL", 0.1)
    peer.join()
    for nth in range(3):
        engine.offer(offer_of(0, nth))
    assert peer.pull()[0].task.name.nth == 0
    engine.withdraw(TaskName(0, 0, 1))
    engine.withdraw(TaskName(0, 1, 1))  # still in the queue
    assert not peer.pull()[0].HasField("task")
    assert peer.push((0, 0, 1), torch.ones(6)).answer == pb.ANSWER_RECEIVED
    assert [event.name.nth for event in arrivals(engine, 1)] == [0]
    engine.refuse(TaskName(0, 0, 1), "it came too late")
    reply, _ = peer.pull()
    assert reply.task.name.nth == 2
    assert [(one.name.nth, one.reason) for one in reply.refused] == [(0, "it came too late")]


NAN = torch.tensor([0.0, 1.0, float("nan"), 0.0, 0.0, 0.0])
INF = torch.tensor([0.0, 1.0, float("inf"), -float("inf"), 0.0, 0.0])
HUGE = torch.full((6,), 3e38)  # finite, but not its sum


@pytest.mark.parametrize(
    ("numbers", "facts", "reason"),
    [
        (torch.ones(5), {}, "an update must have 24 bytes, got 20"),
        (torch.ones(60), {}, "an update must have 24 bytes, got 240"),
        (torch.ones(60), {"size": 24}, "240 bytes at 0 are no part of an update of 24 bytes"),
        (torch.ones(6), {"offset": 4}, "24 bytes at 4 are no part of an update of 24 bytes"),
        (torch.ones(6, dtype=torch.float64), {}, "an update must have 24 bytes, got 48"),
        (NAN, {}, "an update must have finite numbers only"),
        (INF, {}, "an update must have finite numbers only"),
        (torch.ones(6), {"kind": 0}, "the kind 0 of an update is not known"),
        (torch.ones(6), {"kind": 9}, "the kind 9 of an update is not known"),
        (torch.ones(6), {"loss": float("nan")}, "the loss must be at most 3.4e+38, got nan"),
        (torch.ones(6), {"loss": -1e39}, "the loss must be at most 3.4e+38, got -1e+39"),
        (torch.ones(6), {"service": -1.0}, "seconds must lie between 0 and 31622400, got (-1.0, 0.0)"),
        (torch.ones(6), {"service": 1e200}, "seconds must lie between 0 and 31622400, got (1e+200, 0.0)"),
        (torch.ones(6), {"held": float("inf")}, "seconds must lie between 0 and 31622400, got (0.0, inf)"),
        (torch.ones(6), {"step_size": 0.0}, "an update must have the step size of its task, got 0.0"),
        (torch.ones(6), {"steps": 2**40}, "the steps of an update must be below 2147483648, got 1099511627776"),
    ],
)
def test_an_update_of_the_wrong_form_is_refused_with_a_reason(engine, peer, numbers, facts, reason):
    peer.join()
    engine.offer(offer_of(0, 0))
    peer.pull()
    reply = peer.push((0, 0, 1), numbers, **facts)
    assert (reply.answer, reply.reason) == (pb.ANSWER_REFUSED, reason)
    events = events_until(engine, many(Rejected))
    assert events[-1] == Rejected(0, TaskName(0, 0, 1), reason)
    assert peer.push((0, 0, 1), torch.ones(6)).reason == reason
    assert not of_kind(Arrived, events)


def test_large_finite_numbers_are_not_refused(engine, peer):
    peer.join()
    engine.offer(offer_of(0, 0))
    peer.pull()
    assert peer.push((0, 0, 1), HUGE).answer == pb.ANSWER_RECEIVED


@pytest.mark.parametrize("name", [(0, 0, 1), (1, 0, 1), (0, 7, 1), (0, 0, 2)])
def test_an_update_of_a_task_that_the_client_does_not_have_is_refused(engine, peer, name):
    engine.offer(offer_of(1, 0))
    peer.join()
    assert peer.push(name, torch.ones(6)).reason == "the client does not have this task"
    assert events_until(engine, many(Rejected))[-1] == Rejected(0, None, "the client does not have this task")


def refused(call, code):
    with pytest.raises(grpc.RpcError) as caught:
        call()
    assert caught.value.code() == code
    return caught.value.details()


def test_calls_without_a_session_are_refused(engine, peer):
    peer.join()
    peer.session = "another"
    for call in (peer.pull, lambda: peer.push((0, 0, 1), torch.ones(6)), lambda: next(peer.watch())):
        assert "does not know this session" in refused(call, CODE.NOT_FOUND)


def test_a_client_of_another_protocol_model_or_name_is_refused(engine, peer):
    code = CODE.FAILED_PRECONDITION
    assert "the server speaks protocol 2, the client 1" in refused(lambda: peer.join(protocol=1), code)
    assert "protocol" in events_until(engine, many(TurnedAway))[-1].reason
    assert "must have 6 parameters and 0 statistics" in refused(lambda: peer.join(parameters=7), code)
    assert "parameters" in events_until(engine, many(TurnedAway))[-1].reason
    assert "'zoe'" in refused(lambda: peer.join("zoe"), CODE.PERMISSION_DENIED)
    assert events_until(engine, many(TurnedAway))[-1].who == "zoe"


@pytest.mark.parametrize("content", [b"\xff", b"\x0a\xff\xff\xff\xff\x7f", b"\x7b", b"\x0a\x02\xff\xfe"])
@pytest.mark.parametrize("method", ["Join", "Pull", "Fetch", "Push", "Leave"])
def test_bytes_that_are_no_message_are_refused(engine, peer, method, content):
    with pytest.raises(grpc.RpcError) as caught:
        peer.call(method, content)
    assert caught.value.code() in (CODE.INVALID_ARGUMENT, CODE.NOT_FOUND, CODE.FAILED_PRECONDITION)


def test_a_message_of_very_many_fields_is_refused_before_they_are_read(engine, peer):
    peer.join()
    content = pb.PushRequest(session=peer.session).SerializeToString() + b"\x40\x00" * MOST_FIELDS
    refused(lambda: peer.call("Push", content), grpc.StatusCode.INVALID_ARGUMENT)


def test_a_message_that_is_too_long_is_refused(engine, peer):
    peer.join()
    refused(lambda: peer.push((0, 0, 1), bytes(10 * 2**20)), CODE.RESOURCE_EXHAUSTED)


def test_open_slots_go_to_clients_in_the_order_of_joining():
    engine = engine_of(("a",), open_slots=[0, 3, 2])
    with Peer(engine.address) as peer:
        assert [peer.join(name).client for name in ("x", "a", "y", "x")] == [3, 0, 2, 3]
        refused(lambda: peer.join("z"), CODE.PERMISSION_DENIED)
    assert engine.names == {"a": 0, "x": 3, "y": 2}
    engine.stop(ended=False)


def test_a_client_of_a_name_in_the_fleet_gets_its_own_number():
    engine = engine_of((), open_slots=[0, 1, 2, 3], meant={"a": 0, "b": 1, "c": 2, "d": 3})
    with Peer(engine.address) as peer:
        assert [peer.join(name).client for name in ("c", "x", "b", "a", "c")] == [2, 0, 1, 3, 2]
    engine.stop(ended=False)


def test_an_expelled_client_is_told_and_comes_no_more(engine):
    running = Running(engine.address, {"a": Doubles()})
    events_until(engine, many(Joined))
    engine.expel(0, "too many wrong updates")
    running.end()
    assert isinstance(running.error, InvalidInput)
    assert "was expelled: too many wrong updates" in str(running.error)


def test_a_second_process_of_the_same_name_takes_over(engine):
    first = Running(engine.address, {"a": Doubles()})
    engine.offer(offer_of(0, 0))
    arrivals(engine, 1)
    second = Running(engine.address, {"a": Doubles()})
    first.end()
    assert "another process has joined as a" in str(first.error)
    engine.offer(offer_of(0, 1))
    arrivals(engine, 1)
    engine.stop()
    assert second.end()["tasks"] == 1


def test_a_client_that_leaves_is_gone_at_once(engine, monkeypatch):
    monkeypatch.setitem(calls.SECONDS, "Leave", SECONDS)  # a busy machine may need longer than a second
    running = Running(engine.address, {"a": Doubles()})
    events_until(engine, many(Joined))
    running.leave()
    assert events_until(engine, many(Left))[-1] == Left(0, "the client was stopped")  # and not: its connection broke


def test_a_worker_that_cannot_do_the_work_ends_its_client(engine):
    class Small(Doubles):
        def begin(self, client, work):
            raise InvalidInput("the model must have 5 parameters, got 6; choose another")

    running = Running(engine.address, {"a": Small(), "b": Doubles()})
    events = events_until(engine, lambda events: many(Left)(events) and many(Joined)(events))
    assert [event.client for event in of_kind(Joined, events)] == [1]  # it was never there
    assert [(event.client, event.reason[:9]) for event in of_kind(Left, events)] == [(0, "the model")]
    engine.stop()
    assert running.end()["failed"] == 1


def test_a_client_with_another_model_is_refused_before_it_is_there(engine):
    running = Running(engine.address, {"a": LoopWorker(torch.nn.Linear(6, 1), lambda module, task: 0.0)})
    running.end()
    assert "must have 6 parameters and 0 statistics, the client's has 7 and 0" in str(running.error)
    engine.stop(ended=False)
    events = iter(lambda: engine.receive(0.0), None)
    assert not of_kind(Joined, events)


@pytest.mark.parametrize("address", ["127.0.0.1:99999", "127.0.0.1", "127.0.0.1:x", "no.such.host.invalid:0"])
def test_an_address_that_makes_no_sense_is_refused(address):
    with pytest.raises(InvalidInput, match=f"cannot listen at {address}"):
        engine_of(address=address)


def test_two_servers_cannot_share_an_address(engine):
    with pytest.raises(InvalidInput, match=r"cannot listen at .*: the address is in use; name another address"):
        engine_of(address=engine.address)


def test_a_model_of_the_wrong_size_or_type_is_not_offered(engine):
    with pytest.raises(InvalidInput, match=r"must have a model of sizes \(6, 0\)"):
        engine.offer(offer_of(0, 0, torch.ones(5)))
    with pytest.raises(InvalidInput, match="float64"):
        engine.offer(offer_of(0, 0, torch.ones(6, dtype=torch.float64)))
