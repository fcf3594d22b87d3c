"""Models that become infinite: nobody can make one so by lying, and the run stops before it expels honest clients."""

import json
import threading
from dataclasses import replace

import pytest
import torch

from live.pretended_clients import Checked, Federation, Pretended
from sojourn.errors import SojournError
from sojourn.learning.replay.server import Diverged
from sojourn.learning.run.config import TrainConfig
from sojourn.live.engine import Arrived, Joined
from sojourn.live.run import LiveRun, built_for
from sojourn.live.worker import FederationWorker, Task


@pytest.fixture
def config(tmp_path):
    (tmp_path / "fleet.csv").write_text("name,count,rate\nall,4,5\n")
    return TrainConfig(
        str(tmp_path / "fleet.csv"), cap="1", concurrency=4, steps=200, model="mlp(hidden=8)", device="cpu"
    )


def clients_of(config):
    return Federation(FederationWorker(built_for(config).federation), lambda client, nth: 0.1, range(4))


def run_of(config, folder, clients, resume=False, engine=Pretended):
    return LiveRun(config, folder, lambda *_: engine(clients), resume=resume)


def within(seconds):
    """Return an event and a look that sets it when a run has gone on for so many seconds of its clients."""
    limit = threading.Event()
    return limit, lambda run: limit.set() if run.engine.now() > seconds else None


@pytest.mark.parametrize("size", [1e-300, 0.2, 0.0, float("inf")])
def test_an_update_of_an_earlier_servers_task_with_another_step_size_is_refused(config, tmp_path, size):
    clients, stop = clients_of(config), threading.Event()
    with run_of(config, tmp_path / "live", clients) as run:
        run.run(stop, lambda one: stop.set() if one.server.received >= 20 else None)
    kept = sorted(clients.serving.values(), key=lambda one: one[1].name)
    with run_of(config, tmp_path / "live", clients, resume=True) as run:
        ones, before = torch.ones_like(run.server.params), run.server.params.clone()
        for _, offer in kept:
            run.loop.handle(Joined(offer.name.client, (offer.name,)))
        (_, first), (_, second), *_ = kept
        lie = true_update(clients, first)._replace(gradient=None, delta=ones, step_size=size)
        assert run.loop.handle(Arrived(first.name, lie, 1, 1, 0)) == first.name.client
        assert torch.equal(run.server.params, before)
        assert run.loop.faults.refusals[-1]["reason"] == f"an update must have the step size of its task, got {size}"
        run.loop.handle(Arrived(second.name, true_update(clients, second), 1, 1, 0))
        assert run.server.received == 21


def true_update(clients, offer):
    name = offer.name
    task = Task(name.client, name.nth, offer.step, offer.params, offer.stats, offer.step_size, offer.steps)
    return clients.worker.compute(task)


def test_a_run_whose_model_diverges_stops_and_expels_nobody(config, tmp_path):
    config, folder = replace(config, step_size=1e12), tmp_path / "live"
    clients = clients_of(config)
    with run_of(config, folder, clients) as run, pytest.raises(Diverged) as caught:
        run.run(*within(100))
    assert "the server's model has diverged" in str(caught.value)
    assert f"lower the step sizes; the run is kept as in its last commit, in {folder}" in str(caught.value)
    assert not run.loop.faults.counts
    assert not (folder / "summary.json").exists()
    assert {json.loads(line)["what"] for line in (folder / "log.jsonl").read_text().splitlines()} <= {
        "started",
        "joined",
    }
    with run_of(config, folder, clients, resume=True) as again:
        assert torch.isfinite(again.server.params).all()
        assert not again.loop.faults.expelled


@pytest.mark.parametrize(
    "keys",
    [
        {"model": "mlp(hidden=32, layers=2)", "step_size": 1e3},
        {"model": "mlp(hidden=64, layers=4)", "step_size": 1e3},
        {"algorithm": "fedavg", "cap": None, "local_steps": 20, "local_step_size": 1e4},
    ],
    ids=str,
)
def test_a_run_whose_losses_overflow_before_its_model_stops_and_expels_nobody(config, tmp_path, keys):
    config, folder = replace(config, **keys), tmp_path / "live"
    clients = clients_of(config)
    with run_of(config, folder, clients, engine=Checked) as run, pytest.raises(Diverged) as caught:
        run.run(*within(100))
    assert "a task that the server does itself gives numbers that are not finite; lower the step sizes" in str(
        caught.value
    )
    assert torch.isfinite(torch.dot(run.server.params, run.server.params))
    with run_of(config, folder, clients, resume=True, engine=Checked) as again:
        assert not again.loop.faults.expelled


class Lying(FederationWorker):
    """Some of its clients send losses that are not finite."""

    def __init__(self, federation, liars):
        super().__init__(federation)
        self.liars = liars

    def compute(self, task):
        update = super().compute(task)
        return update._replace(loss=update.loss * float("nan")) if task.client in self.liars else update


def with_liars(config, liars):
    return Federation(Lying(built_for(config).federation, liars), lambda client, nth: 0.1, range(4))


@pytest.mark.parametrize("liars", [{0}, {1, 3}], ids=str)
def test_liars_who_are_not_most_clients_are_expelled_and_the_others_go_on(config, tmp_path, liars):
    with run_of(config, tmp_path / "live", with_liars(config, liars), engine=Checked) as run:
        assert run.run(*within(100))
        assert set(run.loop.faults.expelled) == liars


def test_the_time_in_which_the_server_does_a_task_itself_is_no_fault_of_its_clients(config, tmp_path):
    clients = with_liars(config, {0})
    with run_of(config, tmp_path / "live", clients, engine=Checked) as run:

        def slowly(task):
            clients.clock += 100.0  # longer than the patience with any client
            return True

        run.loop.doable = slowly
        assert run.run(*within(300))
        assert set(run.loop.faults.expelled) == {0}
        assert not {"timeouts", "lost", "late"} & run.loop.faults.counts.keys()


@pytest.mark.parametrize("liars", [{0, 1, 2}, {0, 1, 2, 3}], ids=str)
def test_a_run_whose_server_sees_no_fault_stops_when_most_clients_are_refused(config, tmp_path, liars):
    with (
        run_of(config, tmp_path / "live", with_liars(config, liars), engine=Checked) as run,
        pytest.raises(SojournError) as caught,
    ):
        run.run(*within(100))
    assert f"the messages of most clients are refused ({len(liars)} of 4)" in str(caught.value)
    assert "finite numbers only; lower the step sizes" in str(caught.value)


def test_a_client_that_is_away_counts_among_those_who_are_not_refused(config, tmp_path):
    config, stop = replace(config, steps=60), threading.Event()

    def look(one):
        if one.server.received == 20:
            for client in (1, 2, 3):
                one.engine.leave(client)
        if one.loop.faults.expelled:
            stop.set()

    with run_of(config, tmp_path / "live", with_liars(config, set()), engine=Checked) as run:
        run.engine.federation.worker.liars = {0}
        run.run(stop, look)
        assert set(run.loop.faults.expelled) == {0}


def test_a_server_that_cannot_do_a_task_itself_expels_a_client_as_always(config, tmp_path, monkeypatch):
    class Fails(FederationWorker):
        def compute(self, task):
            raise TypeError("this model does not take these examples")

    monkeypatch.setattr("sojourn.live.sound.FederationWorker", Fails)
    with run_of(config, tmp_path / "live", with_liars(config, {0}), engine=Checked) as run:
        assert run.run(*within(100))
        assert set(run.loop.faults.expelled) == {0}


def test_a_model_that_is_not_finite_is_neither_committed_nor_evaluated(config, tmp_path):
    with run_of(config, tmp_path / "live", clients_of(config)) as run:
        run.server.state = run.server.state._replace(params=run.server.params * float("inf"))
        for step in (run.loop.commit, run._evaluate):
            with pytest.raises(Diverged):
                step()
        run.server.state = run.server.state._replace(params=torch.zeros_like(run.server.params))
        run.loop.commit()
