"""The worked examples of code of one's own run, and print what their pages promise."""

import subprocess
import sys
from pathlib import Path

import pytest

EXTENDING = Path(__file__).parents[2] / "examples" / "extending"


def run(name: str) -> str:
    done = subprocess.run([sys.executable, EXTENDING / name], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_law_of_ones_own_passes_its_check_and_is_simulated():
    said = run("own_law.py")
    assert "the parts of Lomax agree" in said
    assert "lomax(alpha=3): scv 3, throughput 4." in said  # exponential service: 100 / 19 = 5.26


def test_the_dispatcher_of_ones_own_keeps_more_clients_busy_than_random_routing():
    said = run("own_dispatcher.py").splitlines()
    rates = [float(line.split("throughput ")[1].split()[0]) for line in said if "throughput" in line]
    assert rates[0] == pytest.approx(20 * 40 / 59, rel=0.02)  # the exact throughput of 20 equal clients with 40 tasks
    assert rates[1] > 1.2 * rates[0]


def test_the_objective_of_ones_own_samples_fast_clients_more_and_stale_ones_less():
    said = run("own_objective.py").splitlines()
    ratios = [float(line.split("sampled ")[1].split()[0]) for line in said]
    assert ratios[0] > ratios[1] > 1
