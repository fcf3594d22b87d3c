"""Updates that a wrapper has compressed are packed on the way: shorter, and the same to the bit."""

import tracemalloc
import zlib

import pytest
import torch
from grpc_peers import Peer, Running, Sparse, arrivals, engine_of, events_until, many, of_kind, offer_of

from sojourn.live.engine import Rejected
from sojourn.live.engines.grpc import federation_pb2 as pb
from sojourn.live.engines.grpc.packing import packed, unpacked
from sojourn.live.engines.grpc.wire import Payload

SIZE = 3000


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_was_packed_is_the_same_to_the_bit(dtype):
    numbers = torch.zeros(1000, dtype=dtype)
    numbers[::50] = torch.randn(20, dtype=dtype)
    numbers[1] = -0.0
    short = packed(Payload(numbers[:900], numbers[900:]), dtype.itemsize)
    assert short.size < short.unpacked == numbers.nbytes
    found = unpacked(short.parts[0], numbers.nbytes, dtype)
    assert found.dtype == dtype
    assert found.numpy().tobytes() == numbers.numpy().tobytes()


def test_signs_take_little_more_than_a_bit_each():
    signs = torch.where(torch.randn(100_000, generator=torch.Generator().manual_seed(1)) > 0, 0.3, -0.3)
    assert packed(Payload(signs), 4).size < 1.6 * signs.numel() / 8


def test_what_cannot_be_packed_stays_as_it_is():
    content = Payload(torch.randn(1000))
    noise = Payload(torch.randint(256, (4000,), dtype=torch.uint8))
    assert packed(noise, 4) is noise
    assert packed(content, 4).unpacked == content.size


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no stream at all",
        zlib.compress(bytes(39)),
        zlib.compress(bytes(41)),
        zlib.compress(bytes(10**7)),
        zlib.compress(bytes(40))[:-3],
        zlib.compress(bytes(40)) + b"more",
        zlib.compress(bytes(40))[:-1] + b"?",
    ],
    ids=["nothing", "text", "too short", "too long", "a bomb", "cut off", "with an end", "with a wrong checksum"],
)
def test_bytes_that_are_no_packed_update_are_nothing(data):
    assert unpacked(memoryview(data), 40, torch.float32) is None


def test_of_a_bomb_no_more_is_unpacked_than_an_update_has():
    bomb = memoryview(zlib.compress(bytes(10**8)))
    tracemalloc.start()
    try:
        assert unpacked(bomb, 40, torch.float32) is None
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("statistics", [0, 5])
def test_a_compressed_update_travels_packed_and_arrives_whole(dtype, statistics):
    engine = engine_of(("a",), SIZE, statistics, dtype=dtype)
    running = Running(engine.address, {"a": Sparse()})
    params, stats = torch.randn(SIZE, dtype=dtype), torch.zeros(statistics, dtype=dtype) if statistics else None
    engine.offer(offer_of(0, 0, params, stats))
    (arrived,) = arrivals(engine, 1)
    engine.stop()
    running.end()
    assert torch.equal(arrived.update.delta[::100], params[::100])
    assert arrived.update.delta.count_nonzero() == SIZE / 100
    assert 0 < arrived.size < SIZE * dtype.itemsize / 10


def test_a_large_update_travels_packed_in_chunks():
    size = 4_000_000
    engine = engine_of(("a",), size)
    running = Running(engine.address, {"a": Noisy()})
    params = torch.randn(size, generator=torch.Generator().manual_seed(0))
    engine.offer(offer_of(0, 0, params))
    (arrived,) = arrivals(engine, 1)
    engine.stop()
    running.end()
    assert 2 * 2**20 < arrived.size < 4 * size
    assert torch.equal(arrived.update.delta, torch.where(params > 0, params, 0.0))


class Noisy(Sparse):
    """Sends the positive numbers of the model as difference."""

    def compute(self, task):
        update = super().compute(task)
        return update._replace(delta=torch.where(task.params > 0, task.params, 0.0))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"packing": 7, "packed": 8}, "the packing 7 of an update is not known"),
        ({"packing": 1, "packed": 24}, "a packed update must have fewer than 24 bytes, got 24"),
        ({"packing": 0, "packed": 8}, "a packed update must have fewer than 24 bytes, got 8"),
        ({"packing": 1, "packed": 8}, "its bytes are no packed update of 24 bytes"),
        ({"packing": 1, "packed": 9}, "8 bytes at 0 are no part of an update of 9 bytes"),
    ],
)
def test_a_wrongly_packed_update_is_refused_with_a_reason(fields, reason):
    engine = engine_of()
    with Peer(engine.address) as peer:
        peer.join()
        engine.offer(offer_of(0, 0))
        peer.pull()
        reply = peer.push((0, 0, 1), torch.ones(2), size=24, **fields)
        assert (reply.answer, reply.reason) == (pb.ANSWER_REFUSED, reason)
        (rejected,) = of_kind(Rejected, events_until(engine, many(Rejected)))
        assert rejected.reason == reason
    engine.stop(ended=False)


def test_parts_that_disagree_about_the_packing_are_refused():
    size = 1_000_000
    engine = engine_of(("a",), size)
    with Peer(engine.address) as peer:
        peer.join()
        engine.offer(offer_of(0, 0, torch.zeros(size)))
        peer.pull()
        part = torch.zeros(2**18)
        facts = {"size": 4 * size}
        assert peer.push((0, 0, 1), part, packing=1, packed=3 * 2**20, **facts).answer == pb.ANSWER_STORED
        reply = peer.push((0, 0, 1), part, offset=2**20, **facts)
        assert reply.reason == "the parts of an update must agree about its size and packing"
    engine.stop(ended=False)
