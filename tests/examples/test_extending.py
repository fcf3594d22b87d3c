"""The worked examples of code of one's own run, and print what their pages promise."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sojourn import Fleet, Plan
from sojourn.algorithms import Local
from sojourn.live.run import why_not_live

EXTENDING = Path(__file__).parents[2] / "examples" / "extending"


def run(name: str) -> str:
    done = subprocess.run([sys.executable, EXTENDING / name], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_law_of_your_own_passes_its_check_and_is_simulated():
    said = run("own_law.py")
    assert "the parts of Lomax agree" in said
    assert "lomax(alpha=3): scv 3, throughput 4." in said  # exponential service: 100 / 19 = 5.26


@pytest.mark.slow
def test_the_dispatcher_of_your_own_keeps_more_clients_busy_than_random_routing():
    said = run("own_dispatcher.py").splitlines()
    rates = [float(line.split("throughput ")[1].split()[0]) for line in said if "throughput" in line]
    assert rates[0] == pytest.approx(20 * 40 / 59, rel=0.02)  # the exact throughput of 20 equal clients with 40 tasks
    assert rates[1] > 1.2 * rates[0]


@pytest.mark.slow
def test_the_objective_of_your_own_samples_fast_clients_more_and_stale_ones_less():
    said = run("own_objective.py").splitlines()
    ratios = [float(line.split("sampled ")[1].split()[0]) for line in said]
    assert ratios[0] > ratios[1] > 1


@pytest.mark.slow
def test_the_algorithm_of_your_own_has_every_property():
    assert run("own_algorithm.py").count("has every property") == 2


def train(tmp_path, *words):
    (tmp_path / "fleet.csv").write_text("name,count,rate\nfast,6,4\nslow,4,1\n")
    command = [sys.executable, "-m", "sojourn", "train", "fleet.csv", "--out", "run", "--json", *words]
    place = {**os.environ, "PYTHONPATH": os.pathsep.join([str(EXTENDING), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, env=place)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_area_whose_mean_a_forgetful_client_would_break_is_refused_live(monkeypatch):
    monkeypatch.syspath_prepend(str(EXTENDING))
    from area import Area
    from own_algorithm import Averaged

    fleet = Fleet.of(all=(3, 1.0))
    reasons = [
        why_not_live(made, made.timing(fleet, Plan.uniform(fleet, 3), Local())[1]) for made in (Area(), Averaged())
    ]
    assert reasons == ["breaks if a client forgets, and live clients that are started again do", None]


@pytest.mark.slow
def test_the_algorithm_of_your_own_is_trained_by_name(tmp_path):
    told, _ = train(tmp_path, "--algorithm", "own_algorithm:Averaged(share=0.3)", "--steps", "200")
    assert told["accuracy"] > 0.5


@pytest.mark.slow
def test_text_of_your_own_is_learnt_by_an_embedding_of_your_own(tmp_path):
    said = run("own_text.py")
    assert "letters: 320 lines of int64, 10 writers" in said
    words = ["--data", "own_text:letters(writers=10)", "--model", "own_text:Letters(width=16)", "--step-size", "2"]
    told, _ = train(tmp_path, *words, "--metrics", "perplexity, own_text:one_in_three", "--steps", "300")
    assert told["perplexity"] < 7  # of nine letters
    assert told["one_in_three"] > 0.6


@pytest.mark.slow
def test_a_partition_of_your_own_is_taken_and_the_owners_left_out_are_reported(tmp_path):
    words = ["--data", "own_text:letters(writers=10)", "--model", "own_text:Letters", "--steps", "10"]
    _, said = train(tmp_path, *words, "--partition", "own_text:by_half(most=0.6)")
    assert "the dataset's owners are not used" in said


@pytest.mark.slow
def test_the_callback_of_your_own_keeps_the_best_model(tmp_path):
    command = [sys.executable, EXTENDING / "own_callback.py", tmp_path / "best"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    best, last = (float(line.split("accuracy ")[1].split()[0]) for line in done.stdout.splitlines())
    assert best >= last > 0.5
    assert (tmp_path / "best/best.safetensors").stat().st_size > 1000
