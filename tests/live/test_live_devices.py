"""Live runs on a GPU: nothing here has one, so PyTorch's `meta` device, which refuses to mix, stands for it."""

from dataclasses import replace

import pytest
import torch

from sojourn.learning.algorithms.base import Sent
from sojourn.learning.data.load import load_dataset
from sojourn.learning.data.partition import Partition
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.replay.federation import Federation
from sojourn.learning.replay.local import Local, Update
from sojourn.learning.replay.server import Diverged
from sojourn.learning.replay.timeline import Ended
from sojourn.learning.run.build import build
from sojourn.learning.run.config import TrainConfig
from sojourn.live.engine import Work
from sojourn.live.remembering import remembering
from sojourn.live.run import built_for
from sojourn.live.server import LiveServer
from sojourn.live.worker import FederationWorker, LoopWorker, OwnDataWorker, Task

META = torch.device("meta")
DIGITS = load_dataset("digits")
LOCAL = Local(steps=3, momentum=0.9, weight_decay=0.01, proximal=0.1)
TASK = Ended((0, 0), True, 0, 0, 1.0, 0.0, 0.25, 1, False)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nall,4,5\n")
    return TrainConfig(str(path), cap="1", steps=5, partition="iid", model="mlp(hidden=8)", device="cpu")


def module():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))


def normed():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 10))


def task_for(model):
    """A task as it comes over the network: in main memory."""
    params, stats = torch.zeros(model.params.numel()), torch.zeros(model.stats.numel())
    return Task(0, 0, 0, params, stats if stats.numel() else None, 0.1, 3)


def work_for(model, algorithm=""):
    return Work(model.params.numel(), model.stats.numel(), LOCAL, 7, "shuffled", False, algorithm)


def part_of(model):
    held = Partition.by_owner(torch.zeros(len(DIGITS.train_y), dtype=torch.int64).numpy())
    return FederationWorker(Federation(model, DIGITS, held, LOCAL, 7))


@pytest.mark.parametrize("made", [module, normed])
@pytest.mark.parametrize(
    "worker_of",
    [part_of, lambda model: OwnDataWorker(model, DIGITS), lambda model: LoopWorker(model.module, lambda *_: 0.5)],
    ids=["part", "own data", "own loop"],
)
def test_a_client_computes_on_the_device_of_its_model(made, worker_of):
    worker = worker_of(FlatModel(made().to(META)))
    model = worker.model if hasattr(worker, "model") else worker._federation.model
    worker.begin(0, work_for(model))
    update = worker.compute(task_for(model))
    assert update.delta.device == META
    assert update.stats is None or update.stats.device == META


def test_what_a_client_remembers_is_on_the_device_of_its_model():
    class Remembers:
        remembers = True

        def start(self, kept, sent):
            assert kept is None or kept.device == sent.params.device == META
            return sent.params, 1.0

        def finish(self, kept, sent, start, update):
            return update.delta + sent.params, update

    inner = part_of(FlatModel(module().to(META)))
    worker = remembering(inner, (Remembers(), "mark"), key=lambda client, nth: 0)
    for _ in range(2):
        assert worker.compute(task_for(inner._federation.model)).delta.device == META


def server_on(config, device):
    built = built_for(replace(config, algorithm="fedbuff(size=2)", local_steps=3))
    federation = built.federation
    first, stats = (one.to(device) for one in (federation.first, torch.ones(4)))
    return LiveServer(built.algorithm, first, stats, built.setting)


def applied(server, many=1):
    size = server.params.numel()
    for _ in range(many):
        sent = server.send((0, 0)).sent
        server.receive(TASK, sent, Update(None, torch.ones(size), 0.1, 3, torch.tensor(0.5), torch.ones(4)))


def test_a_server_applies_updates_from_the_network_on_the_device_of_its_model(config):
    server = server_on(config, META)
    applied(server, 3)
    assert (server.params.device, server.stats.device, server.received) == (META, META, 3)
    assert server.tally.loss == 1.5


def test_a_resumed_server_has_its_state_on_the_device_of_its_model(config):
    before, after = server_on(config, torch.device("cpu")), server_on(config, META)
    applied(before, 3)  # one of them waits in the buffer
    after.restore(before.snapshot())
    assert after.received == 3
    applied(after, 2)
    assert (after.params.device, after.stats.device) == (META, META)


class OnGpu(torch.Tensor):
    """A tensor that says that it is on a GPU."""

    is_cuda = True


def test_an_update_that_is_too_large_is_refused_before_it_is_applied_also_on_a_gpu(config):
    server = server_on(config, torch.device("cpu"))
    before = server.params.clone()
    huge = torch.full_like(before, 1e30).as_subclass(OnGpu)
    for _ in range(2):  # the buffer holds two
        with pytest.raises(Diverged, match="is not finite"):
            server.receive(TASK, Sent(before, 0), Update(None, huge, 0.1, 3, torch.tensor(0.5)))
    assert torch.equal(server.params, before)
    server.settle()


def test_a_live_model_lies_the_same_way_in_its_vector_on_every_device(config, monkeypatch):
    config = replace(config, model="cnn(channels=4)")
    here = built_for(config).federation.model.layout
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.nn.Module, "to", lambda self, *_: self)
    monkeypatch.setattr("sojourn.learning.run.build.Examples", lambda *_, **__: None)
    there = replace(config, device="cuda")
    assert OwnDataWorker.of(there).model.layout == here
    assert built_for(there).federation.model.layout == here
    assert build(there).federation.model.layout != here  # a simulated run has its kernels as GPUs like them
