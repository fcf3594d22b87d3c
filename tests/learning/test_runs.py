"""A run in its folder: what it writes, how it stops, how it goes on."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from sojourn import Fleet, InvalidInput, fit
from sojourn.errors import UnreadableFile
from sojourn.experiments.training import open_run, simulated, train
from sojourn.learning.data.load import load_dataset
from sojourn.learning.models.load import load_model
from sojourn.learning.replay.replay import Diverged
from sojourn.learning.run.build import build
from sojourn.learning.run.config import TrainConfig
from sojourn.learning.run.metrics import read_metrics
from sojourn.learning.run.store import Store
from sojourn.trace import Trace

STEPS = 120


@pytest.fixture
def fleet(tmp_path: Path) -> str:
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nfast,6,4\nslow,4,1\n")
    return str(path)


def _config(fleet: str, **options) -> TrainConfig:
    return TrainConfig(fleet, **{"steps": STEPS, "partition": "classes(k=2)", "concurrency": 8, **options})


def _model(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


class Stop(Exception):
    pass


def _abandon(config: TrainConfig, folder: Path, at: int, resume: bool = True) -> None:
    """Train until so many updates have been received, then drop everything without a checkpoint."""

    def look(done: int, total: int, facts: dict) -> None:
        if done >= at:
            raise Stop

    with pytest.raises(Stop):
        train(config, folder, resume, checkpoint_every=10, progress=look)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"algorithm": "fedbuff(size=3)", "server": "adam", "local_steps": 3, "momentum": 0.9},
        {"algorithm": "quafl(contacts=3)", "concurrency": 10, "local_steps": 4},
        {"model": "cnn(channels=4, norm=batch)", "schedule": "cosine(end=120)"},
    ],
    ids=["generalized", "fedbuff with adam", "quafl", "batch norm"],
)
def test_a_run_abandoned_at_any_moment_goes_on_to_the_same_bits(fleet, tmp_path, options) -> None:
    config = _config(fleet, **options)
    train(config, tmp_path / "whole")
    broken = tmp_path / "broken"
    for at in sorted(np.random.default_rng(3).integers(1, STEPS - 20, 5)):
        _abandon(config, broken, int(at))
    assert train(config, broken, resume=True, checkpoint_every=10).complete
    assert _model(broken) == _model(tmp_path / "whole")
    assert (broken / "metrics.csv").read_bytes() == (tmp_path / "whole" / "metrics.csv").read_bytes()
    assert (broken / "summary.json").read_bytes() == (tmp_path / "whole" / "summary.json").read_bytes()


def test_evaluations_and_checkpoints_do_not_change_the_model(fleet, tmp_path) -> None:
    train(_config(fleet), tmp_path / "one")
    train(_config(fleet, evaluate_every=7), tmp_path / "two", checkpoint_every=5)
    assert _model(tmp_path / "one") == _model(tmp_path / "two")


def test_ctrl_c_leaves_a_checkpoint_to_go_on_from(fleet, tmp_path) -> None:
    def press(done: int, total: int, facts: dict) -> None:
        if done >= 60:
            signal.raise_signal(signal.SIGINT)

    first = train(_config(fleet), tmp_path / "run", progress=press)
    assert not first.complete
    assert 60 <= first.received < STEPS
    assert not (tmp_path / "run" / "model.safetensors").exists()
    second = open_run(_config(fleet), tmp_path / "run", resume=True)
    assert second.replay.received == first.received
    assert second.go().complete


def test_a_finished_run_resumed_stays_as_it_is(fleet, tmp_path) -> None:
    train(_config(fleet), tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert train(_config(fleet), tmp_path / "run", resume=True).complete
    assert before == {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}


def test_a_complete_run_keeps_no_checkpoints_and_says_that_it_is_complete(fleet, tmp_path) -> None:
    train(_config(fleet), tmp_path / "run", checkpoint_every=10)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        *("config.json", "lock", "metrics.csv", "model.safetensors", "summary.json", "trace.parquet")
    ]
    again = open_run(_config(fleet), tmp_path / "run", resume=True)
    assert (again.complete, again.received) == (True, STEPS)
    outcome = again.go()
    assert (outcome.complete, outcome.received) == (True, STEPS)
    assert outcome.metrics == {key: pytest.approx(value) for key, value in read_metrics(tmp_path / "run")[-1].items()}
    with pytest.raises(InvalidInput, match=r"holds another run: its config is steps = 120 \(now 130\)"):
        train(_config(fleet, steps=STEPS + 10), tmp_path / "run", resume=True)


def test_checkpoints_that_were_left_when_a_run_was_killed_at_its_very_end_are_cleared_away(fleet, tmp_path) -> None:
    _abandon(_config(fleet), tmp_path / "run", 100)
    left = (tmp_path / "run" / "checkpoints").rename(tmp_path / "left")
    train(_config(fleet), tmp_path / "run", resume=True)
    left.rename(tmp_path / "run" / "checkpoints")
    assert train(_config(fleet), tmp_path / "run", resume=True).complete
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_complete_run_without_its_model_is_not_silently_trained_again(fleet, tmp_path) -> None:
    train(_config(fleet), tmp_path / "run")
    (tmp_path / "run" / "model.safetensors").unlink()
    with pytest.raises(UnreadableFile, match=r"is complete, but model\.safetensors is missing; restore it, or remove"):
        train(_config(fleet), tmp_path / "run", resume=True)


def test_half_a_copy_of_a_complete_run_is_trained_to_its_end(fleet, tmp_path) -> None:
    train(_config(fleet), tmp_path / "run")
    for name in ("config.json", "summary.json"):
        (tmp_path / "copy").mkdir(exist_ok=True)
        (tmp_path / "copy" / name).write_bytes((tmp_path / "run" / name).read_bytes())
    assert train(_config(fleet), tmp_path / "copy", resume=True).complete
    assert _model(tmp_path / "copy") == _model(tmp_path / "run")


def test_what_a_killed_process_left_half_written_is_cleared_away(fleet, tmp_path) -> None:
    _abandon(_config(fleet), tmp_path / "run", 50)
    left = [
        tmp_path / "run" / name for name in ("summary.json.partial", "checkpoints/000000000051.safetensors.partial")
    ]
    for path in left:
        path.write_text("half")
    open_run(_config(fleet), tmp_path / "run", resume=True).checkpoint()
    assert not any(path.exists() for path in left)


def test_a_refused_run_leaves_nothing_behind(fleet, tmp_path) -> None:
    with pytest.raises(InvalidInput, match="no update comes back within time"):
        train(_config(fleet, steps=None, time=1e-6), tmp_path / "new" / "run")
    assert not (tmp_path / "new").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    for folder in (tmp_path / "mine", tmp_path / "empty"):
        folder.mkdir(exist_ok=True)
        with pytest.raises(InvalidInput):
            train(_config(fleet, steps=None, time=1e-6), folder)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_run_holds_its_folder_from_when_it_is_recognised_until_it_is_closed(fleet, tmp_path) -> None:
    run = open_run(_config(fleet), tmp_path / "run", begin=False)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["lock"]
    with pytest.raises(InvalidInput, match="another process is training in"):
        train(_config(fleet, seed=1), tmp_path / "run")
    run.begin()
    run.close()
    with pytest.raises(InvalidInput, match="was closed; open it again, with resume"):
        run.go()
    assert train(_config(fleet), tmp_path / "run", resume=True).complete


def test_the_folder_tells_config_seeds_versions_and_timing(fleet, tmp_path) -> None:
    train(_config(fleet, seed=5), tmp_path / "run")
    told = json.loads((tmp_path / "run" / "config.json").read_text())
    assert told["config"]["seed"] == 5
    assert told["config"]["step_size"] == 0.1  # filled in
    assert told["versions"]["torch"] == torch.__version__
    trace = Trace.load(tmp_path / "run" / "trace.parquet")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["trace_hash"] == trace.hash
    assert summary["received"] == STEPS == int(trace.applied.sum())


def test_the_trace_of_a_run_tells_whoever_fits_it_how_clients_were_called(fleet) -> None:
    call = "favano(contacts=2, waiting=1, interaction=0.5)"
    trace = simulated(build(_config(fleet, algorithm=call, local_steps=3, steps=3000)))
    told = {key: trace.metadata[key] for key in ("dispatcher", "local_steps", "one_draw", "server_rate", "leave")}
    assert told == {
        "dispatcher": "periodic",
        "local_steps": 3,
        "one_draw": False,
        "server_rate": None,
        "leave": (),
    }
    found = fit(trace, Fleet.load(fleet))
    assert found.fleet.rate == pytest.approx([4.0, 1.0], rel=0.1)


def test_metrics_count_steps_updates_time_gradients_work_and_bits(fleet, tmp_path) -> None:
    config = _config(fleet, algorithm="asyncsgd(steps=drop)", local_steps=2, evaluate_every=40)
    train(config, tmp_path / "run")
    rows = read_metrics(tmp_path / "run")
    last = rows[-1]
    size = 64 * 64 + 64 + 64 * 10 + 10
    assert [row["received"] for row in rows] == [0, 40, 80, 120]
    assert last["gradients"] == 2 * STEPS
    assert last["unused"] == 2 * (STEPS - last["version"])
    assert last["bits_up"] == 32 * size * STEPS
    assert last["bits_down"] == 32 * size * (STEPS + 8)
    trace = Trace.load(tmp_path / "run" / "trace.parquet")
    assert last["time"] == trace.applied_at[trace.applied].max()
    assert last["updates_between"] == trace.staleness.mean()
    assert last["client_worst"] <= last["client_10"] <= last["client_50"] <= last["client_90"] <= 1
    assert {"staleness_fast", "staleness_slow"} <= set(last)


def test_staleness_is_counted_in_models_and_fedavg_has_none(fleet, tmp_path) -> None:
    train(_config(fleet, algorithm="fedavg", concurrency=5), tmp_path / "run")
    last = read_metrics(tmp_path / "run")[-1]
    assert last["staleness"] == 0
    assert last["version"] == STEPS / 5


def test_the_final_model_loads_into_its_module_by_name(fleet, tmp_path) -> None:
    train(_config(fleet, model="cnn(channels=4)"), tmp_path / "run")
    digits = load_dataset("digits")
    module = load_model("cnn(channels=4)", digits, "digits", seed=9)
    module.load_state_dict(load_file(tmp_path / "run" / "model.safetensors"))
    with torch.no_grad():
        hits = module(torch.from_numpy(np.array(digits.test_x))).argmax(1).numpy() == digits.test_y
    assert hits.mean() == pytest.approx(read_metrics(tmp_path / "run")[-1]["accuracy"], abs=1e-9)


def test_a_time_limit_ends_a_run_at_the_last_update_before_it(fleet, tmp_path) -> None:
    outcome = train(_config(fleet, steps=None, time=5.0), tmp_path / "run")
    trace = Trace.load(tmp_path / "run" / "trace.parquet")
    assert outcome.received == int((trace.applied_at[trace.applied] <= 5.0).sum())
    assert outcome.metrics["time"] <= 5.0


def test_a_folder_of_another_run_is_refused_and_the_difference_named(fleet, tmp_path) -> None:
    train(_config(fleet), tmp_path / "run")
    with pytest.raises(InvalidInput, match="already holds a run, which is finished; replace it with --overwrite"):
        train(_config(fleet), tmp_path / "run")
    with pytest.raises(InvalidInput, match=r"another run: its config is step_size = 0.1 \(now 0.2\)"):
        train(_config(fleet, step_size=0.2), tmp_path / "run", resume=True)
    Path(fleet).write_text("name,count,rate\nfast,6,5\nslow,4,1\n")
    with pytest.raises(InvalidInput, match="its fleet_hash is"):
        train(_config(fleet), tmp_path / "run", resume=True)


def test_a_folder_with_other_files_is_left_alone(fleet, tmp_path) -> None:
    with pytest.raises(InvalidInput, match="holds other files, not a run"):
        train(_config(fleet), tmp_path)


def test_a_trace_that_was_exchanged_is_noticed(fleet, tmp_path) -> None:
    _abandon(_config(fleet), tmp_path / "run", 50)
    train(_config(fleet, seed=1), tmp_path / "other")
    (tmp_path / "run" / "trace.parquet").write_bytes((tmp_path / "other" / "trace.parquet").read_bytes())
    with pytest.raises(UnreadableFile, match="is not the trace of its checkpoints"):
        train(_config(fleet), tmp_path / "run", resume=True)


def _cut(content: bytes) -> bytes:
    return content[:100]


def _flipped(content: bytes) -> bytes:
    """One bit is another, late in the file, where the numbers are."""
    at = len(content) - 6
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def _one_more(content: bytes) -> bytes:
    """A manifest that can be read, and says something else."""
    told = json.loads(content)
    told["step"] += 1
    return json.dumps(told).encode()


@pytest.mark.parametrize(
    ("kind", "damage", "said"),
    [
        (
            "json",
            _cut,
            r"50\.json cannot be used \(.*\); the previous one is used, and the run continues from update 40",
        ),
        ("json", _one_more, "it has changed since it was written"),
        ("safetensors", _cut, "50.safetensors has changed since it was written"),
        ("safetensors", _flipped, "50.safetensors has changed since it was written"),
    ],
    ids=["half a manifest", "a changed manifest", "half the tensors", "a changed bit"],
)
def test_a_damaged_checkpoint_is_reported_and_the_one_before_it_is_taken(fleet, tmp_path, kind, damage, said) -> None:
    _abandon(_config(fleet), tmp_path / "run", 50)
    last = sorted((tmp_path / "run" / "checkpoints").glob(f"*.{kind}"))[-1]
    last.write_bytes(damage(last.read_bytes()))
    with pytest.warns(UserWarning, match=said):
        again = open_run(_config(fleet), tmp_path / "run", resume=True)
    assert again.received == 40
    again.replay.advance(60)
    again.checkpoint()
    assert again.store.steps() == [40, 60]  # the damaged one is gone
    again.go()
    train(_config(fleet), tmp_path / "whole")
    assert _model(tmp_path / "run") == _model(tmp_path / "whole")


def test_where_no_checkpoint_is_whole_the_run_is_refused_with_the_way_out(fleet, tmp_path) -> None:
    _abandon(_config(fleet), tmp_path / "run", 50)
    for path in (tmp_path / "run" / "checkpoints").glob("*.safetensors"):
        path.write_bytes(_flipped(path.read_bytes()))
    with pytest.raises(
        UnreadableFile, match=r"50\.json cannot be used .*, nor can an earlier one; remove .*checkpoints"
    ):
        train(_config(fleet), tmp_path / "run", resume=True)


def test_checkpoints_without_checksums_are_read(fleet, tmp_path) -> None:
    _abandon(_config(fleet), tmp_path / "run", 50)
    for path in (tmp_path / "run" / "checkpoints").glob("*.json"):
        old = json.loads(path.read_text())
        path.write_text(json.dumps({key: old[key] for key in ("sojourn_checkpoint", "step", "tree")}))
    again = open_run(_config(fleet), tmp_path / "run", resume=True)
    assert again.received == 50
    again.go(checkpoint_every=10)
    train(_config(fleet), tmp_path / "whole")
    assert _model(tmp_path / "run") == _model(tmp_path / "whole")


def test_a_pinned_model_is_written_once(fleet, tmp_path) -> None:
    _abandon(_config(fleet), tmp_path / "run", 60)
    folder = tmp_path / "run" / "checkpoints"
    size = 4 * (64 * 64 + 64 + 64 * 10 + 10)
    tensors = sum(len(load_file(path)) for path in folder.glob("*.safetensors"))
    manifests = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    named = {str(value) for one in manifests for value in _tensors(one)}
    assert len(manifests) == 2
    assert len(named) <= tensors  # none of them twice
    assert sum(path.stat().st_size for path in folder.glob("*.safetensors")) < (2 * 8 + 2 * 10 + 2 * 8 + 4) * (
        size + 100
    )


def _tensors(value):
    if isinstance(value, dict):
        if "tensor" in value:
            yield value["tensor"]
        for one in value.values():
            yield from _tensors(one)
    elif isinstance(value, list):
        for one in value:
            yield from _tensors(one)


def test_a_gradient_that_is_not_a_number_stops_the_run_at_that_step_and_keeps_what_was_before(fleet, tmp_path) -> None:
    config = _config(fleet, step_size=1e12, clip=None, model="mlp(layers=3)")
    with pytest.raises(Diverged, match=r"the update of client \d+ \('(fast|slow)-?.*'\), its task \d+, .* at step \d+"):
        train(config, tmp_path / "run")
    kept = open_run(config, tmp_path / "run", resume=True)
    assert kept.replay.received > 0
    assert torch.isfinite(kept.replay.params).all()
    with pytest.raises(Diverged, match=f"at step {kept.replay.received}"):
        kept.go()


def test_a_model_that_is_not_finite_is_neither_judged_nor_kept(fleet, tmp_path) -> None:
    run = open_run(_config(fleet), tmp_path / "run")
    run.replay.advance(10)
    run.replay.state = run.replay.state._replace(params=run.replay.params * float("inf"))
    with pytest.raises(Diverged, match="the server's model is not finite after 10 updates"):
        run.checkpoint()
    assert run.store.steps() == []


def test_tasks_without_a_step_do_not_count_in_the_training_loss(fleet, tmp_path) -> None:
    options = {"algorithm": "favano(contacts=5, waiting=0.1, interaction=0.05)", "concurrency": None}
    train(_config(fleet, steps=20, evaluate_every=5, **options), tmp_path / "run")
    rows = read_metrics(tmp_path / "run")
    assert rows[-1]["gradients"] - rows[-1]["unused"] < 20  # most are called before they have done anything
    assert all(row["train_loss"] > 1 or np.isnan(row["train_loss"]) for row in rows)


def test_a_step_that_is_saved_again_leaves_the_tensors_of_the_first_time(tmp_path) -> None:
    store, model = Store(tmp_path / "checkpoints"), torch.arange(3.0)
    store.save(7, {"model": model})
    store.save(7, {"model": model, "more": torch.full((3,), torch.nan)})
    store.save(7, {"model": model, "more": torch.ones(3)})
    step, tree = Store(tmp_path / "checkpoints").load()
    assert step == 7
    assert tree["model"].tolist() == [0, 1, 2]
    assert tree["more"].tolist() == [1, 1, 1]


def test_what_is_kept_when_an_update_right_after_a_checkpoint_is_not_finite_is_finite(fleet, tmp_path) -> None:
    config = _config(fleet, step_size=1e7, clip=None, model="mlp(layers=3)", execution="one-by-one")
    with pytest.raises(Diverged):
        train(config, tmp_path / "run", checkpoint_every=1)
    kept = open_run(config, tmp_path / "run", resume=True)
    assert kept.replay.received > 0
    assert torch.isfinite(kept.replay.params).all()


def test_a_run_in_use_is_not_touched_by_one_that_is_refused(fleet, tmp_path) -> None:
    seen = []

    def intrude(done: int, total: int, facts: dict) -> None:
        if done >= 60 and not seen:
            before = (tmp_path / "run" / "metrics.csv").read_bytes()
            with pytest.raises(InvalidInput, match="another process is training in"):
                train(_config(fleet), tmp_path / "run", resume=True)
            seen.append(before == (tmp_path / "run" / "metrics.csv").read_bytes())

    train(_config(fleet), tmp_path / "run", checkpoint_every=20, progress=intrude)
    assert seen == [True]


FROZEN = """
import torch

def network(dataset):
    first, norm = torch.nn.Linear(64, 16), torch.nn.BatchNorm1d(16).eval()
    first.requires_grad_(False)
    return torch.nn.Sequential(torch.nn.Flatten(), first, norm, torch.nn.ReLU(), torch.nn.Linear(16, 10))
"""


def test_what_an_own_model_has_frozen_stays_frozen_and_resumes_to_the_same_bits(fleet, tmp_path, monkeypatch) -> None:
    (tmp_path / "frozen_in_part.py").write_text(FROZEN)
    monkeypatch.syspath_prepend(tmp_path)
    config = _config(fleet, model="frozen_in_part:network", weight_decay=0.05)
    train(config, tmp_path / "whole")
    _abandon(config, tmp_path / "broken", 50)
    train(config, tmp_path / "broken", resume=True)
    whole, broken = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "broken"))
    assert all(torch.equal(whole[key], broken[key]) for key in whole)
    built = build(config).federation.model.module.state_dict()
    assert torch.equal(whole["1.weight"], built["1.weight"])
    assert torch.equal(whole["2.running_mean"], torch.zeros(16))
    assert not torch.equal(whole["4.weight"], built["4.weight"])


@pytest.mark.slow
def test_two_processes_do_not_train_in_one_folder(fleet, tmp_path) -> None:
    def intrude(done: int, total: int, facts: dict) -> None:
        if done >= 60:
            with pytest.raises(InvalidInput, match="another process is training in"):
                open_run(_config(fleet), tmp_path / "run", resume=True).go()

    assert train(_config(fleet), tmp_path / "run", checkpoint_every=20, progress=intrude).complete


def test_a_run_may_move_with_its_fleet_file(fleet, tmp_path) -> None:
    _abandon(_config(fleet), tmp_path / "run", 50)
    moved = tmp_path / "elsewhere.csv"
    moved.write_bytes(Path(fleet).read_bytes())
    assert train(_config(str(moved)), tmp_path / "run", resume=True).complete


def test_a_damaged_file_of_tensors_or_metrics_is_reported(fleet, tmp_path) -> None:
    _abandon(_config(fleet), tmp_path / "run", 50)
    whole = (tmp_path / "run" / "metrics.csv").read_bytes()
    (tmp_path / "run" / "metrics.csv").write_bytes(whole[:20])
    with pytest.raises(UnreadableFile, match="shorter than its run left it"):
        train(_config(fleet), tmp_path / "run", resume=True)
    (tmp_path / "run" / "metrics.csv").write_bytes(whole)
    for path in (tmp_path / "run" / "checkpoints").glob("*.safetensors"):
        path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(UnreadableFile, match=r"remove .*checkpoints to start the run again"):
        train(_config(fleet), tmp_path / "run", resume=True)


def test_a_model_of_your_own_may_roll_dice_anywhere(fleet, tmp_path, monkeypatch) -> None:
    (tmp_path / "diced.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = torch.nn.Linear(64, 10)\n"
        "    def forward(self, x):\n"
        "        return self.layer(torch.nn.functional.dropout(x.flatten(1), 0.3, self.training))\n"
        "def net(dataset):\n"
        "    return Net()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    config = _config(fleet, model="diced:net")
    train(config, tmp_path / "whole")
    torch.manual_seed(99)
    _abandon(config, tmp_path / "broken", 50)
    train(config, tmp_path / "broken", resume=True)
    assert _model(tmp_path / "broken") == _model(tmp_path / "whole")


def test_a_server_with_statistics_trains_and_writes_them(fleet, tmp_path) -> None:
    train(_config(fleet, model="cnn(channels=4, norm=batch)"), tmp_path / "run")
    saved = load_file(tmp_path / "run" / "model.safetensors")
    variances = torch.cat([value for name, value in saved.items() if name.endswith("running_var")])
    assert (variances > 0).all()
