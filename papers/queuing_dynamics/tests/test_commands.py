"""`python -m queuing_dynamics`, and the way by which `sojourn reproduce` finds this paper."""

import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from pretended_papers import write_metadata
from queuing_dynamics import commands
from queuing_dynamics.experiments import EXPERIMENTS, PAPER
from queuing_dynamics.tinyimagenet.size import Size
from queuing_dynamics.tinyimagenet.stages import TRAINING
from sojourn.cli.main import app, run

HOME = Path(__file__).parents[1]
TINY = Size(
    clients=4, time=100.0, batch_size=8, data="digits", model="logistic", augment="none", precision="fp32", tasks=2,
    buffer=2, round=1, contacts=2, local_steps=(1, 2), trial_seeds=1, final_seeds=2, caution="very small",
)  # fmt: skip


@pytest.fixture
def call(monkeypatch, capsys):
    """Run a command line in this process: (exit code, stdout, stderr)."""

    def run_with(*words, line=commands.app):
        monkeypatch.setattr("sys.argv", ["queuing_dynamics/__main__.py", *map(str, words)])
        code = 0
        try:
            run(line)
        except SystemExit as end:
            code = end.code or 0
        return (code, *capsys.readouterr())

    return run_with


def test_sojourn_finds_this_paper_by_the_entry_point_of_its_project(call, tmp_path, monkeypatch):
    project = tomllib.loads((HOME / "pyproject.toml").read_text("utf-8"))["project"]
    entries = project["entry-points"]["sojourn.papers"]
    write_metadata(tmp_path, [f"{name} = {value}" for name, value in entries.items()])
    monkeypatch.syspath_prepend(tmp_path)
    assert list(entries) == [project["name"]] == [PAPER.name]
    code, shown, _ = call("reproduce", "--list", "--json", line=app)
    assert code == 0
    assert [one["name"] for one in json.loads(shown)["experiments"]] == [one.name for one in EXPERIMENTS]


@pytest.mark.slow
def test_it_runs_as_a_module_with_two_folders_on_the_path_and_no_metadata(tmp_path):
    sources = os.pathsep.join(str(home / "src") for home in (HOME, HOME.parents[1]))
    program = (
        "import importlib.metadata, runpy, sys; "
        "importlib.metadata.MetadataPathFinder.find_distributions = lambda *_, **__: iter(()); "
        f"sys.argv = ['', 'reproduce', 'step-size', '--out', {str(tmp_path)!r}, '--json']; "
        "runpy.run_module('queuing_dynamics', run_name='__main__', alter_sys=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": sources}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (one,) = json.loads(done.stdout)["experiments"]
    assert (one["name"], len(one["claims"])) == ("step-size", 9)


def test_claims_are_made_again_and_shown(call, tmp_path):
    code, shown, _ = call("reproduce", "step-size", "--fast", "--out", tmp_path)
    assert code == 0
    assert "largest step at uniform p: caption (8) beside the theorem" in shown
    assert "disagrees" in shown


def test_the_way_on_after_ctrl_c_is_this_command(call, tmp_path, monkeypatch):
    def stopped(folder, fast, watch):
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "PAPER", replace(PAPER, experiments=(replace(EXPERIMENTS[0], run=stopped),)))
    code, _, said = call("reproduce", "all", "--out", tmp_path)
    assert code == 130
    assert said.endswith(f"continue with: python -m queuing_dynamics reproduce all --out {tmp_path}\n")


def test_training_says_what_is_left(call, tmp_path, monkeypatch):
    monkeypatch.setitem(commands.TRAININGS, "tinyimagenet", replace(TRAINING, fast=TINY))
    folders = ("--results", tmp_path, "--work", tmp_path)
    assert call("train", "tinyimagenet", "trials", "--fast", "--minutes", 0, *folders) == (
        0,
        "there is more to do: run this again\n",
        "",
    )
    code, _, said = call("train", "tinyimagenet", "table", *folders)
    assert code == 2
    assert said.startswith("error: 42 of 42 trials have not been trained")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--together", "0"], "together must be a whole number of at least 1, got 0"),
        (["--checkpoint-seconds", "-1"], "checkpoint-seconds must not be negative, got -1"),
        (["--minutes", "-1"], "minutes must not be negative, got -1"),
        (["--minutes", "nan"], "minutes must not be negative, got nan"),
        (["--work", "FILE"], "cannot write to .*file: it is a file; name a folder"),
        (["--results", "FILE/in"], "cannot write to .*in: .*file is a file; name a folder"),
    ],
)
def test_a_command_that_cannot_be_followed_is_refused_before_anything_is_trained(call, tmp_path, words, message):
    (tmp_path / "file").write_text("mine")
    given = [word.replace("FILE", str(tmp_path / "file")) for word in words]
    code, shown, said = call(
        "train", "tinyimagenet", "trials", "--fast", "--results", tmp_path, "--work", tmp_path, *given
    )
    assert (code, shown) == (2, "")
    assert re.fullmatch(f"error: {message}\n", said)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cifar", "search"], "experiment must be one of cifar10, tinyimagenet, got 'cifar'; did you mean cifar10?"),
        (["tinyimagenet", "tabel"], "stage of tinyimagenet must be one of trials, table, got 'tabel'"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(call, tmp_path, words, message):
    code, _, said = call("train", *words, "--results", tmp_path)
    assert code == 2
    assert said.startswith(f"error: {message}")
