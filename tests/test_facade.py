"""Training as objects: what goes in, what comes out, what is refused and how."""

import gc
import json
import re
import shutil
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

import sojourn as sj
from sojourn.algorithms import FedBuff, Info, ServerStep, Standard, storable

FLEET = sj.Fleet.of(fast=(6, 4.0), slow=(4, 1.0))
QUIET = {"steps": 40, "batch_size": 8, "progress": False}


def examples(many=240):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((many, 2)).astype(np.float32)
    return x, (x[:, 0] > 0).astype(np.int64) + (x[:, 1] > 0)


DATA = examples()


class Net(nn.Module):
    """A small network."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 3))

    def forward(self, x):
        return self.layers(x)


def wide(dataset):
    return Net(4 * dataset.classes)


@storable("tests.facade")
class State(NamedTuple):
    params: torch.Tensor
    version: int


@dataclass(frozen=True)
class Mine(Standard):
    """SGD by a factor."""

    server: ServerStep = field(default_factory=ServerStep)
    factor: float = 1.0

    name = "mine"
    sends = "gradient"

    def init(self, params, setting):
        return State(params, 0)

    def apply(self, state, arrival):
        size = self.factor * self.server.step_size_at(arrival.step, arrival.time)
        return State(state.params - size * arrival.update.as_gradient(), state.version + 1), Info()


def model_of(run):
    return torch.cat([tensor.reshape(-1) for tensor in run.state_dict().values()])


def test_a_run_of_objects_is_the_run_of_their_files_and_texts(tmp_path):
    FLEET.save(tmp_path / "fleet.csv")
    plan = sj.Plan.by_speed(FLEET, 7, step_size=0.2)
    plan.save(tmp_path / "plan.json")
    keys = {"partition": "classes(k=2)", "seed": 3, **QUIET}
    objects = sj.train(FLEET, plan, algorithm=FedBuff(size=3), **keys)
    files = sj.train(tmp_path / "fleet.csv", tmp_path / "plan.json", algorithm="fedbuff(size=3)", **keys)
    assert torch.equal(model_of(objects), model_of(files))
    assert objects.config["algorithm"] == files.config["algorithm"] == "fedbuff(size=3)"
    assert objects.trace == files.trace


@pytest.mark.parametrize("model", [Net, Net(12), wide, "mlp(hidden=8)"], ids=["class", "instance", "function", "text"])
def test_a_model_is_a_class_an_instance_a_function_or_a_text(model):
    before = [one.clone() for one in model.parameters()] if isinstance(model, nn.Module) else []
    run = sj.train(FLEET, model=model, data=DATA, **QUIET)
    assert run.complete
    assert run.last["received"] == 40
    if before:
        assert all(torch.equal(old, now) for old, now in zip(before, model.parameters(), strict=True))
        assert not torch.equal(model_of(run), torch.cat([one.reshape(-1) for one in before]))


class Items(torch.utils.data.Dataset):
    """The same examples one by one."""

    def __len__(self):
        return len(DATA[0])

    def __getitem__(self, row):
        return torch.tensor(DATA[0][row]), int(DATA[1][row])


def test_data_are_a_dataset_a_pair_of_arrays_or_a_dataset_of_pytorch():
    forms = [DATA, (torch.tensor(DATA[0]), torch.tensor(DATA[1])), Items(), sj.Dataset.of(DATA)]
    runs = [sj.train(FLEET, model=Net, data=data, **QUIET) for data in forms]
    assert all(torch.equal(model_of(run), model_of(runs[0])) for run in runs)
    assert len({run.facts["dataset_hash"] for run in runs}) == 1


def test_what_make_plan_returns_is_a_plan_anywhere():
    planned = sj.make_plan(FLEET, sj.goal(time=100.0), concurrency=6)
    assert sj.analyze(FLEET, planned).throughput == sj.analyze(FLEET, planned.plan).throughput
    assert sj.simulate(FLEET, planned, 50, seed=1) == sj.simulate(FLEET, planned.plan, 50, seed=1)
    assert sj.measure(FLEET, planned, 50).steps == 50
    run = sj.train(FLEET, planned, model=Net, data=DATA, **QUIET)
    assert run.config["concurrency"] == 6
    assert run.facts["plan_hash"] == planned.plan.hash


def test_a_trace_is_learnt_along():
    plan = sj.Plan.uniform(FLEET, 5)
    trace = sj.simulate(FLEET, plan, 40, seed=9, start="even")
    run = sj.train(FLEET, plan, trace=trace, model=Net, data=DATA, batch_size=8, progress=False)
    assert run.trace.hash == trace.hash
    assert run.last["received"] == 40


def test_an_algorithm_of_your_own_is_handed_over_with_its_numbers():
    slow = sj.train(FLEET, model=Net, data=DATA, algorithm=Mine(factor=0.5), step_size=0.2, **QUIET)
    same = sj.train(FLEET, model=Net, data=DATA, algorithm=Mine(), step_size=0.1, **QUIET)
    assert torch.equal(model_of(slow), model_of(same))
    assert slow.config["algorithm"] == f"object:{__name__}.Mine(factor=0.5)"


def test_own_losses_metrics_and_partitions_are_functions():
    def halves(labels, clients, rng):
        return np.arange(len(labels)) * clients // len(labels)

    def loss(output, y):
        return nn.functional.multi_margin_loss(output, y)

    def sure(output, y):
        return output.softmax(1).amax(1)

    run = sj.train(FLEET, model=Net, data=DATA, partition=halves, loss=loss, metrics=[sure], **QUIET)
    assert 1 / 3 < run.last["sure"] < 1


def test_a_run_is_shown_read_and_drawn(tmp_path):
    run = sj.train(FLEET, model=Net, data=DATA, folder=tmp_path / "run", evaluate_every=10, **QUIET)
    assert repr(run).startswith("<Run of generalized-asyncsgd on mine-")
    assert "after 40 updates" in repr(run)
    assert "<table>" in run._repr_html_()
    frame = run.to_pandas()
    assert frame["received"].tolist() == [0, 10, 20, 30, 40]
    assert run.plot(tmp_path / "curves") is not None
    assert (tmp_path / "curves.svg").exists()
    again = sj.Run(tmp_path / "run")
    assert again.last == run.last
    net = Net()
    net.load_state_dict(again.state_dict())


def test_a_folder_nobody_named_goes_with_the_run():
    run = sj.train(FLEET, model=Net, data=DATA, **QUIET)
    folder = run.folder
    assert folder.exists()
    del run
    gc.collect()
    assert not folder.exists()


@pytest.mark.parametrize("work", [partial(sj.train, progress=False), sj.calibrate])
@pytest.mark.parametrize(
    ("net", "said"),
    [
        (nn.Linear(2, 2), r"an output for each of the 3 classes \(the largest label is 2\), got 2 outputs; change its"),
        (nn.Sequential(nn.Linear(2, 1), nn.Flatten(0)), "for each of the 3 classes .*, got a single output; change"),
        (nn.Linear(5, 3), r"must take examples of shape \(2,\), got the error '.*'; check its first layers"),
    ],
)
def test_a_model_that_does_not_fit_its_data_is_refused_in_a_sentence(net, said, work):
    with pytest.raises(sj.InvalidInput, match=said):
        work(FLEET, model=net, data=DATA, steps=40, batch_size=8)


@pytest.mark.parametrize("work", [partial(sj.train, progress=False), partial(sj.calibrate, points=1, gradients=20)])
def test_torch_has_as_many_threads_afterwards_as_before(work):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        work(FLEET, model=Net, data=DATA, steps=5, batch_size=8)
        assert torch.get_num_threads() == 3
        with pytest.raises(sj.InvalidInput):
            work(FLEET, model=nn.Linear(5, 3), data=DATA, steps=5, batch_size=8)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_group_is_given_as_a_pair():
    with pytest.raises(sj.InvalidInput, match=r"name=\(clients, tasks per second\), got a=5; write for example a=\(50"):
        sj.Fleet.of(a=5)


def test_a_run_that_diverges_without_a_folder_says_how_to_keep_it(tmp_path):
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))
    wild = {**QUIET, "data": DATA, "model": net, "step_size": 1e30, "partition": "iid"}
    with pytest.raises(sj.SojournError, match='to keep such a run, give it a folder: folder="run"') as raised:
        sj.train(FLEET, **wild)
    assert "is kept" not in str(raised.value)
    with pytest.raises(sj.SojournError, match="is kept"):
        sj.train(FLEET, folder=tmp_path / "run", **wild)


def test_a_run_is_taken_up_again_or_replaced(tmp_path):
    def stop(done, total, facts):
        if done >= 20:
            raise KeyboardInterrupt

    keys = {"model": Net, "data": DATA, "batch_size": 8, "folder": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt):
        sj.train(FLEET, steps=40, progress=stop, checkpoint_seconds=0, **keys)
    resumed = sj.train(FLEET, steps=40, progress=False, resume=True, **keys)
    whole = sj.train(FLEET, model=Net, data=DATA, **QUIET)
    assert torch.equal(model_of(resumed), model_of(whole))
    with pytest.raises(sj.InvalidInput, match="already holds a run"):
        sj.train(FLEET, steps=10, progress=False, **keys)
    assert sj.train(FLEET, steps=10, progress=False, overwrite=True, **keys).last["received"] == 10


def test_a_run_of_objects_says_on_the_command_line_where_to_go_on(tmp_path):
    from sojourn.experiments.training import open_run
    from sojourn.learning.run.run_config import config_of

    sj.train(FLEET, model=Net, data=DATA, folder=tmp_path / "run", **QUIET)
    config = config_of(tmp_path / "run", trust=True)
    from sojourn import own_code

    before = dict(own_code._OBJECTS)
    own_code._OBJECTS.clear()
    try:
        with pytest.raises(sj.InvalidInput, match="was handed over by another Python program, not by this one"):
            open_run(config, tmp_path / "run", resume=True)
    finally:
        own_code._OBJECTS.update(before)


@pytest.mark.slow
def test_algorithms_plans_and_pairs_are_compared_in_processes_of_their_own(tmp_path):
    plan = sj.Plan.by_speed(FLEET, 6)
    both = sj.compare(
        FLEET,
        {"buffered": FedBuff(size=3), "by speed": plan, "mine": (Mine(factor=0.5), plan)},
        model=Net,
        data=DATA,
        time=6.0,
        seeds=2,
        batch_size=8,
        jobs=2,
        folder=tmp_path / "both",
    )
    assert both.names == ["buffered", "by speed", "mine"]
    assert both.complete, both.failures
    assert repr(both) == "<Comparison of 3: buffered, by speed, mine>"
    assert re.fullmatch(r"buffered: accuracy 0\.\d+, [\d,]+ updates", str(both).splitlines()[1])
    assert set(both.to_pandas()["algorithm"]) == set(both.names)
    assert both.plot() is not None
    told = json.loads((tmp_path / "both" / "summary.json").read_text())
    assert told["complete"]


@pytest.mark.slow
def test_a_grid_of_values_and_objects_is_swept():
    found = sj.sweep(
        FLEET, {"step_size": [0.1, 0.3], "algorithm": ["asyncsgd", FedBuff(size=2)]}, model=Net, data=DATA, steps=20
    )
    frame = found.to_pandas()
    assert frame["state"].tolist() == ["complete"] * 4
    assert frame["algorithm"].tolist() == ["asyncsgd", "fedbuff(size=2)"] * 2


def test_constants_are_measured_for_objects():
    found = sj.calibrate(FLEET, model=Net, data=DATA, steps=40, gradients=80, points=2, directions=2)
    assert found.constants.L > 0
    assert found.run["data"].startswith("object:mine-")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: sj.analyze(FLEET, 200), r"plan must be a Plan, got 200; write Plan.uniform\(fleet, 200\)"),
        (lambda: sj.simulate(FLEET, "plan.json", 5), r"plan must be a Plan, got 'plan.json'; write Plan.load"),
        (lambda: sj.measure("fleet.csv", None, 5), r"fleet must be a Fleet, got 'fleet.csv'; write Fleet.load"),
        (lambda: sj.train(7), "fleet must be a Fleet or the name of its file, got 7; write Fleet.of"),
        (lambda: sj.train(FLEET, 20), r"plan must be a Plan, got 20; write Plan.uniform\(fleet, 20\)"),
        (lambda: sj.train(FLEET, data=7), "data must be a Dataset, a pair of arrays"),
        (lambda: sj.train(FLEET, model=7), "model"),
        (lambda: sj.train(FLEET, algorithm=FedBuff), r"must be an object, got the class FedBuff; write FedBuff\(\)"),
        (lambda: sj.train(FLEET, algorithm=7), "int must define name, sends"),
        (lambda: sj.train(FLEET, stepsize=0.1), "unknown key 'stepsize'; did you mean step_size"),
        (lambda: sj.train(FLEET, steps=[1, 2]), r"steps must be a number or a text, got \[1, 2\]"),
        (lambda: sj.train(FLEET, trace=7), "trace must be a Trace or the name of its file, got 7"),
        (
            lambda: sj.train(FLEET, algorithm=FedBuff(server=ServerStep(step_size=3.0))),
            "the server step of fedbuff belongs to the run: leave server out of it",
        ),
        (lambda: sj.compare(FLEET, "asyncsgd"), "algorithms must be a list of algorithms and plans, got 'asyncsgd'"),
        (lambda: sj.Run("nowhere"), "nowhere holds no run"),
    ],
)
def test_what_is_of_the_wrong_kind_is_refused_with_the_way_out(call, said):
    with pytest.raises(sj.InvalidInput, match=said):
        call()


def test_nouns_and_results_have_a_short_repr_and_a_table():
    plan = sj.Plan.uniform(FLEET, 5)
    trace = sj.simulate(FLEET, plan, 50)
    shown = [FLEET, plan, trace, sj.analyze(FLEET, plan), sj.measure(FLEET, plan, 100), sj.fit(trace, FLEET)]
    for one in shown:
        assert repr(one).startswith("<")
        assert len(repr(one)) < 200
        assert "<table>" in one._repr_html_()
        assert len(one.to_pandas()) in (2, len(trace))
    assert repr(FLEET) == "<Fleet of 10 clients: 6 fast at 4, 4 slow at 1>"


def entropy_of(output, y):
    return nn.functional.cross_entropy(output, y)


def test_objects_that_are_called_alike_are_distinguished():
    both = {"model": lambda: Net(4), "loss": lambda output, y: entropy_of(output, y)}
    named = sj.train(FLEET, data=DATA, model=lambda: Net(4), loss=entropy_of, **QUIET)
    assert torch.equal(model_of(sj.train(FLEET, data=DATA, **both, **QUIET)), model_of(named))
    ones = [lambda output, y: 1.0, lambda output, y: 2.0]
    last = sj.train(FLEET, data=DATA, model=Net, metrics=ones, **QUIET).last
    assert (last["lambda"], last["lambda-2"]) == (1.0, 2.0)


@pytest.mark.slow
def test_two_models_of_one_class_are_two_values_of_a_sweep():
    swept = sj.sweep(FLEET, {"model": [Net(4), Net(32)]}, data=DATA, steps=10, jobs=1)
    assert len({row["model"] for row in swept.runs}) == 2
    assert swept.runs[0]["bits_up"] < swept.runs[1]["bits_up"]


def test_the_order_of_words_does_not_decide_what_objects_are_called(tmp_path):
    one, other = lambda: Net(4), lambda output, y: entropy_of(output, y)
    sj.train(FLEET, data=DATA, model=one, loss=other, folder=tmp_path / "run", **QUIET)
    assert sj.train(FLEET, data=DATA, loss=other, model=one, folder=tmp_path / "run", resume=True, **QUIET).complete


@pytest.mark.slow
def test_a_cap_is_a_number_or_a_text():
    numbered = sj.train(FLEET, cap=1, data=DATA, model=Net, **QUIET)
    assert numbered.config["cap"] == "1"
    assert numbered.trace.hash == sj.train(FLEET, cap="1", data=DATA, model=Net, **QUIET).trace.hash
    swept = sj.sweep(FLEET, {"cap": [1, 2]}, data=DATA, model=Net, steps=10, jobs=1)
    assert [row["state"] for row in swept.runs] == ["complete", "complete"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "table", "what"),
    [
        (lambda value, **more: sj.compare(FLEET, ["asyncsgd"], batch_size=value, **more), "runs", "comparison"),
        (lambda value, **more: sj.sweep(FLEET, {"batch_size": [value]}, **more), "runs", "sweep"),
        (lambda value, **more: sj.tune(FLEET, guess=0.4, batch_size=value, **more), "tuning", "tuning"),
    ],
)
def test_results_of_other_work_are_replaced_only_on_request(work, table, what, tmp_path):
    same = {"model": Net, "data": DATA, "steps": 9, "folder": tmp_path / "out", "jobs": 1}
    work(8, seeds=1, **same)
    before = (tmp_path / "out" / f"{table}.csv").read_text()
    said = (
        rf"{table}\.csv is the table of another {what}, .*; name another folder, or give overwrite=True to replace it"
    )
    with pytest.raises(sj.InvalidInput, match=said):
        work(4, seeds=1, **same)
    assert (tmp_path / "out" / f"{table}.csv").read_text() == before
    work(8, seeds=2, **same)  # more seeds are no other work
    work(4, seeds=1, overwrite=True, **same)
    assert (tmp_path / "out" / f"{table}.csv").read_text() != before


@pytest.mark.slow
def test_a_run_is_not_tuned_over_another_one(tmp_path):
    same = {"model": Net, "data": DATA, "steps": 9, "folder": tmp_path / "run", "progress": False, "tune": True}
    sj.train(FLEET, batch_size=8, **same)
    table = tmp_path / "run/tuning/tuning.csv"
    before = table.read_bytes()
    with pytest.raises(sj.InvalidInput, match="already holds a run; replace it with --overwrite"):
        sj.train(FLEET, batch_size=4, **same)
    trials = (tmp_path / "run/tuning").rename(tmp_path / "trials")
    shutil.rmtree(tmp_path / "run")  # as if it had been killed while it was tuned
    shutil.copytree(trials, tmp_path / "run/tuning")
    with pytest.raises(sj.InvalidInput, match=r"is the table of another tuning, .*; replace it with --overwrite"):
        sj.train(FLEET, batch_size=4, **same)
    with pytest.raises(sj.InvalidInput, match=r"is the table of another tuning, .*; replace it with --overwrite"):
        sj.train(FLEET, batch_size=4, resume=True, **same)
    assert table.read_bytes() == before
    sj.train(FLEET, batch_size=8, resume=True, **same)  # the trials go on, and their run follows
    assert table.read_bytes() == before
    sj.train(FLEET, batch_size=4, overwrite=True, **same)
    assert table.read_bytes() != before


def test_a_comparison_or_sweep_that_is_refused_leaves_no_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for refused in (
        lambda: sj.compare(FLEET, ["asyncsgd"], partition="nope", steps=5, jobs=1),
        lambda: sj.sweep(FLEET, {"partition": ["nope"]}, steps=5, jobs=1),
    ):
        with pytest.raises(sj.InvalidInput, match="partition must be one of"):
            refused()
        assert not list(tmp_path.iterdir())
