"""Peers of a gRPC engine for tests: workers whose results are known, a client that says what it is told to say.

As a program it runs clients: python grpc_peers.py ADDRESS SERVICE NAME...
"""

import json
import sys
import threading
import time

import grpc
import torch

from sojourn.learning.replay.local import Local, Update
from sojourn.live.engine import Arrived, Offer, TaskName, Work
from sojourn.live.engines.grpc import federation_pb2 as pb
from sojourn.live.engines.grpc.client import run_clients
from sojourn.live.engines.grpc.server import GrpcEngine
from sojourn.live.engines.grpc.wire import PROTOCOL, SERVICE, joined, split

SECONDS = 60.0  # that anything may take


def work_of(parameters=6, statistics=0, prefetch=False):
    return Work(parameters, statistics, Local(), 7, "shuffled", prefetch)


def offer_of(client, nth, params=None, stats=None, epoch=1):
    params = torch.arange(6.0) if params is None else params
    return Offer(TaskName(client, nth, epoch), params, stats, nth, 0.5, 2)


class Doubles:
    """Sends twice the model as difference, and the statistics plus one."""

    examples = 11

    def __init__(self, service=0.0):
        self.seconds, self.done, self.numbers = service, [], []

    def begin(self, client, work):
        self.numbers.append(client)

    def compute(self, task):
        self.done.append(task.nth)
        stats = None if task.stats is None else task.stats + 1
        return Update(None, task.params * 2, task.step_size, 2, task.params.new_tensor(0.1), stats)

    def service(self, client, nth):
        return self.seconds


class Gradients(Doubles):
    """Sends three times the model as gradient."""

    def compute(self, task):
        return Update(task.params * 3, None, task.step_size, 1, task.params.new_tensor(0.25))


class Sparse(Doubles):
    """Sends every hundredth number of the model as difference, and says that this takes few bits."""

    def compute(self, task):
        kept = torch.zeros_like(task.params)
        kept[::100] = task.params[::100]
        return Update(None, kept, task.step_size, 2, task.params.new_tensor(0.1), task.stats, bits=64)


class Running:
    """Clients in a thread of this process."""

    def __init__(self, address, clients, **options):
        self.counts, self.error, self.said, self.stop = {}, None, [], threading.Event()
        self.thread = threading.Thread(target=self._run, args=(address, clients, options), daemon=True)
        self.thread.start()

    def _run(self, address, clients, options):
        try:
            self.counts = run_clients(address, clients, stop=self.stop, on_event=self._say, **options)
        except Exception as error:
            self.error = error

    def _say(self, name, words):
        self.said.append((name, words))

    def end(self):
        """Wait until the clients have ended by themselves."""
        self.thread.join(SECONDS)
        assert not self.thread.is_alive()
        return self.counts

    def leave(self):
        self.stop.set()
        return self.end()


def engine_of(names=("a", "b"), parameters=6, statistics=0, prefetch=False, address="127.0.0.1:0", **options):
    numbers = {name: number for number, name in enumerate(names)}
    return GrpcEngine(address, work_of(parameters, statistics, prefetch), names=numbers, **options)


def events_until(engine, enough, seconds=SECONDS):
    """Return the events up to the first after which `enough(events)` holds."""
    events, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        event = engine.receive(0.1)
        if event is not None:
            events.append(event)
            if enough(events):
                return events
    raise AssertionError(f"not enough events: {events}")


def of_kind(kind, events):
    return [event for event in events if isinstance(event, kind)]


def many(kind, number=1):
    return lambda events: len(of_kind(kind, events)) >= number


def arrivals(engine, number):
    return of_kind(Arrived, events_until(engine, many(Arrived, number)))


class Peer:
    """A client that makes single calls, right or wrong ones."""

    def __init__(self, address, credentials=None, token=None):
        self.channel = (
            grpc.insecure_channel(address) if credentials is None else grpc.secure_channel(address, credentials)
        )
        self.metadata = None if token is None else (("authorization", f"Bearer {token}"),)
        self.session = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def call(self, method, content):
        return self.channel.unary_unary(f"/{SERVICE}/{method}")(content, timeout=SECONDS, metadata=self.metadata)

    def join(self, name="a", protocol=PROTOCOL, **fields):
        request = pb.JoinRequest(protocol=protocol, client=name, **fields)
        reply = pb.JoinReply.FromString(self.call("Join", request.SerializeToString()))
        self.session = reply.session
        return reply

    def watch(self):
        request = pb.WatchRequest(session=self.session).SerializeToString()
        return self.channel.unary_stream(f"/{SERVICE}/Watch")(request, metadata=self.metadata)

    def pull(self, seen=0):
        """Return the reply and the numbers that came with it."""
        request = pb.PullRequest(session=self.session, seen=seen)
        reply, data = split(pb.PullReply, self.call("Pull", request.SerializeToString()))
        return reply, data

    def push(self, name, numbers, **facts):
        content = memoryview(numbers.numpy().tobytes()) if isinstance(numbers, torch.Tensor) else memoryview(numbers)
        usual = {"kind": pb.KIND_DELTA, "step_size": 0.5, "steps": 2, "loss": 0.5, "size": len(content)}
        name = pb.TaskName(client=name[0], nth=name[1], epoch=name[2])
        request = pb.PushRequest(session=self.session, name=name, **usual | facts)
        return pb.PushReply.FromString(self.call("Push", joined(request, [content])))


def main():
    address, service, *names = sys.argv[1:]
    print(json.dumps(run_clients(address, {name: Doubles(float(service)) for name in names}, patience=SECONDS)))


if __name__ == "__main__":
    main()
