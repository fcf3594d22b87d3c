"""`sojourn compare`: what is written, what is said, what is refused; resumed, merged, interrupted."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from sojourn.cli.main import app
from sojourn.errors import SojournError


def call(*words, code=0):
    result = CliRunner().invoke(app, ["compare", *(str(word) for word in words)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def fleet(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nfast,6,4\nslow,4,1\n")
    return path


@pytest.fixture
def words(fleet):
    algorithms = ("--algorithm", "asyncsgd", "--algorithm", "buffered: fedbuff(size=3) local_steps=2")
    run = ("--model", "logistic", "--time", 6, "-C", 5, "--set", "batch_size=8", "--partition", "classes(k=3)")
    return [fleet, *algorithms, *run, "--seeds", 3, "--step-sizes", "0.05,0.2", "--tuning-seeds", 2, "--jobs", 2]


def test_help_shows_examples():
    said = " ".join(call("--help").stdout.split())
    assert 'sojourn compare fleet.csv --algorithm asyncsgd --algorithm "fedbuff(size=10)"' in said


@pytest.mark.slow
def test_the_tables_of_another_comparison_are_not_written_over(fleet, tmp_path):
    out = tmp_path / "cmp"
    run = ("--model", "logistic", "--steps", 20, "-C", 5, "--jobs", 1, "--no-picture", "--out", out)
    call(fleet, "--algorithm", "asyncsgd", "--seeds", 1, *run)
    table = (out / "table.csv").read_text()
    for other in (("fedasync",), ("asyncsgd", "--set", "batch_size=8")):
        with pytest.raises(SojournError, match=r"runs\.csv is the table of another comparison"):
            call(fleet, "--algorithm", *other, "--seeds", 1, *run)
    assert (out / "table.csv").read_text() == table
    call(fleet, "--algorithm", "asyncsgd", "--algorithm", "fedasync", "--seeds", 2, *run)  # it grows
    call(fleet, "--algorithm", "asyncsgd", "--step-sizes", "0.1", "--algorithm", "fedasync", "--seeds", 1, *run)
    call(fleet, "--algorithm", "fedasync", "--seeds", 1, *run, "--overwrite")
    assert {row["algorithm"] for row in read(out / "table.csv")} == {"fedasync"}


@pytest.mark.slow
def test_all_algorithms_are_compared_in_the_world_that_the_flags_describe(fleet, tmp_path):
    world = ["--law", "fast=deterministic", "--law", "slow=gamma(shape=2)", "--uplink", 5, "--downlink", "slow=3"]
    world += ["--server-rate", 30, "--dispatcher", "pure", "--availability", "churn(on=50, off=5)"]
    run = ["--model", "logistic", "--steps", 20, "--seeds", 1, "--jobs", 1, "--no-picture", "--out", tmp_path / "cmp"]
    call(fleet, "--algorithm", "asyncsgd", "--algorithm", "fedasync", *world, *run)
    told = [json.loads(path.read_text())["config"] for path in (tmp_path / "cmp").glob("cells/*/config.json")]
    assert len(told) == 2
    for config in told:
        assert (config["law"], config["uplink"]) == ("fast=deterministic; slow=gamma(shape=2)", "5")
        assert (config["downlink"], config["server_rate"], config["dispatcher"]) == ("slow=3", 30.0, "pure")
        assert config["availability"] == "churn(on=50, off=5)"


def test_a_world_that_an_algorithm_cannot_live_in_is_refused_before_any_cell(fleet, tmp_path):
    with pytest.raises(SojournError, match="fedavg needs dispatcher rounds, got idle"):
        call(fleet, "--algorithm", "fedavg", "--steps", 20, "--dispatcher", "idle", "--out", tmp_path / "cmp")
    assert not (tmp_path / "cmp").exists()


@pytest.mark.slow
def test_a_comparison_writes_tables_curves_and_a_picture_and_is_not_done_twice(words, tmp_path):
    out = tmp_path / "cmp"
    shown = call(*words, "--target", "accuracy=0.3", "--extensions", 1, "--out", out).output
    assert "mean ± half of its 95% interval" in shown
    runs, trials, table = (read(out / f"{name}.csv") for name in ("runs", "tuning", "table"))
    assert [(row["algorithm"], row["seed"]) for row in runs] == [
        (m, s) for m in ("asyncsgd", "buffered") for s in "012"
    ]
    assert all(row["state"] == "complete" and row["torch"] and row["cell"] for row in runs)
    assert {"time_to_target", "received_to_target", "version_to_target", "gradients_to_target"} <= set(runs[0])
    grid = sorted({float(row["step_size"]) for row in trials})
    assert len(trials) == 2 * len(grid) * 2
    assert len(table) == 2 * 4
    assert {"client_worst", "client_10_low", "difference", "to_target", "not_reached"} <= set(table[0])
    assert float(table[4]["mean"]) - float(table[0]["mean"]) == pytest.approx(float(table[4]["difference"]))
    assert {row["axis"] for row in read(out / "curves.csv")} == {"time", "received", "version", "gradients"}
    for name in ("comparison.svg", "comparison.png"):
        assert (out / name).stat().st_size > 10_000
    told = json.loads((out / "summary.json").read_text())
    assert told["complete"] is True
    assert told["tuning"]["grid"] == grid
    before = {path: path.stat().st_mtime_ns for path in (out / "cells").glob("*/summary.json")}
    again = json.loads(call(*words, "--target", "accuracy=0.3", "--extensions", 1, "--out", out, "--json").stdout)
    assert again["command"] == "compare"
    assert again["table"] == told["table"]
    assert before == {path: path.stat().st_mtime_ns for path in (out / "cells").glob("*/summary.json")}


@pytest.mark.slow
def test_the_parts_of_two_machines_make_the_whole(words, tmp_path):
    words = [*words, "--extensions", 0, "--no-picture"]
    call(*words, "--out", tmp_path / "whole")
    parts = {number: tmp_path / f"machine-{number}" for number in (1, 2)}
    for _ in range(2):  # the trials, then the runs, exchanged in between
        for number, out in parts.items():
            call(*words, "--part", f"{number}/2", "--out", out)
        for one, other in ((1, 2), (2, 1)):
            shutil.copytree(parts[one] / "cells", parts[other] / "cells", dirs_exist_ok=True)
    said = call(*words, "--out", parts[1], "--dry-run").output
    assert "8 trials, 8 of them done" in said
    assert "6 runs, 6 of them done" in said
    call(*words, "--out", parts[1])
    for name in ("table.csv", "runs.csv", "curves.csv", "tuning.csv"):
        assert (parts[1] / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_machine_without_a_cell_of_its_own_leaves_all_to_the_others(words, tmp_path):
    said = call(*words, "--part", "1/100000", "--no-picture", "--out", tmp_path / "cmp").output
    assert "8 cells left to other machines" in said


@pytest.mark.slow
def test_a_dry_run_counts_and_estimates_and_writes_nothing(words, tmp_path):
    said = call(*words, "--out", tmp_path / "cmp", "--dry-run").output
    assert "8 trials, 0 of them done" in said
    assert "6 runs, 0 of them done" in said
    assert "What is left to do, about" in said
    assert "timed: trial asyncsgd step size 0.05 seed 10000, " in said
    assert "for each process" in said
    assert "the algorithms have different dispatchers" in said
    assert "the grid may grow at its edges: 8 to 32 trials in all" in " ".join(said.split())
    assert "processes share the processor's caches" in " ".join(said.split())
    told = json.loads(call(*words, "--out", tmp_path / "cmp", "--dry-run", "--json").stdout)
    assert [told[key] for key in ("trials", "trials_ended", "runs", "runs_ended")] == [8, 0, 6, 0]
    found = told["estimate"]
    assert set(found["phases"]) == {"trials", "runs"}
    assert found["jobs"] == 2
    assert 0 < found["wall"] < sum(one["seconds"] for one in found["phases"].values())
    assert found["memory"] == 2 * found["memory_each"] > 1e8  # PyTorch alone takes more
    assert {one["name"].partition(" seed")[0] for one in found["timed"]} >= {"asyncsgd step size 0.05"}
    assert not (tmp_path / "cmp").exists()


@pytest.mark.slow
def test_a_file_says_the_same_as_flags(words, fleet, tmp_path):
    (tmp_path / "compare.toml").write_text(f"""
seeds = 3
[run]
fleet = "{fleet}"
time = 6.0
model = "logistic"
concurrency = 5
batch_size = 8
partition = "classes(k=3)"
[tuning]
step_sizes = [0.05, 0.2]
seeds = 2
extensions = 0
[[algorithm]]
algorithm = "asyncsgd"
[[algorithm]]
name = "buffered"
algorithm = "fedbuff(size=3)"
local_steps = 2
""")
    call(*words, "--extensions", 0, "--no-picture", "--out", tmp_path / "cmp")
    said = call("--config", tmp_path / "compare.toml", "--out", tmp_path / "cmp", "--dry-run").output
    assert "8 trials, 8 of them done" in said
    assert "6 runs, 6 of them done" in said


@pytest.mark.slow
def test_every_method_runs_under_every_plan(fleet, tmp_path):
    words = ["--algorithm", "asyncsgd", "--algorithm", "generalized-asyncsgd", "--plan", "few: concurrency=3"]
    words += ["--plan", "fast: sampling=speed concurrency=6", "--seeds", 2, "--steps", 30, "--model", "logistic"]
    shown = call(fleet, *words, "--no-picture", "--jobs", 2, "--out", tmp_path / "cmp").output
    assert "the step sizes were not tuned" in shown
    names = list(dict.fromkeys(row["algorithm"] for row in read(tmp_path / "cmp" / "runs.csv")))
    assert names == ["asyncsgd, few", "asyncsgd, fast", "generalized-asyncsgd, few", "generalized-asyncsgd, fast"]


@pytest.mark.slow
def test_a_method_whose_cells_fail_is_left_out_and_the_others_are_compared(fleet, tmp_path):
    words = [
        "--algorithm",
        "asyncsgd",
        "--algorithm",
        "lost: asyncsgd start=nowhere",
        "--step-sizes",
        "0.1",
        "--extensions",
        0,
    ]
    words += ["--seeds", 2, "--steps", 30, "--model", "logistic", "--no-picture", "--jobs", 2]
    result = call(fleet, *words, "--out", tmp_path / "cmp", code=1)
    assert "start must be one of" in result.output
    assert "is left out" in result.output
    states = {row["algorithm"]: row["state"] for row in read(tmp_path / "cmp" / "tuning.csv")}
    assert states == {"asyncsgd": "complete", "lost": "failed"}
    assert {row["algorithm"] for row in read(tmp_path / "cmp" / "runs.csv")} == {"asyncsgd"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "a comparison needs at least one algorithm"),
        (
            ["--algorithm", "asyncsgd", "--algorithm", "asyncsgd"],
            "algorithms must have different names, got 'asyncsgd' twice",
        ),
        (["--algorithm", "asyncsgd seed=3"], "seed must be the same for all algorithms"),
        (["--algorithm", "asyncsgd batches=3"], "unknown key 'batches'; did you mean batch_size?"),
        (["--algorithm", "asyncsgd fast"], "settings must read like key=value, got 'fast'"),
        (
            ["--algorithm", "asyncsgd", "--step-sizes", "0.1,many"],
            "step-sizes must be numbers separated by commas, got 'many'",
        ),
        (["--algorithm", "asyncsgd", "--step-sizes", "0.1,-1"], "step_sizes must be positive, finite and different"),
        (["--algorithm", "asyncsgd", "--step-sizes", "0.1", "--tuning-seeds", "3,4", "--seeds", "5"], "3 is in both"),
        (["--algorithm", "asyncsgd", "--target", "speed=3"], "target must be one of accuracy"),
        (["--algorithm", "asyncsgd", "--baseline", "fedavg"], "baseline must be asyncsgd, got 'fedavg'"),
        (["--algorithm", "asyncsgd", "--set", "holdout=0.3"], "holdout is set by the comparison"),
        (["--algorithm", "asyncsgd", "--holdout", "2"], "holdout must be a share between 0 and 1, got 2.0"),
        (["--algorithm", "asyncsgd", "--tune-by", "luck"], "by must be one of loss, accuracy, got 'luck'"),
        (["--algorithm", "asyncsgd", "--part", "3/2"], "part must read like 1/2"),
        (["--algorithm", "asyncsgd", "--steps", "5", "--time", "3"], "steps and time exclude each other"),
        (["--algorithm", "asyncsgd", "--on", "mars"], "on must be one of here, ray, got 'mars'"),
        (["--algorithm", "fedbuf"], "did you mean fedbuff or"),
        (["--algorithm", "asyncsgd", "--algorithm", "fedavg concurrency=11"], "fedavg needs concurrency <= clients"),
        (["--algorithm", "asyncsgd", "--data", "digit"], "did you mean digits?"),
        (["--algorithm", "asyncsgd", "--plan", "nowhere.json"], "nowhere.json"),
        (["--config", "nowhere.toml"], "comparison file nowhere.toml does not exist"),
    ],
)
def test_nonsense_is_refused_in_one_sentence(fleet, tmp_path, words, message):
    with pytest.raises(SojournError) as raised:
        call(fleet, *words, "--out", tmp_path / "cmp")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "cmp").exists()


def wait(process, said, ready):
    """Wait until a process is as far as `ready` asks; one that has ended before is a failure."""
    while not ready():
        assert process.poll() is None, said.read_text()
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_what_is_interrupted_or_killed_goes_on_where_it_was(fleet, tmp_path, number):
    words = [
        "--algorithm",
        "asyncsgd",
        "--algorithm",
        "fedavg",
        "--steps",
        "6000",  # long enough that a fast machine does not end a cell before it hears of the signal
        "--seeds",
        "2",
        "--step-sizes",
        "0.1",
    ]
    words += ["--tuning-seeds", "1", "--extensions", "0", "--no-picture"]
    out = tmp_path / "broken"
    often = ["--checkpoint-seconds", "0.05"]
    command = [sys.executable, "-m", "sojourn", "compare", str(fleet), *words, *often, "--out", str(out)]
    with (tmp_path / "said").open("w") as said:  # a pipe would be held by the orphans too
        process = subprocess.Popen(command, stderr=said, stdout=said, env=os.environ)
    wait(process, tmp_path / "said", lambda: list((out / "cells").glob("*/checkpoints/*.json")))
    process.send_signal(number)
    process.wait(timeout=120)
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert "continue with: sojourn compare" in (tmp_path / "said").read_text()
    time.sleep(3)  # orphans notice, and write where they stand
    assert list((out / "cells").glob("*/checkpoints/*.json"))
    call(fleet, *words, "--out", out)
    call(fleet, *words, "--out", tmp_path / "whole")
    for name in ("table.csv", "runs.csv"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_second_ctrl_c_waits_for_nobody(fleet, tmp_path, jobs):
    words = ["--algorithm", "asyncsgd", "--steps", "5000000", "--seeds", "2", "--no-picture", "--jobs", jobs]
    command = [sys.executable, "-m", "sojourn", "compare", str(fleet), *words, "--out", str(tmp_path / "cmp")]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(command, stderr=said, stdout=said, env=os.environ)

    def training():  # every process has evaluated its first model, and writes nothing more for a while
        found = [path.read_text() for path in (tmp_path / "cmp").glob("cells/*/metrics.csv")]
        return sum(text.count("\n") > 1 for text in found) == int(jobs)

    wait(process, tmp_path / "said", training)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.03)
    assert process.wait(timeout=60) != 0
    sizes = [path.stat().st_size for path in (tmp_path / "cmp").glob("cells/*/metrics.csv")]
    time.sleep(5)
    assert sizes == [path.stat().st_size for path in (tmp_path / "cmp").glob("cells/*/metrics.csv")]
