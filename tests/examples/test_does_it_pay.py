"""The example that sets predictors beside training: its page is made from its results, and a small one runs."""

import csv
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

HOME = Path(__file__).parents[2]
EXAMPLE = HOME / "examples" / "does_it_pay"
KEPT = HOME / "docs" / "results" / "does-it-pay"
PAGE = HOME / "docs" / "does-it-pay.md"
MODULES = {path.stem for path in EXAMPLE.glob("*.py")} - {"__main__"}


@pytest.fixture
def example(monkeypatch):
    """The folder of the example on the path, as Python has it when the example is run."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


def test_what_is_made_on_the_page_is_made_of_the_kept_results(example):
    if not (KEPT / "cells.csv").exists():
        pytest.skip("no results are kept yet")
    from page import parts

    text = PAGE.read_text("utf-8")
    for name, part in parts(KEPT).items():
        assert f"<!-- made: {name} -->\n{part}\n<!-- end of {name} -->" in text


def test_every_cell_that_is_held_out_and_trained_was_predicted_first(example):
    if not (KEPT / "cells.csv").exists():
        pytest.skip("no results are kept yet")
    from predictions import predicted
    from results import load
    from world import cells

    held = {cell.name for cell in cells() if cell.held_out}
    assert held & load(KEPT).keys() <= predicted(KEPT).keys()


def test_the_kept_results_are_small():
    assert sum(path.stat().st_size for path in KEPT.rglob("*") if path.is_file()) < 1_000_000


@pytest.mark.slow
def test_there_are_sixty_five_cells_with_twelve_policies_or_more_and_six_on_cifar(example):
    from policies import BOUND, ROBUST, UNIFORM, policies
    from world import cells

    made = cells()
    assert len(made) == len({cell.name for cell in made}) == 65
    assert sum(cell.held_out for cell in made) == 26
    for cell in made:
        if "lognormal" in cell.fleet_name or cell.budget == "long":
            continue  # the bound's plan takes seconds there
        found = policies(cell)
        assert len(found) == 6 if cell.work.data == "cifar10" else len(found) >= 12
        assert {ROBUST, UNIFORM} <= found.keys()
        decays = {one.plan.schedule for name, one in found.items() if not name.endswith("constant")}
        assert decays == {"linear(end=budget)"}
        assert BOUND in found or cell.work.data == "cifar10"


@pytest.mark.parametrize(("slow", "alone"), [(50, 3), (10, 2), (30, 3)])
def test_some_classes_are_known_to_slow_clients_alone(example, slow, alone):
    from partitions import by_speed

    labels = np.arange(2000) % 10
    owner = by_speed(labels, 100, np.random.default_rng(0), k=2, slow=slow, alone=alone)
    held = [set(labels[owner == client]) for client in range(100)]
    assert all(len(mine) in (2, 3) for mine in held)
    fast = set.union(*held[: 100 - slow])
    assert len(fast) == 10 - alone
    assert set.union(*held) == set(range(10))
    assert all(mine - fast for mine in held[100 - slow :])
    again = by_speed(labels, 100, np.random.default_rng(0), k=2, slow=slow, alone=alone)
    other = by_speed(labels, 100, np.random.default_rng(1), k=2, slow=slow, alone=alone)
    assert (owner == again).all()
    assert (owner != other).any()


@pytest.mark.slow
def test_ca2fl_has_every_property_of_an_algorithm(example):
    from ca2fl import CA2FL

    from sojourn.testing import check_algorithm

    check_algorithm(CA2FL(size=3))


def searched(example, losses, **changes):
    """The step that a search finds where the loss of a trial is given by step and seed, and what it asked for."""
    from search import tuned
    from world import WORKS, Cell

    cell = Cell(replace(WORKS["digits"], **changes), "8:1", "random", "short")
    search, asked, rows = tuned(cell, "AsyncSGD"), [], None
    while True:
        try:
            wanted = search.send(rows) if rows is not None else next(search)
        except StopIteration as end:
            return end.value, asked
        asked += [(one.step, one.seed) for one in wanted]
        rows = {one.key: {"loss": losses(one.step, one.seed)} for one in wanted}


def test_where_all_clients_are_alike_policies_that_differ_by_speed_are_one(example):
    from policies import ROBUST, ROOT, UNIFORM, policies, trained_as
    from world import WORKS, Cell

    cell = Cell(WORKS["digits"], "homogeneous", "random", "short")
    assert ROOT not in policies(cell)
    assert trained_as(cell, ROOT) == UNIFORM
    assert trained_as(cell, "finisher, c = 1") == trained_as(cell, ROBUST) == ROBUST


@pytest.mark.parametrize("best", [0.0125, 0.1, 0.8])
def test_a_search_finds_the_best_step_of_a_valley_wherever_it_lies(example, best):
    step, asked = searched(example, lambda step, seed: math.log2(step / best) ** 2)
    assert step == best
    assert len(asked) == len(set(asked)) <= 10
    assert {(best, 10_000), (best, 10_001), (2 * best, 10_001), (best / 2, 10_001)} <= set(asked)


def test_a_search_follows_the_mean_of_both_seeds_and_avoids_steps_that_diverge(example):
    def losses(step, seed):
        return math.inf if step > 0.15 else math.log2(step / (0.1 if seed == 10_000 else 0.0125)) ** 2

    assert searched(example, losses)[0] in (0.025, 0.05)


def test_with_one_trial_seed_the_grid_grows_as_often_as_it_may(example):
    step, asked = searched(example, lambda step, seed: -step, trial_seeds=(10_000,), extensions=1)
    assert step == 0.4
    assert sorted(asked) == [(0.05, 10_000), (0.1, 10_000), (0.2, 10_000), (0.4, 10_000)]


def test_verdicts_by_hand(example):
    from policies import ROBUST, ROOT, UNIFORM
    from results import Outcome
    from verdict import verdict
    from world import WORKS, Cell

    cell = Cell(WORKS["digits"], "20:1", "random", "short")
    losses = {ROBUST: (0.2, 0.2), ROOT: (0.4, 0.4), UNIFORM: (0.8, 0.6), "finisher, c = 0": (0.1, 0.1)}
    trained = {
        name: Outcome(cell.name, name, "final", 0.1, 100, values, (0.9, 0.9), (0.5, 0.5), (), ())
        for name, values in losses.items()
    }
    said = {
        ROBUST: {"generic": 1.0},
        ROOT: {"generic": 2.0},
        UNIFORM: {"generic": 3.0},
        "finisher, c = 0": {"generic": 4.0},
    }
    found = verdict(cell, trained, said)
    assert found.best.policy == "finisher, c = 0"
    assert found.halves == pytest.approx(1.0)
    assert found.picks["generic"] == ROBUST
    assert found.regret("generic") == pytest.approx(2.0)
    assert found.ranks["generic"] == pytest.approx(-0.2)
    assert found.over_best(ROOT) == pytest.approx(4.0)


def test_where_all_clients_are_alike_a_policy_has_the_loss_of_the_one_that_stands_for_it(example):
    from policies import ROBUST, ROOT, UNIFORM
    from results import Outcome
    from verdict import verdict
    from world import WORKS, Cell

    cell = Cell(WORKS["digits"], "homogeneous", "random", "short")
    losses = {ROBUST: (0.2, 0.2), UNIFORM: (0.8, 0.6), "FedBuff 10": (0.4, 0.4)}
    trained = {
        name: Outcome(cell.name, name, "final", 0.1, 100, values, (0.9, 0.9), (0.5, 0.5), (), ())
        for name, values in losses.items()
    }
    found = verdict(cell, trained, {})
    assert ROOT in found
    assert found.over_best(ROOT) == found.over_best(UNIFORM) == pytest.approx(3.5)
    assert "CA2FL 10" not in found


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_a_small_one_runs_is_not_run_twice_and_makes_a_page(tmp_path):
    words = [sys.executable, EXAMPLE]
    where = ["--out", tmp_path / "runs", "--results", tmp_path / "results"]
    only = ["digits", "homogeneous-random-short", *where]
    policies = ["--policies", "AsyncSGD C = 30", "AsyncSGD", "the bound's plan"]
    subprocess.run([*words, "train", *only, *policies], check=True, timeout=300)
    runs = tmp_path / "runs" / "digits-homogeneous-random-short.csv"
    first = runs.read_bytes()
    kinds = [row["kind"] for row in read(runs)]
    assert kinds.count("final") == 15
    assert 3 * 6 <= kinds.count("trial") <= 3 * 14
    runs.write_bytes(first[:-20])  # as if it had been killed while it wrote
    subprocess.run([*words, "train", *only, *policies], check=True, timeout=300)
    assert sorted(row["loss"] for row in read(runs)[: len(kinds)] if row["loss"]) != []
    subprocess.run([*words, "collect", *only], check=True, timeout=300)
    rows = {row["policy"]: row for row in read(tmp_path / "results" / "cells.csv")}
    assert len(rows) == 3
    assert all(len(row["loss"].split()) == 5 and len(row["curve"].split()) == 25 for row in rows.values())
    page = tmp_path / "page.md"
    page.write_text(
        "before\n<!-- made: decay --><!-- end of decay -->\nafter\n<!-- made: cells --><!-- end of cells -->\n"
    )
    held = subprocess.run([*words, "train", "digits", "20to1", *where], capture_output=True, text=True, timeout=300)
    assert held.returncode != 0
    assert "no predictions yet for 4 held-out cells" in held.stderr
