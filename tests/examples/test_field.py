"""The example that puts all methods under one clock: its page is made of its results, and a small one runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2]
EXAMPLE = HOME / "examples" / "field"
KEPT = HOME / "docs" / "results" / "field"
PAGE = HOME / "docs" / "field.md"
MODULES = {path.stem for path in EXAMPLE.glob("*.py")} - {"__main__"}


@pytest.fixture
def example(monkeypatch):
    """The folder of the example on the path, as Python has it when the example is run."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


def test_the_tables_on_the_page_are_made_of_the_kept_results(example):
    from page import parts

    text = PAGE.read_text("utf-8")
    for name, part in parts(KEPT).items():
        assert f"<!-- made: {name} -->\n{part}\n<!-- end of {name} -->" in text


def test_every_method_is_in_the_field(example):
    from entries import entries

    from sojourn.learning.algorithms.table import ALGORITHMS

    assert {one.algorithm.partition("(")[0] for one in entries()} == set(ALGORITHMS)
    assert sum(one.telling for one in entries()) == 12


def test_every_entry_has_the_same_number_of_trials_and_seeds_in_every_cell(example):
    from cells import cells
    from entries import entries
    from results import load

    found = load(KEPT)
    small = [cell for cell in cells() if cell.problem != "cifar"]
    assert len(small) == 15
    for cell in small:
        assert found[cell.name].keys() == {one.name for one in entries()}
        assert {(one.trials, len(one.losses)) for one in found[cell.name].values()} == {(5, 5)}


def test_the_optimum_of_the_quadratic_problem_is_the_mean_of_the_clients_means(example):
    import numpy as np
    from apart import CLIENTS, optimum, points

    x, owner = points().train_x.astype(np.float64), points().owner
    means = np.array([x[owner == client].mean(axis=0) for client in range(CLIENTS)])
    assert optimum() == pytest.approx(means.mean(axis=0))
    assert means[: CLIENTS // 2].mean() > 0.5 > -0.5 > means[CLIENTS // 2 :].mean()


def test_a_shorter_run_has_a_shorter_time_on_the_same_fleet(example):
    from cells import chosen

    (whole,), (part,) = chosen(["digits-10to1-random"]), chosen(["digits-10to1-random"], 800)
    assert part.time == pytest.approx(whole.time / 10)


@pytest.mark.slow
def test_a_method_of_ones_own_gets_its_row_beside_the_others(tmp_path):
    words = [sys.executable, str(EXAMPLE), "enter", "area:Area", "quadratic-mild", "--gradients", "400"]
    paths = os.pathsep.join([str(HOME / "examples" / "extending"), str(HOME / "src")])
    done = subprocess.run(
        [*words, "--jobs", "1", "--out", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "| area:Area |" in done.stdout
    assert "| ringmaster |" in done.stdout
