"""The chain of the README: a plan from calibration, or from tuning, trains better than no plan, in the same time."""

import json
import subprocess
import sys
from pathlib import Path
from statistics import fmean

import pytest

from sojourn.plan import Plan

PROBLEM = ["--data", "digits", "--partition", "classes(k=2)", "--model", "mlp(hidden=32)", "--batch-size", "8"]
TIME = ["--time", "4.44"]
SEEDS = (0, 1, 2)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("fleet.csv").write_text("name,count,rate\nfast,50,8\nslow,50,1\n")
    return tmp_path


def call(command: str, *words: str) -> str:
    """Return what a command prints on standard output; notes go to standard error."""
    words = (sys.executable, "-m", "sojourn", command, "fleet.csv", *words)
    shown = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def accuracies(name: str, *words: str) -> list[float]:
    runs = [
        call("train", *words, *TIME, *PROBLEM, "--device", "cpu", "--seed", str(one), "--out", f"{name}{one}", "--json")
        for one in SEEDS
    ]
    return [json.loads(one)["accuracy"] for one in runs]


@pytest.mark.slow
def test_calibrate_plan_train_beats_train_without_a_plan(home: Path) -> None:
    call("calibrate", *PROBLEM, "--device", "cpu", "--out", "constants.toml")
    call("plan", *TIME, "--constants", "constants.toml", "--out", "plan.json")
    assert Plan.load("plan.json").step_size is not None
    planned, plain = accuracies("planned", "--plan", "plan.json"), accuracies("plain")
    assert min(planned) > max(plain)
    assert fmean(planned) > fmean(plain) + 0.05
    assert fmean(planned) > 0.9


@pytest.mark.slow
def test_plan_tune_train_beats_train_without_a_plan(home: Path) -> None:
    call("plan", *TIME, "--out", "plan.json")
    assert Plan.load("plan.json").step_size is None
    call("tune", "--plan", "plan.json", *TIME, *PROBLEM, "--device", "cpu", "--seeds", "1", "--out", "tuned.json")
    tuned, plain = accuracies("tuned", "--plan", "tuned.json"), accuracies("plain")
    assert min(tuned) > max(plain)
    assert fmean(tuned) > fmean(plain) + 0.05
