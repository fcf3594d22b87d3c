"""The apps that people write: their configuration, a client of sojourn's own, and a whole run over a pretended Grid."""

import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch
from flwr.app import Context, RecordDict
from pretended_grid import PretendedGrid
from torch import nn

import sojourn.flower
from sojourn import Fleet, Trace
from sojourn.errors import InvalidInput, SojournError
from sojourn.learning.run.store import Store
from sojourn.live.replayed import replay_run

FLEET = "name,count,rate\nfast,1,50\nslow,1,20\n"
RUN = {"data": "digits", "model": "logistic", "partition": "classes(k=5)", "device": "cpu", "steps": 12}


def of_sojourn(**keys):
    """The configuration of an app, as Flower hands it over."""
    return {f"sojourn.{key}": value for key, value in keys.items()}


class Working:
    """A pretended Grid whose nodes answer by themselves, from a thread of their own."""

    def __init__(self, app, *names, run_config):
        self.grid, self.run_config = PretendedGrid(app), run_config
        for name in names:
            self.start(name)
        self._over, self._thread = threading.Event(), threading.Thread(target=self._work, daemon=True)

    def start(self, name):
        node = self.grid.start(name)
        self.grid.nodes[node].context.run_config = self.run_config

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join(30)

    def _work(self):
        while not self._over.is_set():
            for node, one in list(self.grid.nodes.items()):
                if one.inbox:
                    self.grid.work(node)
            time.sleep(0.002)

    def serve(self, app):
        app(self.grid, Context(1, 1, {}, RecordDict(), self.run_config))


@pytest.fixture
def quick(monkeypatch):
    """Let the server look at its pretended Grid more often than at a real one."""
    monkeypatch.setattr("sojourn.live.engines.flower.exchange.FETCH", 0.01)
    monkeypatch.setattr("sojourn.live.engines.flower.exchange.LOOK", 0.05)
    monkeypatch.setattr("sojourn.live.engines.flower.engine.BEAT", 0.01)


@pytest.fixture
def fleet(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text(FLEET)
    return str(path)


@pytest.mark.usefixtures("quick")
def test_a_run_of_clients_of_sojourn_is_replayed_to_the_bit(tmp_path, fleet):
    keys = of_sojourn(fleet=fleet, folder=str(tmp_path / "live"), **{"local-steps": 3})
    with Working(sojourn.flower.client_app(**RUN), "slow", "fast", run_config=keys) as nodes:
        nodes.serve(sojourn.flower.server_app(**RUN))
    trace = Trace.load(tmp_path / "live" / "trace.parquet")
    assert int(trace.applied.sum()) == 12
    assert trace.metadata["names"] == {"fast": 0, "slow": 1}
    assert set(trace.work[trace.applied]) == {3}
    assert replay_run(tmp_path / "live", tmp_path / "again").same


@pytest.mark.usefixtures("quick")
@pytest.mark.slow
def test_a_run_whose_server_program_died_goes_on_in_the_same_folder(tmp_path, fleet, monkeypatch):
    live, run = tmp_path / "live", {**RUN, "steps": 10**6}
    keys = of_sojourn(fleet=fleet, folder=str(live))
    client, server = sojourn.flower.client_app(**run), sojourn.flower.server_app(**run)
    with Working(client, "fast", "slow", run_config=keys) as nodes:
        pull = nodes.grid.pull_messages

        def breaks_down(message_ids):
            if committed(live):
                raise ConnectionError("the SuperLink is gone")
            time.sleep(0.02)
            return pull(message_ids)

        monkeypatch.setattr(nodes.grid, "pull_messages", breaks_down)
        with pytest.raises(ConnectionError):
            nodes.serve(server)
    before = committed(live)
    server = sojourn.flower.server_app(**{**run, "steps": before + 50})
    with Working(client, "fast", "slow", run_config=keys) as nodes:
        nodes.serve(server)
    trace = Trace.load(live / "trace.parquet")
    assert int(trace.applied.sum()) == before + 50
    assert [one["step"] for one in trace.metadata["resumes"]] == [before]
    assert replay_run(live, tmp_path / "again").same


def committed(folder):
    """How many tasks the last commit of a run has."""
    try:
        return int(Store(folder / "checkpoints").load()[1]["rows"])
    except (SojournError, OSError):  # there is none yet, or a new one takes its place
        return 0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(3, 2)

    def forward(self, x):
        return self.out(x)


def examples(seed):
    x = np.random.default_rng(seed).standard_normal((100, 3)).astype(np.float32)
    return x, (x[:, 0] > 0).astype(np.int64)


def fit(module, task):
    x, y = (torch.from_numpy(one) for one in examples(1))
    loss = nn.functional.cross_entropy(module(x), y)
    loss.backward()
    torch.optim.SGD(module.parameters(), lr=task.step_size).step()
    return loss.item()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("how", [{"data": lambda context: examples(context.node_id)}, {"fit": fit}])
def test_clients_train_with_a_model_and_data_of_their_own_or_their_own_loop(tmp_path, how):
    app = sojourn.flower.client_app(Net, **how)
    server = sojourn.flower.server_app(
        Fleet.of(sites=(2, 1.0)), model=Net, data=examples(9), steps=6, step_size=0.5, folder=tmp_path / "live"
    )
    with Working(app, "oslo", "lyon", run_config={}) as nodes:
        nodes.serve(server)
    trace = Trace.load(tmp_path / "live" / "trace.parquet")
    assert set(trace.metadata["names"]) == {"oslo", "lyon"}
    assert int(trace.applied.sum()) == 6


def test_the_apps_configuration_overrides_the_code(tmp_path, fleet):
    server = sojourn.flower.server_app(fleet, folder="elsewhere", **RUN)
    held = tmp_path / "held"
    held.mkdir()
    (held / "mine.txt").write_text("not a run")
    grid, keys = PretendedGrid(None), of_sojourn(folder=str(held))
    with pytest.raises(InvalidInput, match="held holds other files"):
        server(grid, Context(1, 1, {}, RecordDict(), keys))


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"stepps": 3}, "unknown key 'sojourn.stepps'.*steps"),
        ({"folder": ""}, "a run needs a folder"),
        ({"folder": "run", "resume": "yes"}, "resume must be true or false"),
        ({"folder": "run", "patience": "soon"}, "patience"),
        ({"folder": "run", "begin_with": "two"}, "begin_with must be a whole number"),
        ({"folder": "run"}, "a run needs a fleet"),
    ],
)
def test_a_key_that_breaks_a_rule_is_named(keys, words):
    with pytest.raises(InvalidInput, match=words):
        sojourn.flower.server_app()(PretendedGrid(None), Context(1, 1, {}, RecordDict(), of_sojourn(**keys)))


def test_a_client_app_needs_data_or_a_loop_and_not_both():
    for given in ({}, {"data": examples(1), "fit": fit}):
        with pytest.raises(InvalidInput, match="give data, or fit"):
            sojourn.flower.client_app(Net, **given)
    with pytest.raises(InvalidInput, match="need a model"):
        sojourn.flower.client_app(data=examples(1))
    with pytest.raises(InvalidInput, match="takes no keys of a run, got steps"):
        sojourn.flower.client_app(Net, examples(1), steps=3)


def test_without_flower_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr("sojourn.flower.find_spec", lambda name: None)
    for make in (sojourn.flower.server_app, sojourn.flower.client_app):
        with pytest.raises(SojournError, match=r"pip install 'sojourn\[flower\]'"):
            make()


def test_the_mod_and_an_app_that_has_it_load_nothing_heavy():
    code = "import sys, sojourn.flower as f; f.client_app(); print([one for one in HEAVY if one in sys.modules])"
    code = code.replace("HEAVY", "('torch', 'scipy', 'numba', 'pyarrow')")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
