"""`sojourn train`: flags, run files, what is said, what is refused."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sojourn import Fleet, Plan, Trace, simulate
from sojourn.cli.main import app
from sojourn.errors import SojournError

EXAMPLES = Path(__file__).parents[2] / "examples"


def call(*words):
    result = CliRunner().invoke(app, ["train", *(str(word) for word in words)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def fleet(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nfast,6,4\nslow,4,1\n")
    return path


def test_help_shows_examples():
    assert "sojourn train fleet.csv --plan plan.json --data digits" in call("--help").stdout


def test_flags_and_a_run_file_give_the_same_run(fleet, tmp_path):
    options = {
        "algorithm": "fedbuff(size=3)",
        "steps": 60,
        "partition": "classes(k=2)",
        "step_size": 0.2,
        "concurrency": 5,
    }
    flags = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", value)]
    call(fleet, *flags, "--out", tmp_path / "one")
    lines = [f"{key} = {json.dumps(value)}" for key, value in {**options, "fleet": str(fleet)}.items()]
    (tmp_path / "run.toml").write_text("\n".join(lines))
    call("--config", tmp_path / "run.toml", "--out", tmp_path / "two")
    one, two = ((tmp_path / name / "config.json").read_text() for name in ("one", "two"))
    assert one == two
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two")]
    assert models[0] == models[1]


def test_flags_win_over_the_run_file(fleet, tmp_path):
    (tmp_path / "run.toml").write_text(f'fleet = "{fleet}"\nsteps = 60\nseed = 4\n')
    call("--config", tmp_path / "run.toml", "--steps", "40", "--out", tmp_path / "run")
    told = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert (told["steps"], told["seed"]) == (40, 4)
    call("--config", tmp_path / "run.toml", "--time", "2", "--out", tmp_path / "timed")
    told = json.loads((tmp_path / "timed" / "config.json").read_text())["config"]
    assert (told["steps"], told["time"]) == (None, 2.0)


def test_a_trace_of_sojourn_simulate_is_trained_along(fleet, tmp_path):
    path = tmp_path / "trace.parquet"
    how = ["-C", 5, "--steps", 60, "--seed", 3, "--start", "one-each", "--engine", "events", "--out", path]
    result = CliRunner().invoke(app, ["simulate", str(fleet), *map(str, how)])
    assert result.exit_code == 0, result.output
    call(fleet, "-C", 5, "--steps", 60, "--seed", 3, "--out", tmp_path / "simulated")
    said = call(fleet, "--trace", path, "--seed", 3, "--out", tmp_path / "along").output
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("simulated", "along")]
    assert models[0] == models[1]
    assert "were not checked" not in said
    path.rename(tmp_path / "elsewhere.parquet")
    call("--resume", "--out", tmp_path / "along")


def test_a_recorded_trace_that_says_nothing_of_itself_is_trained_along_with_a_note(fleet, tmp_path):
    loaded = Fleet.load(fleet)
    trace = simulate(loaded, Plan.uniform(loaded, 5), 30, seed=3)
    replace(trace, metadata={}).save(tmp_path / "trace.parquet")
    said = call(fleet, "--trace", tmp_path / "trace.parquet", "-C", 5, "--out", tmp_path / "run").output
    assert "the trace does not state its fleet_hash, plan_hash, dispatcher, concurrency" in said


def test_the_world_of_simulate_is_given_in_the_same_words(fleet, tmp_path):
    world = ["--law", "fast=deterministic", "--law", "slow=gamma(shape=2)", "--uplink", "5:deterministic"]
    world += ["--server-rate", 30, "--dispatcher", "pure", "--availability", "churn(on=50, off=5)"]
    path = tmp_path / "trace.parquet"
    how = ["-C", 5, "--steps", 60, "--seed", 3, "--start", "one-each", "--engine", "events", "--out", path]
    result = CliRunner().invoke(app, ["simulate", str(fleet), *map(str, [*world, *how])])
    assert result.exit_code == 0, result.output
    call(fleet, *world, "-C", 5, "--steps", 60, "--seed", 3, "--out", tmp_path / "flags")
    assert Trace.load(tmp_path / "flags" / "trace.parquet").hash == Trace.load(path).hash
    keys = {"law": "fast=deterministic; slow=gamma(shape=2)", "uplink": "5:deterministic", "server_rate": 30.0}
    keys |= {"dispatcher": "pure", "availability": "churn(on=50, off=5)", "fleet": str(fleet), "concurrency": 5}
    lines = [f"{key} = {json.dumps(value)}" for key, value in {**keys, "steps": 60, "seed": 3}.items()]
    (tmp_path / "run.toml").write_text("\n".join(lines))
    call("--config", tmp_path / "run.toml", "--out", tmp_path / "file")
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("flags", "file")]
    assert models[0] == models[1]


def test_a_plan_brings_sampling_concurrency_and_step_size(fleet, tmp_path):
    loaded = Fleet.load(fleet)
    Plan.of(loaded, {"fast": 0.05, "slow": 0.175}, 7, 0.02).save(tmp_path / "plan.json")
    call(fleet, "--plan", tmp_path / "plan.json", "--steps", 40, "--out", tmp_path / "run")
    told = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert (told["step_size"], told["concurrency"]) == (0.02, 7)


def test_a_flag_of_zero_counts_as_given(fleet, tmp_path):
    call(fleet, "--correction", "0", "--steps", "5", "--out", tmp_path / "run")
    assert json.loads((tmp_path / "run" / "config.json").read_text())["config"]["correction"] == 0


def test_people_read_words_and_programs_read_keys(fleet, tmp_path):
    words = [fleet, "--steps", 5, "--out", tmp_path / "run"]
    said = " ".join(call(*words).stdout.split())
    assert "run: done, last evaluation" in said
    assert all(word in said for word in ("updates received", "time (seconds)", "worst client", "mean staleness"))
    assert "run/metrics.csv" in said.replace(" ", "")
    told = call(*words, "--overwrite", "--csv").stdout
    assert "\nreceived,version,time,gradients,accuracy,test_loss,client_worst,client_50,staleness\n" in f"\n{told}"


def test_json_carries_the_last_row_of_the_metrics(fleet, tmp_path):
    told = json.loads(call(fleet, "--steps", 40, "--json", "--out", tmp_path / "run").stdout)
    assert told["received"] == 40
    assert told["complete"] is True
    last = (tmp_path / "run" / "metrics.csv").read_text().splitlines()[-1]
    assert repr(told["accuracy"]) in last


def test_a_holdout_is_judged_on_or_only_kept_out(fleet, tmp_path):
    words = [fleet, "--steps", 40, "--json", "--holdout", 0.2]
    on_it = json.loads(call(*words, "--judged-on", "holdout", "--out", tmp_path / "on").stdout)
    without = json.loads(call(*words, "--out", tmp_path / "without").stdout)
    assert on_it["accuracy"] != without["accuracy"]
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("on", "without")]
    assert models[0] == models[1]


def test_pictures_and_event_files_are_written_when_asked_for(fleet, tmp_path):
    call(fleet, "--steps", 40, "--pictures", "--tensorboard", "--out", tmp_path / "run")
    for name in ("who-holds-what.png", "curves.svg"):
        assert (tmp_path / "run" / name).stat().st_size > 1000
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    assert events.Scalars("accuracy")[-1].step == 40


def test_batches_larger_than_a_shard_are_reported_and_become_the_shard(fleet, tmp_path):
    result = call(fleet, "--steps", 20, "--batch-size", 500, "--out", tmp_path / "run")
    assert "10 clients hold fewer examples than a batch of 500: each of their batches holds all their examples" in (
        result.output
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--algorithm", "fedasync", "--server", "adam"], "server has no effect on fedasync"),
        (["--algorithm", "quafl(contacts=2)", "-C", "5"], "concurrency has no effect on quafl"),
        (["--algorithm", "asyncsgd", "--weights", "data"], "weights has no effect on asyncsgd"),
        (["--momentum", "0.9"], "momentum has no effect on generalized-asyncsgd"),
        (["--algorithm", "fedprox", "--proximal", "0.5"], "proximal has no effect on fedprox"),
        (["--local-step-size", "0.5"], "local-step-size has no effect on generalized-asyncsgd"),
    ],
)
def test_what_a_method_does_not_look_at_is_reported(fleet, tmp_path, words, said):
    assert said in call(fleet, "--steps", 20, *words, "--out", tmp_path / "run").output


def test_sampling_that_a_method_does_not_use_is_reported(fleet, tmp_path):
    result = call(fleet, "--steps", 20, "--algorithm", "fedavg", "--sampling", "speed", "--out", tmp_path / "run")
    assert "sampling has no effect on fedavg in this run" in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--partition", "classes(k=12)"], "k must be from 1 to 10, the number of classes, got 12"),
        (["--algorithm", "fedbuf"], "did you mean fedbuff"),
        (["--algorithm", "fedbuff(size=0)"], "fedbuff: size must be at least 1, got 0"),
        (["--algorithm", "favano(contacts=20)"], "contacts must be between 1 and the 10 clients"),
        (["--algorithm", "fedavg", "-C", "11"], "fedavg needs concurrency <= clients, got 11 > 10"),
        (["--model", "cmn"], "did you mean cnn?"),
        (["--model", "nowhere:net"], "module 'nowhere' cannot be imported"),
        (["--data", "digit"], "did you mean digits?"),
        (["--steps", "0"], "steps must be positive and finite, got 0"),
        (["--steps", "10", "--time", "3"], "steps and time exclude each other"),
        (["--time", "inf"], "time must be positive and finite, got inf"),
        (["--local-steps", "3", "--local-epochs", "2"], "local_steps and local_epochs exclude each other"),
        (["--plan", "plan.json", "--sampling", "speed"], "plan and sampling exclude each other"),
        (["--model", "mlp(hidden=0)"], "model mlp: hidden must be at least 1, got 0"),
        (["--schedule", "drops(at=10, by=nan)"], "the numbers of schedule drops must be positive and finite"),
        (["--start", "somewhere"], "start must be one of"),
        (["--algorithm", "fedbuff(size=20, distinct=true)"], "a buffer of 20 distinct clients needs as many, got 10"),
        (["--time", "0.000001"], "no update comes back within time 1e-06"),
        (["--step-size", "0"], "step_size must be positive and finite, got 0.0"),
        (["--step-size", "nan"], "step_size must be positive and finite, got nan"),
        (["--checkpoint-seconds", "-1"], "checkpoint-seconds must not be negative, got -1"),
        (["--batch-size", "0"], "batch_size must be positive, got 0"),
        (["--schedule", "drops"], "schedule drops needs at"),
        (["--server", "lion"], "the server's step must be one of sgd, momentum, adam, yogi, got 'lion'"),
        (["--dtype", "float16"], "dtype must be one of float32, float64, got 'float16'"),
        (["--seed", "-1"], "seed must be a whole number of at least 0"),
        (["--holdout", "1"], "holdout must be a share from 0 to below 1, got 1.0"),
        (["--judged-on", "holdout"], "judged_on holdout needs examples held out, got holdout 0"),
        (["--judged-on", "training"], "judged_on must be one of test, holdout, got 'training'"),
        (["--config", "nowhere.toml"], "run file nowhere.toml does not exist"),
    ],
)
def test_nonsense_is_refused_in_one_sentence_and_nothing_is_written(fleet, tmp_path, words, message):
    with pytest.raises(SojournError) as raised:
        call(fleet, *words, "--out", tmp_path / "run")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_what_cannot_be_a_folder_is_refused(fleet):
    with pytest.raises(SojournError, match="it is a file; name a folder"):
        call(fleet, "--out", fleet)


def test_a_run_is_resumed_by_its_folder_alone(fleet, tmp_path):
    words = ["--algorithm", "fedbuff(size=3)", "--steps", 40, "--partition", "classes(k=3)", "--seed", 2]
    call(fleet, *words, "--out", tmp_path / "run")
    shown = call("--resume", "--out", tmp_path / "run")
    assert "resumed at update 40 of 40" in shown.output
    with pytest.raises(SojournError, match="there is no run to resume"):
        call("--resume", "--out", tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps = 5", "key fleet is required"),
        ("fleet = 'f'\nstep = 5", "unknown key 'step'; did you mean steps or "),
        ("fleet = 'f'\nsteps = 'many'", "steps must be a whole number, got 'many'"),
        ("fleet = ", "is not valid TOML"),
    ],
)
def test_a_run_file_with_a_mistake_is_refused(tmp_path, text, message):
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(SojournError) as raised:
        call("--config", tmp_path / "run.toml", "--out", tmp_path / "run")
    assert message in str(raised.value)


@pytest.mark.slow
def test_a_model_and_data_of_your_own_are_found_by_name(fleet, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    words = [
        "--data",
        "own_task:two_moons",
        "--model",
        "own_task:network",
        "--partition",
        "natural",
        "--step-size",
        0.3,
    ]
    told = json.loads(call(fleet, *words, "--steps", 1500, "--json", "--out", tmp_path / "run").stdout)
    assert told["accuracy"] > 0.95


@pytest.mark.slow
def test_ctrl_c_on_the_command_line_keeps_the_run_and_says_how_to_go_on(fleet, tmp_path):
    words = ["train", str(fleet), "--steps", "1e6", "--evaluate-every", "1000", "--out", str(tmp_path / "run")]
    command = [sys.executable, "-m", "sojourn", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ)
    metrics = tmp_path / "run" / "metrics.csv"
    while not metrics.exists() or metrics.read_text().count("\n") < 3:  # the head, the start, and after some training
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"continue with: sojourn train --resume --out" in said
    assert list((tmp_path / "run" / "checkpoints").glob("*.json"))


def several(fleet, out, *words):
    return CliRunner().invoke(app, ["train", str(fleet), "--steps", "40", *words, "--out", str(out)])


def test_seeds_get_folders_and_a_lost_one_is_trained_when_they_are_resumed(fleet, tmp_path):
    out = tmp_path / "out"
    call(fleet, "--seeds", 3, "--seed", 5, "--steps", 40, "--out", out)
    assert sorted(path.name for path in out.iterdir()) == ["seed-5", "seed-6", "seed-7", "seeds.json"]
    expected = (out / "seed-7" / "model.safetensors").read_bytes()
    for path in sorted((out / "seed-7").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (out / "seed-7").rmdir()
    assert "seed-7" in call("--resume", "--out", out).stdout
    assert (out / "seed-7" / "model.safetensors").read_bytes() == expected
    assert "seed-8" in call("--resume", "--seeds", 4, "--out", out).stdout


def test_a_seed_that_diverges_does_not_stop_the_others(fleet, tmp_path, monkeypatch):
    from sojourn.learning.replay.replay import Diverged, Replay

    receive = Replay._receive

    def spoilt(self, task, pinned, ready):
        if self.federation.seed == 1 and task.step == 20:
            raise Diverged("the update is not finite")
        receive(self, task, pinned, ready)

    monkeypatch.setattr(Replay, "_receive", spoilt)
    result = several(fleet, tmp_path / "out", "--seeds", "3")
    assert result.exit_code != 0
    assert "seed 1: the update is not finite" in str(result.exception) + result.output
    done = [(tmp_path / "out" / f"seed-{seed}" / "summary.json").exists() for seed in range(3)]
    assert done == [True, False, True]


def test_each_seed_has_a_board_of_its_own(fleet, tmp_path):
    pytest.importorskip("tensorboard")
    call(fleet, "--seeds", 2, "--steps", 40, "--tensorboard", "--out", tmp_path / "out")
    assert all(any((tmp_path / "out" / f"seed-{seed}" / "tensorboard").iterdir()) for seed in range(2))
