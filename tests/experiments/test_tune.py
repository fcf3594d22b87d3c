"""How step sizes are chosen: one grid for all, which grows where a best lies at its edge."""

from math import log, nan

import pytest
from pretended import trainer
from some_cells import fleet_file

from sojourn import Fleet, Plan
from sojourn.experiments.comparison import ComparisonSpec, Entry, Tuning
from sojourn.experiments.tune import tune


@pytest.fixture
def compared(tmp_path):
    def make(**tuning) -> ComparisonSpec:
        run = {"fleet": fleet_file(tmp_path), "steps": 10}
        algorithms = (Entry("one", {"algorithm": "asyncsgd"}), Entry("two", {"algorithm": "fedavg"}))
        return ComparisonSpec(run, algorithms, (0, 1), Tuning(**{"step_sizes": (0.1, 0.3), **tuning}))

    return make


def around(**best):
    """Losses that are least at one step size of each algorithm."""
    return lambda config: abs(log(config.step_size / best[config.algorithm]))


def test_a_best_rate_inside_the_grid_is_taken_as_it_is(compared, tmp_path):
    asked = []
    comparison = compared(step_sizes=(0.1, 0.3, 1.0), seeds=(7, 8))
    tuned = tune(comparison, tmp_path, trainer(tmp_path, around(asyncsgd=0.3, fedavg=0.3), asked))
    assert tuned.chosen == {"one": 0.3, "two": 0.3}
    assert tuned.edge == {}
    assert tuned.grid == (0.1, 0.3, 1.0)
    assert len(asked) == 2 * 3 * 2


def test_the_grid_grows_for_all_until_no_best_lies_at_its_edge(compared, tmp_path):
    asked = []
    tuned = tune(compared(), tmp_path, trainer(tmp_path, around(asyncsgd=2.7, fedavg=0.1), asked))
    assert tuned.grid == (0.0333333, 0.1, 0.3, 0.9, 2.7, 8.1)
    assert tuned.chosen == {"one": 2.7, "two": 0.1}
    assert tuned.edge == {}
    by_method = [sum(row["algorithm"] == name for row in tuned.trials) for name in ("one", "two")]
    assert by_method == [6 * 3, 6 * 3]
    assert sum(row["added"] for row in tuned.trials) == 2 * 4 * 3


def test_what_is_still_at_an_edge_when_the_grid_may_grow_no_more_is_reported(compared, tmp_path):
    tuned = tune(compared(extensions=1), tmp_path, trainer(tmp_path, around(asyncsgd=100, fedavg=0.3), []))
    assert tuned.grid == (0.1, 0.3, 0.9)
    assert tuned.chosen == {"one": 0.9, "two": 0.3}
    assert tuned.edge == {"one": "upper"}
    assert {row["edge"] for row in tuned.trials if row["algorithm"] == "one"} == {"upper"}


def test_a_trial_that_diverges_counts_as_the_worst_and_one_seed_is_enough(compared, tmp_path):
    def loss(config):
        return nan if config.step_size > 0.2 and config.seed == 10_001 else 1 / config.step_size

    tuned = tune(compared(step_sizes=(0.05, 0.1, 0.3)), tmp_path, trainer(tmp_path, loss, []))
    assert tuned.chosen == {"one": 0.1, "two": 0.1}
    assert tuned.failures == {}
    states = {row["state"] for row in tuned.trials if row["step_size"] == 0.3 and row["seed"] == 10_001}
    assert states == {"diverged"}


def test_a_method_that_diverges_at_every_rate_is_left_out_after_smaller_ones_were_tried(compared, tmp_path):
    def loss(config):
        return nan if config.algorithm == "fedavg" else abs(log(config.step_size / 0.1))

    tuned = tune(compared(step_sizes=(0.03, 0.1, 0.3)), tmp_path, trainer(tmp_path, loss, []))
    assert tuned.chosen == {"one": 0.1}
    assert len(tuned.grid) == 6
    assert tuned.grid[0] == pytest.approx(0.03 / (0.1 / 0.03) ** 3, rel=1e-4)
    assert "it diverged at every step size from" in tuned.left_out["two"]


def test_a_method_with_a_rate_of_its_own_is_not_tuned(tmp_path):
    run = {"fleet": fleet_file(tmp_path), "steps": 10}
    algorithms = (Entry("one", {"step_size": 0.5}), Entry("two", {"algorithm": "fedavg"}))
    comparison = ComparisonSpec(run, algorithms, (0,), Tuning((0.1, 0.3, 1.0)))
    tuned = tune(comparison, tmp_path, trainer(tmp_path, lambda config: abs(log(config.step_size / 0.3)), []))
    assert tuned.chosen == {"two": 0.3}
    assert comparison.final(algorithms[0], None, 0).config.step_size == 0.5


def test_trials_never_see_the_test_set_and_final_runs_learn_from_all_unless_they_are_told_not_to(compared):
    comparison = compared(holdout=0.2)
    trial, final = (make(comparison.algorithms[0], 0.1, 3).config for make in (comparison.trial, comparison.final))
    assert (trial.holdout, trial.judged_on) == (0.2, "holdout")
    assert (final.holdout, final.judged_on) == (0.0, "test")
    final = compared(holdout=0.2, refit=False).final(comparison.algorithms[0], 0.1, 3).config
    assert (final.holdout, final.judged_on) == (0.2, "test")


def test_accuracy_can_be_what_a_trial_is_judged_by(compared, tmp_path):
    def train(cells):
        from pretended import pretend, row

        from sojourn.experiments.run_cells import Swept

        for cell in cells:
            step_size = cell.config.step_size
            pretend(cell, tmp_path, [row(0), row(10, loss=step_size, accuracy=1 - abs(step_size - 0.3))])
        return Swept(len(cells), len(cells))

    tuned = tune(compared(step_sizes=(0.1, 0.3, 1.0), by="accuracy"), tmp_path, train)
    assert tuned.chosen == {"one": 0.3, "two": 0.3}


def test_a_methods_plan_brings_its_own_concurrency(tmp_path):
    fleet = fleet_file(tmp_path)
    Plan.uniform(Fleet.load(fleet), 7).save(tmp_path / "plan.json")
    algorithms = (Entry("own", {"plan": str(tmp_path / "plan.json")}), Entry("common"))
    comparison = ComparisonSpec({"fleet": fleet, "concurrency": 5, "sampling": "speed"}, algorithms, (0,))
    own, common = (comparison.final(algorithm, None, 0).config for algorithm in algorithms)
    assert (own.concurrency, own.sampling) == (None, None)
    assert (common.concurrency, common.sampling) == (5, "speed")


def test_a_grid_of_one_rate_has_two_edges(compared, tmp_path):
    tuned = tune(compared(step_sizes=(0.1,)), tmp_path, trainer(tmp_path, around(asyncsgd=0.1, fedavg=0.1), []))
    assert tuned.grid == (0.0316228, 0.1, 0.316228)
    assert tuned.edge == {}


def test_an_interrupt_while_the_last_trial_ends_is_not_forgotten(compared, tmp_path):
    asked = []
    ends = trainer(tmp_path, around(asyncsgd=100, fedavg=100), asked)  # the grid would grow

    def interrupted(cells):
        swept = ends(cells)
        swept.interrupted = True
        return swept

    assert tune(compared(), tmp_path, interrupted).interrupted
    assert {cell.config.step_size for cell in asked} == {0.1, 0.3}
