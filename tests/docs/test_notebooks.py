"""The notebooks: text that Jupyter opens through jupytext, and that runs from the first cell to the last."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from console import HOME, environment

NOTEBOOKS = {path.stem: path for path in sorted((HOME / "docs" / "notebooks").glob("*.py"))}


def run(name: str, tmp_path: Path) -> str:
    place = tmp_path / "place"
    place.mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", NOTEBOOKS[name]],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=place,
        env=environment(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_three():
    assert set(NOTEBOOKS) == {"explore_a_fleet", "train_and_compare", "watch_a_live_run"}


@pytest.mark.parametrize("path", NOTEBOOKS.values(), ids=NOTEBOOKS)
def test_a_notebook_is_text_in_the_percent_format(path):
    text = path.read_text("utf-8")
    head, _, body = text.removeprefix("# ---\n").partition("# ---\n")
    assert text.startswith("# ---\n# jupyter:\n#   jupytext:\n")
    assert "format_name: percent" in head
    assert "name: python3" in head
    cells = re.split(r"^# %%", body, flags=re.MULTILINE)
    assert cells[0].strip() == ""
    assert len(cells) > 10
    for cell in cells[1:]:
        kind, *lines = cell.splitlines()
        assert kind in ("", " [markdown]")
        if kind:
            assert all(line.startswith("#") for line in lines if line), cell


@pytest.mark.parametrize("path", NOTEBOOKS.values(), ids=NOTEBOOKS)
def test_sentences_of_a_notebook_are_at_most_100_characters_wide(path):
    assert [line for line in path.read_text("utf-8").splitlines() if line.startswith("#") and len(line) > 100] == []


@pytest.mark.slow
def test_the_fleet_is_explored_and_theory_agrees_with_simulation(tmp_path):
    said = run("explore_a_fleet", tmp_path)
    assert "slow: staleness 875.0 in theory" in said
    assert "cap    1: 730.0 updates per second, staleness fast 90, slow 729" in said


@pytest.mark.slow
def test_the_correction_pays_where_slow_clients_hold_data_of_their_own(tmp_path):
    said = run("train_and_compare", tmp_path)
    found = {name: float(value) for name, value in re.findall(r"^(.+): test accuracy ([\d.]+)", said, re.MULTILINE)}
    assert found["and corrected"] > max(found["AsyncSGD"], found["nobody waits"]) + 0.03  # on any processor


@pytest.mark.slow
def test_a_live_run_is_watched_and_stopped(tmp_path):
    said = run("watch_a_live_run", tmp_path)
    assert "running: 10 clients, 10 tasks in flight, faults {}" in said
    assert said.count("run.updates >= 200=True, running") >= 3
    assert "the run is stopped" in said
