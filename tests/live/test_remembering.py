"""Live clients that do something with an update before they send it, and keep a memory: the replay is the same."""

import json
import threading
from dataclasses import replace
from functools import reduce

import pytest
import torch

from small_runs import simulated
from sojourn import InvalidInput, SojournError
from sojourn.learning.algorithms.base import Sent
from sojourn.learning.algorithms.fedbuff import FedBuff
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.replay.local import Local, Update
from sojourn.learning.replay.timeline import Ended
from sojourn.learning.run.config import TrainConfig
from sojourn.learning.wrappers import Gaussian, Lora, Qsgd, TopK
from sojourn.live.engine import Work
from sojourn.live.remembering import client_side, fingerprint, mark_after, remembering
from sojourn.live.server import LiveServer, inexact
from sojourn.live.worker import Task, check_model
from sojourn.testing.algorithm import same

LOCAL = Local(step_size=0.1, batch_size=4)
WORK = Work(4, 0, LOCAL, 0, "shuffled", False)


def model():
    torch.manual_seed(0)
    return FlatModel(torch.nn.Linear(3, 1))


class Counting:
    """A worker whose nth update has n + 1 in its first places."""

    examples = 0

    def begin(self, client, work):
        check_model(model(), work)

    def compute(self, task):
        delta = torch.tensor([task.nth + 1.0, task.nth + 1.0, 0.5, 0.0])
        return Update(None, delta, task.step_size, 1, torch.zeros(()))

    def service(self, client, nth):
        return 1.5


def task(client, nth):
    return Task(client, nth, 0, torch.zeros(4), None, 0.1, 1, 0)


def worker(made, key=lambda client, nth: nth):
    return remembering(Counting(), (made, fingerprint(made, model())), key)


def test_a_client_keeps_its_memory_from_task_to_task_and_says_how_much_it_knows():
    mine = worker(TopK(share=0.25)(FedBuff()))
    sums = torch.zeros(4)
    mark = 0
    for nth in range(3):
        update = mine.compute(task(1, nth))
        assert update.remembered == mark
        mark = mark_after(mark, nth)
        sums = sums + update.vector
    assert mine.compute(task(0, 0)).remembered == 0  # another client of the process
    kept = mine._kept[1][1].own.error
    assert (sums + kept).tolist() == [6.0, 6.0, 1.5, 0.0]
    assert mine.service(1, 0) == 1.5


def test_a_refused_update_is_undone_if_it_was_the_last():
    mine = worker(TopK(share=0.25)(FedBuff()))
    for nth in range(2):
        mine.compute(task(1, nth))
    before = mine._kept[1]
    mine.compute(task(1, 2))
    mine.undo(1, 0)  # a later task has been computed with it
    assert mine._kept[1][0] == marked(0, 1, 2)
    mine.undo(1, 2)
    assert mine._kept[1] == before
    again = mine.compute(task(1, 3))
    assert again.remembered == marked(0, 1)


def test_a_client_with_another_algorithm_is_refused_with_a_reason():
    mine = worker(TopK(share=0.25)(FedBuff()))
    right = fingerprint(TopK(share=0.25)(FedBuff()), model())
    mine.begin(0, WORK._replace(algorithm=right))
    other = fingerprint(TopK(share=0.5)(FedBuff()), model())
    assert right != other != fingerprint(TopK(share=0.25)(FedBuff(size=3)), model())
    with pytest.raises(InvalidInput, match=f"the server's is another, with {other}; give both the same keys"):
        mine.begin(0, WORK._replace(algorithm=other))
    with pytest.raises(InvalidInput, match="this client does not know what; give it the server's keys"):
        Counting().begin(0, WORK._replace(algorithm=right))
    plain = FedBuff(size=3)
    assert fingerprint(plain, model()) == ""
    assert isinstance(remembering(Counting(), (plain, "")), Counting)


def test_other_frozen_parameters_have_another_fingerprint():
    made, marks = Lora(rank=2)(FedBuff()), set()
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        marks.add(fingerprint(made, FlatModel(Lora(rank=2).of_module(torch.nn.Linear(3, 2), 0))))
    assert len(marks) == 2


def test_random_numbers_are_those_of_the_replay_unless_they_must_be_secret():
    keys = lambda client, nth: 5  # noqa: E731
    open_one, secret = (worker(made(FedBuff()), keys) for made in (Qsgd(levels=2), Gaussian(delta=0)))
    assert torch.equal(open_one.compute(task(0, 0)).vector, open_one.compute(task(0, 0)).vector)
    assert open_one.compute(task(0, 0)).remembered is None
    noisy = secret.compute(task(0, 0))
    assert not torch.equal(noisy.vector, secret.compute(task(0, 0)).vector)
    assert noisy.loss is None


def test_the_keys_of_a_run_give_clients_their_side_of_it():
    made, mark = client_side(TrainConfig("fleet.csv", algorithm="fedbuff(size=3)", wrap="topk(share=0.5)"), model())
    assert made == TopK(share=0.5)(FedBuff(size=3))
    assert mark == fingerprint(made, model())


def marked(*tasks):
    """The mark of a memory that knows of these tasks of its client."""
    return reduce(mark_after, tasks, 0)


def receive(server, client, nth, step, remembered, value=1.0):
    ended = Ended((client, nth), True, step, 0, float(step), 0.0, 0.1, 1, False)
    delta = torch.full((4,), value, dtype=torch.float64)
    server.receive(ended, Sent(delta, 0), Update(None, delta, 0.1, 1, torch.zeros(()), remembered=remembered))


def live_server(made):
    case = simulated(made, LOCAL)
    federation = case.federation()
    return LiveServer(made, federation.first, federation.first_stats, case.setting)


def test_the_server_notes_who_began_again_and_who_remembers_something_else():
    made = TopK(share=0.25)(FedBuff(size=3))
    server = live_server(made)
    told = [(0, 0, ()), (1, 0, ()), (0, 1, (0,)), (0, 2, ()), (0, 3, (2,)), (1, 1, (0,)), (1, 3, (0, 1, 2))]
    for step, (client, nth, remembered) in enumerate([*told, (1, 4, (0, 1, 2, 3))]):
        receive(server, client, nth, step, marked(*remembered))
    assert server.facts == {"memory": {"forgotten": [[0, 3]], "unlike": [[1, 6]]}}
    assert inexact(server.facts) == "1 updates came from clients that remembered tasks which the trace does not have"
    again = live_server(made)
    again.restore(server.snapshot())
    assert again.facts == server.facts
    assert same(again.snapshot(), server.snapshot())
    json.dumps(again.facts)
    assert live_server(FedBuff()).facts == {}
    assert live_server(Gaussian(delta=0)(FedBuff())).facts == {"secret": True}


def test_noise_of_the_server_is_the_same_when_an_update_is_sent_again_after_a_crash_and_for_no_other():
    made = Gaussian(noise=1.0, delta=0, at="server")(FedBuff(size=1))
    server = live_server(made)
    before, models = server.snapshot(), []
    for nth, value in ((0, 1.0), (0, 1.0), (0, 2.0), (1, 1.0)):
        again = live_server(made)
        again.restore(before)
        receive(again, 0, nth, 0, None, value)
        models.append(again.params)
    assert torch.equal(models[0], models[1])
    assert len({model.numpy().tobytes() for model in models}) == 3
    assert not torch.equal(models[0], fresh(made))  # another run has other noise


def fresh(made):
    server = live_server(made)
    receive(server, 0, 0, 0, None)
    return server.params


@pytest.mark.parametrize(("at", "counted"), [("client", 3), ("server", 2)])
def test_an_update_that_is_not_used_counts_for_epsilon_if_the_adversary_has_seen_it(at, counted):
    server = live_server(TopK()(Gaussian(noise=1.0, delta=0, at=at)(FedBuff(size=3))))
    receive(server, 0, 0, 0, None)
    server.missed(0)
    receive(server, 0, 2, 1, None)
    assert server.state.inner.memory.sent == {0: counted}


def test_a_memory_of_as_many_other_tasks_is_noticed():
    server = live_server(TopK(share=0.25)(FedBuff(size=3)))
    receive(server, 0, 0, 0, marked())
    receive(server, 0, 2, 1, marked(1))  # it began again, and computed a task that was refused
    assert server.facts == {"memory": {"forgotten": [], "unlike": [[0, 1]]}}


def test_a_replay_forgets_what_the_clients_had_forgotten():
    case = simulated(TopK(share=0.25)(FedBuff(size=3)), LOCAL)
    mine = [int(step) for step, client in enumerate(case.trace.client[case.trace.applied]) if client == 0]
    told = {**case.trace.metadata, "memory": {"forgotten": [[0, mine[2]]], "unlike": []}}
    recorded = replace(case, trace=replace(case.trace, metadata=told))
    plain, run = case.replay(), recorded.replay()
    for received in (mine[2], mine[2] + 1):
        plain.advance(received)
        run.advance(received)
    empty = run.kept[0]
    assert torch.count_nonzero(empty.own.error) == 3  # only what the last update left out
    assert not torch.equal(empty.own.error, plain.kept[0].own.error)


def live(folder, run, client, again=False):
    """Serve a run in this process to clients in a thread of it, and replay it.

    With `again` all clients are stopped after some updates and begin anew, and the run ends when all have been heard.
    """
    from processes import free_port

    from sojourn.live.replayed import replay_run
    from sojourn.live.serve import join, open_server
    from sojourn.live.settings import ClientFile, ServerFile

    (folder / "fleet.csv").write_text("name,count,rate\nfast,3,200\n")
    keys = {"fleet": str(folder / "fleet.csv"), "partition": "iid", "model": "mlp(hidden=8)", "device": "cpu", **run}
    address, half, end, said = f"127.0.0.1:{free_port()}", threading.Event(), threading.Event(), []
    about = ClientFile(address, clients=("a", "b", "c"), holds="part", give_up=60.0)

    def clients():
        try:
            for stop in (half, None) if again else (None,):
                join(TrainConfig.of({**keys, **client}, "client"), about, stop)
        except SojournError as error:
            said.append(str(error))
            end.set()

    def watch(one):
        if again and one.server.received >= 30:
            half.set()
        if again and len(one.server.forgotten) == 3 and one.loop.limits.updates == 10**6:
            one.loop.limits.updates = one.server.received + 20

    thread = threading.Thread(target=clients)
    with open_server(TrainConfig.of(keys, "live"), ServerFile(address, out=str(folder / "live"))) as opened:
        thread.start()
        opened.run(end, watch)
    thread.join(60)
    return opened, said, None if said else replay_run(folder / "live", folder / "replayed")


def test_a_live_run_with_error_feedback_is_its_replay_though_its_clients_began_again(tmp_path):
    pytest.importorskip("grpc")
    run = {"algorithm": "fedbuff(size=4)", "wrap": "topk(share=0.05); qsgd(levels=7)", "steps": 10**6, "local_steps": 2}
    opened, _, found = live(tmp_path, run, {}, again=True)
    assert (found.same, found.why) == (True, "")
    assert sorted(client for client, _ in opened.server.forgotten) == [0, 1, 2]
    assert opened.server.unlike == []
    whole = found.updates * 32 * opened.built.federation.model.size
    assert 0 < opened.server.tally.bits_up < 0.2 * whole  # what was sent


def test_a_live_run_with_noise_says_that_its_replay_has_other_noise(tmp_path):
    pytest.importorskip("grpc")
    run = {"algorithm": "fedbuff(size=4)", "wrap": "gaussian(clip=1, noise=0.1, delta=0)", "steps": 40}
    _, _, found = live(tmp_path, run, {})
    assert (found.same, found.why) == (False, "noise was drawn in secret")


def test_a_live_client_with_other_options_is_refused(tmp_path):
    pytest.importorskip("grpc")
    run = {"algorithm": "fedbuff(size=4)", "wrap": "topk(share=0.05)", "steps": 40}
    _, said, _ = live(tmp_path, run, {"wrap": "topk(share=0.5)"})
    assert "the server's is another" in said[0]


@pytest.mark.slow
def test_real_processes_with_error_feedback_are_their_replay_though_clients_and_server_were_killed(tmp_path):
    pytest.importorskip("grpc")
    from processes import START, Processes, kill

    from sojourn.live.replayed import replay_run

    run = {"algorithm": "fedbuff(size=4)", "wrap": "topk(share=0.05)", "concurrency": 5, "steps": 10**6}
    with Processes(tmp_path, "fast,3,20\nslow,2,8\n", local_steps=2, **run) as all_of_it:
        server = all_of_it.server(begin_with=5)
        before = [all_of_it.clients("a", "b", "c"), all_of_it.clients("d", "e")]
        all_of_it.shows(3 * START, updates_total=50)
        for one in before:
            kill(one)
        after = [all_of_it.clients("a", "b", "c"), all_of_it.clients("d", "e")]
        done = all_of_it.shows(3 * START, clients_present=5)["updates_total"]
        done = all_of_it.shows(3 * START, updates_total=done + 40)["updates_total"]
        kill(server)
        server = all_of_it.server(resume=True, over={"steps": int(done) + 60})
        for one in (server, *after):
            assert one.wait(3 * START) == 0, all_of_it.said()
        memory = all_of_it.trace().metadata["memory"]
        assert sorted(client for client, _ in memory["forgotten"]) == [0, 1, 2, 3, 4]
        assert not memory["unlike"]
        found = replay_run(all_of_it.live, tmp_path / "replayed")
        assert (found.same, found.why) == (True, "")
