"""Whole live runs with clients that answer late, send nonsense, have the wrong keys, or come and go."""

import json
import threading
import time
from dataclasses import replace

import grpc
import numpy as np
import pytest
import torch
from grpc_peers import SECONDS, Peer, Running

from live.pretended_clients import Federation, Pretended
from sojourn import Trace
from sojourn.learning.data.load import load_problem
from sojourn.learning.run.config import TrainConfig
from sojourn.live.engine import Joined
from sojourn.live.engines.grpc import federation_pb2 as pb
from sojourn.live.journal import Commit, Journal
from sojourn.live.keys import ClientKeys, make_keys, revoke
from sojourn.live.pace import Pace
from sojourn.live.replayed import replay_run
from sojourn.live.run import LiveRun, Settings, built_for
from sojourn.live.serve import open_server
from sojourn.live.settings import ServerFile
from sojourn.live.worker import FederationWorker, Task
from sojourn.trace import LOST, REFUSED

NAMES = {"a": 0, "b": 1, "c": 2, "d": 3}
CODE = grpc.StatusCode
UPDATES = 600  # of a whole run: ten seconds, in which there is time for all that clients do wrong


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nall,4,20\n")
    return TrainConfig(
        str(path), cap="1", concurrency=4, steps=UPDATES, partition="classes(k=3)", model="mlp(hidden=8)", device="cpu"
    )


def worker(config, kind=FederationWorker):
    built = built_for(config)
    return kind(built.federation, Pace.of(built))


def served(config, folder, **settings):
    file = ServerFile("127.0.0.1:0", out=str(folder / "live"), **{"begin_with": 4, **settings})
    return open_server(config, file, names=NAMES)


def finished(run, *running):
    """Run to the end, and return the trace; the model must be that of a replay."""
    limit = threading.Event()
    timer = threading.Timer(3 * SECONDS, limit.set)
    timer.start()
    try:
        with run:
            assert run.run(limit)
    finally:
        timer.cancel()
    for one in running:
        one.end()
    assert replay_run(run.folder, run.folder.parent / "again").same
    return Trace.load(run.folder / "trace.parquet")


class Stuck(FederationWorker):
    """Does not come to an end with one task until it is let go."""

    def __init__(self, *given):
        super().__init__(*given)
        self.free = threading.Event()

    def compute(self, task):
        if task.nth == 3:
            self.free.wait(SECONDS)
        return super().compute(task)


@pytest.mark.slow
def test_a_client_that_does_not_answer_is_given_up_and_its_late_answer_refused(config, tmp_path):
    run, stuck = served(config, tmp_path, patience=3.0), worker(config, Stuck)
    slow = Running(run.engine.address, {"d": stuck})
    good = Running(run.engine.address, dict.fromkeys("abc", worker(config)))
    given_up = []

    def let_go():
        until = time.monotonic() + 2 * SECONDS
        while time.monotonic() < until and not run.loop.faults.counts["timeouts"]:
            time.sleep(0.01)
        given_up.append(run.server.received)
        stuck.free.set()

    helper = threading.Thread(target=let_go)
    helper.start()
    trace = finished(run, slow, good)
    helper.join()
    assert trace.client[trace.fate == LOST].tolist() == [3]
    assert trace.metadata["faults"] == {"lost": 1, "timeouts": 1, "late": 1, "refused": 1}
    assert [(one["client"], one["nth"], one["reason"]) for one in trace.metadata["refusals"]] == [
        (3, 3, "it came too late")
    ]
    assert ("d", "task 3 was refused: it came too late") in slow.said
    assert given_up[0] < UPDATES
    assert (trace.applied & (trace.client == 3) & (trace.dispatched_step > given_up[0])).any()  # it got tasks again


class Liar:
    """Client d, by single calls: right ones and wrong ones."""

    def __init__(self, peer, config):
        self.peer, self.worker, self.seen = peer, worker(config), 0

    def task(self):
        """Pull until there is a task; return its name and its true update."""
        for _ in range(10):
            reply, data = self.peer.pull(self.seen)
            self.seen = reply.serial
            if reply.HasField("task"):
                break
        task, name = reply.task, reply.task.name
        numbers = torch.frombuffer(bytearray(data), dtype=torch.float32)
        self.facts = {"step_size": task.step_size}
        update = self.worker.compute(Task(name.client, name.nth, task.step, numbers, None, task.step_size, task.steps))
        plain = update.gradient is not None
        self.facts |= {"kind": pb.KIND_GRADIENT if plain else pb.KIND_DELTA, "steps": update.steps}
        self.facts |= {"loss": float(update.loss)}
        return (name.client, name.nth, name.epoch), update.gradient if plain else update.delta

    def push(self, name, numbers):
        reply = self.peer.push(name, numbers, **self.facts)
        return reply.answer, reply.reason


def refused(call, code):
    with pytest.raises(grpc.RpcError) as caught:
        call()
    assert caught.value.code() == code, caught.value
    return caught.value.details()


def turned_away(run):
    """Return who was turned away and why, by the log."""
    lines = map(json.loads, (run.folder / "log.jsonl").read_text().splitlines())
    return [(line["who"], line["reason"]) for line in lines if line["what"] == "turned away"]


@pytest.mark.slow
def test_nonsense_never_reaches_the_model_and_its_sender_is_expelled_after_three(config, tmp_path):
    run, found = served(config, tmp_path), []

    def lie():
        with Peer(run.engine.address) as peer:
            liar = Liar(peer, config)
            found.append(refused(lambda: peer.join("d", protocol=1), CODE.FAILED_PRECONDITION))
            peer.join("d")
            watch = peer.watch()
            name, update = liar.task()
            found.append(liar.push(name, torch.full_like(update, float("nan"))))
            name, update = liar.task()
            found.append([liar.push(name, update), liar.push(name, update)])  # repeated, and a good one: it counts once
            name, update = liar.task()
            found.append(liar.push(name, update[:-1]))
            found.append(liar.push((3, 999, 1), update))
            name, update = liar.task()
            found.append(liar.push(name, update.repeat(10)))
            found.append(next(watch))
            found.append(refused(lambda: peer.join("d"), CODE.PERMISSION_DENIED))

    liar = threading.Thread(target=lie)
    liar.start()
    trace = finished(run, Running(run.engine.address, dict.fromkeys("abc", worker(config))))
    liar.join(SECONDS)
    reasons = [one["reason"] for one in trace.metadata["refusals"] if one["client"] == 3]
    size = 4 * run.server.params.numel()
    assert reasons == [
        "an update must have finite numbers only",
        f"an update must have {size} bytes, got {size - 4}",
        "the client does not have this task",
        f"an update must have {size} bytes, got {10 * size}",
    ]
    assert ("d", found[0]) == turned_away(run)[0]  # it was not in yet, so this is no strike
    assert [found[1], *found[3:6]] == [(pb.ANSWER_REFUSED, reason) for reason in reasons]
    assert found[2] == [(pb.ANSWER_RECEIVED, "")] * 2
    assert b"3 messages in a row were refused" in found[6]
    assert "the client d was expelled: 3 messages in a row were refused" in found[7]
    assert (trace.fate == REFUSED).sum() == 3
    assert (trace.applied & (trace.client == 3)).sum() == 1
    assert trace.metadata["faults"] == {"refused": 4, "expelled": 1}


@pytest.mark.slow
def test_wrong_keys_do_not_get_in_and_a_revoked_client_goes_while_the_others_work(config, tmp_path):
    folder, found = tmp_path / "keys", []
    make_keys(folder, list(NAMES))
    make_keys(tmp_path / "other", ["a"])
    keys = {name: ClientKeys.load(folder / "clients" / name) for name in NAMES}
    run = served(config, tmp_path, keys=str(folder / "server"))
    address = run.engine.address
    running = {name: Running(address, {name: worker(config)}, keys=keys[name]) for name in NAMES}

    def try_others():
        own = grpc.ssl_channel_credentials(keys["a"].authority, keys["a"].key, keys["a"].certificate)
        with Peer(address, own, "wrong") as peer:
            found.append(refused(lambda: peer.join("a"), CODE.UNAUTHENTICATED))
        strange = ClientKeys.load(tmp_path / "other" / "clients" / "a")
        with Peer(
            address,
            grpc.ssl_channel_credentials(keys["a"].authority, strange.key, strange.certificate),
            keys["a"].token,
        ) as peer:
            found.append(refused(lambda: peer.join("a"), CODE.UNAVAILABLE))
        until = time.monotonic() + SECONDS
        while time.monotonic() < until and run.server.received < 50:
            time.sleep(0.01)
        revoke(folder, "d")

    helper = threading.Thread(target=try_others)
    helper.start()
    trace = finished(run, *running.values())
    helper.join(SECONDS)
    assert "token" in found[0]
    assert len(found) == 2
    assert "revoked" in str(running["d"].error)
    assert [running[name].error for name in "abc"] == [None] * 3
    assert set(turned_away(run)) == {("a", "unknown token"), ("d", "revoked")}
    assert not trace.metadata["refusals"]
    told = [(one["who"], one["reason"]) for one in trace.metadata["turned_away"]]
    assert {("a", "unknown token"), ("d", "revoked")} == set(told)
    assert int(trace.applied.sum()) == UPDATES


class Seldom(Journal):
    """Commits now and then, at once."""

    asked = 0

    def wait(self):
        self.asked += 1
        return 0.0 if self.asked % 2000 == 0 else 1.0

    def commit(self, commit: Commit):
        self._put(commit)
        commit.then()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_correction_of_one_trains_the_objective_of_the_clients_present(config, tmp_path, monkeypatch, seed):
    """Means over long stretches meet the optimum within four standard errors, each below a tenth of the distances."""
    monkeypatch.setattr("sojourn.live.run.Journal", Seldom)
    (tmp_path / "fleet.csv").write_text("name,count,rate\nfast,3,4\nslow,3,1\n")
    text = "quadratic(dimension=2, clients=6, examples=20, condition=1, heterogeneity=2, noise=0.2)"
    config = replace(config, data=text, partition="natural", model="problem", concurrency=6, correction=1.0)
    config = replace(config, step_size=0.02, steps=None, time=1600.0, seed=seed)
    times, rng = np.array([4.0] * 3 + [1.0] * 3), np.random.default_rng(seed)
    federation = Federation(
        FederationWorker(built_for(config).federation),
        lambda client, nth: float(np.random.default_rng((seed, client, nth)).exponential(1 / times[client])),
        range(6),
    )
    run = LiveRun(config, tmp_path / "live", lambda *_: Pretended(federation), Settings(begin_with=6))
    absent, seen = set(), {"some": [], "all": []}

    def go(client, away):
        if away and client not in absent:
            absent.add(client)
            run.engine.leave(client)
        if not away and client in absent:
            absent.discard(client)
            run.engine.happen(0.0, Joined(client, ()))

    def look(one):
        now = one.loop.now
        if now < 400 and now > len(moves):  # somebody comes or goes every second; 0 and 3 are away most of the time
            moves.append(now)
            client = int(rng.integers(6))
            go(client, away=client not in absent and (client in (0, 3) or bool(rng.integers(2))))
        elif 400 <= now < 1000:
            for client in range(6):
                go(client, away=client in (0, 3))
            if now > 500:
                seen["some"].append(one.server.params.double().numpy().copy())
        elif now >= 1000:
            for client in range(6):
                go(client, away=False)
            if now > 1100:
                seen["all"].append(one.server.params.double().numpy().copy())

    moves = []
    with run:
        assert run.run(threading.Event(), look)
    problem = load_problem(text)
    for key, weights in (("some", np.array([0, 1, 1, 0, 1, 1]) / 4), ("all", np.full(6, 1 / 6))):
        blocks = np.array([block.mean(axis=0) for block in np.array_split(np.array(seen[key]), 10)])
        error = blocks.std(axis=0, ddof=1) / np.sqrt(10)
        apart = np.abs(blocks.mean(axis=0) - weights @ problem.means)
        assert (error < 0.1).all()
        assert (apart < 4 * error).all(), (key, apart, error)
    assert np.abs(problem.means[[1, 2, 4, 5]].mean(axis=0) - problem.means.mean(axis=0)).max() > 1.0
