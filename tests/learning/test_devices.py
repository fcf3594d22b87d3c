"""The check that devices and precisions agree, at a size for the processor."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "device_check.py"


@pytest.mark.slow
def test_precisions_and_ways_of_computing_agree_within_their_errors_and_runs_stopped_together_go_on(tmp_path):
    command = [
        sys.executable,
        str(SCRIPT),
        "--device",
        "cpu",
        "--seeds",
        "4",
        "--steps",
        "80",
        "--model",
        "cnn(channels=4)",
    ]
    made = subprocess.run([*command, "--out", str(tmp_path)], capture_output=True, text=True, timeout=280, check=False)
    assert made.returncode == 0, made.stderr
    reference, waves, half, resumed = (json.loads(line) for line in made.stdout.splitlines())
    assert abs(waves["difference"]) < 1e-3
    assert abs(half["difference"]) < 5 * half["standard_error"] + 1e-3
    assert abs(half["difference"]) < 0.1 * reference["test_loss"]
    assert resumed["runs"] == 4
    assert resumed["largest_difference_of_test_loss"] < 1e-3
