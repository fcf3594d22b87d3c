"""Intervals, axes, differences and targets, by hand and on synthetic numbers."""

from math import isnan, nan, sqrt

import numpy as np
import pytest
from pretended import pretend, row
from some_cells import fleet_file

from sojourn.experiments.cells import ended, find
from sojourn.experiments.compare import mixed, unpaired
from sojourn.experiments.comparison import ComparisonSpec, Entry
from sojourn.experiments.statistics import Target, at_points, common_end, cost_of, curves, interval, standing


@pytest.mark.parametrize("many", [2, 5, 20])
def test_the_interval_covers_the_true_mean_in_95_of_100_cases(many):
    draws = np.random.default_rng(3).normal(2.0, 5.0, size=(4000, many))
    hits = np.mean([found.low <= 2.0 <= found.high for found in map(interval, draws)])
    assert abs(hits - 0.95) < 4 * sqrt(0.95 * 0.05 / 4000)


def test_one_value_has_no_interval_and_a_missing_one_no_mean():
    assert interval([3.0])[0] == 3.0
    assert isnan(interval([3.0]).low)
    assert isnan(interval([3.0, nan, 4.0]).mean)
    assert isnan(interval([]).mean)


@pytest.fixture
def made(tmp_path):
    """A comparison of two algorithms over two seeds, with the rows of each as given."""

    def make(rows, diverged=(), facts=None, **keys):
        run = {"fleet": fleet_file(tmp_path), "steps": 10}
        algorithms = (Entry("one", {"algorithm": "asyncsgd"}), Entry("two", {"algorithm": "fedavg"}))
        comparison = ComparisonSpec(run, algorithms, (0, 1), **keys)
        cells = {
            (algorithm.name, seed): comparison.final(algorithm, None, seed)
            for algorithm in algorithms
            for seed in comparison.seeds
        }
        for key, cell in cells.items():
            pretend(cell, tmp_path, rows[key], key in diverged, **(facts or {}).get(key, {}))
        found = find(cells.values(), tmp_path)
        return comparison, {name: {seed: found[cells[name, seed].hash] for seed in (0, 1)} for name in ("one", "two")}

    return make


def ends(*accuracies: float) -> list:
    return [row(10 * number, accuracy=value) for number, value in enumerate((0.1, *accuracies))]


ROWS = {("one", 0): ends(0.5), ("one", 1): ends(0.6), ("two", 0): ends(0.7), ("two", 1): ends(0.9)}


def test_between_two_evaluations_a_value_lies_in_proportion_and_beyond_the_end_there_is_nothing(made):
    _, runs = made(ROWS)
    found = at_points(runs["one"][0], "received", "accuracy", np.array([0.0, 2.5, 10.0, 10.1]))
    assert found[:3].tolist() == pytest.approx([0.1, 0.2, 0.5])
    assert isnan(found[3])


def test_of_two_folders_of_one_cell_the_ended_one_counts(made, tmp_path):
    _, runs = made(ROWS)
    folder = runs["one"][0].folder
    for name in ("aaa", "zzz"):  # as another machine may have called it, before and after this one
        begun = folder.with_name(f"{name}-{folder.name.rpartition('-')[2]}")
        begun.mkdir()
        (begun / "config.json").write_text("{}")
    cell = runs["one"][0].cell
    assert find([cell], tmp_path)[cell.hash].folder == folder


def test_differences_are_those_of_pairs(made):
    comparison, runs = made(ROWS)
    rows = {(one["algorithm"], one["axis"]): one for one in standing(runs, comparison.baseline, comparison.target)}
    assert len(rows) == 8
    two = rows["two", "time"]
    assert two["mean"] == pytest.approx(0.8)
    # differences 0.2 and 0.3: mean 0.25, standard error 0.05, and 12.706 of these with one degree of freedom
    assert two["difference"] == pytest.approx(0.25)
    assert two["difference_high"] - two["difference"] == pytest.approx(12.7062 * 0.05, rel=1e-4)
    assert "difference" not in rows["one", "time"]


def test_intervals_of_accuracies_and_curves_stay_between_0_and_1(made):
    comparison, runs = made(ROWS)  # two seeds: Student's interval of 0.7 and 0.9 would reach from -0.47 to 2.07
    rows = [*standing(runs, comparison.baseline), *curves(runs)]
    ends = [row[f"{key}_{end}"] for row in rows for key in ("accuracy", "client_worst") for end in ("low", "high")]
    assert all(0 <= end <= 1 for end in ends)
    assert {0, 1} <= set(ends)
    two = next(row for row in rows if row["algorithm"] == "two")
    assert (two["mean_low"], two["mean_high"]) == (0, 1)
    assert -1 <= two["difference_low"] < two["difference_high"] <= 1


@pytest.mark.parametrize(("loss", "lowest"), [("cross-entropy", 0.0), ("mine:loss", 1.25 - 12.7062 * 0.75)])
def test_a_loss_has_a_bound_where_the_package_knows_it(made, loss, lowest):
    losses = {("one", 0): 0.5, ("one", 1): 2.0, ("two", 0): 1.0, ("two", 1): 1.0}
    config = {"device": "cpu", "execution": "waves", "step_size": 0.1, "loss": loss}
    _, runs = made(
        {key: [row(0), row(10, loss=value)] for key, value in losses.items()},
        facts={key: {"config": config} for key in losses},
    )
    found = next(one for one in standing(runs, "one") if one["algorithm"] == "one")
    # mean 1.25, standard error 0.75, and 12.706 of these with one degree of freedom
    assert found["test_loss_high"] == pytest.approx(1.25 + 12.7062 * 0.75, rel=1e-4)
    assert found["test_loss_low"] == pytest.approx(lowest, rel=1e-4)


def test_every_axis_is_looked_at_where_all_runs_have_been(made):
    short = {**ROWS, ("two", 0): [row(0), row(4, accuracy=0.3, time=10.0)]}
    comparison, runs = made(short)
    rows = {(one["algorithm"], one["axis"]): one for one in standing(runs, comparison.baseline, comparison.target)}
    assert rows["one", "received"]["at"] == 4
    assert rows["one", "received"]["mean"] == pytest.approx(0.28)
    assert rows["one", "time"]["at"] == 10


def test_a_run_that_diverged_leaves_no_mean_and_does_not_shorten_the_others(made):
    rows = {**ROWS, ("two", 1): [row(0), row(3)]}
    comparison, runs = made(rows, diverged=[("two", 1)])
    table = {(one["algorithm"], one["axis"]): one for one in standing(runs, comparison.baseline, comparison.target)}
    assert table["one", "received"]["at"] == 10
    assert isnan(table["two", "received"]["mean"])
    assert isnan(table["two", "received"]["difference"])
    assert table["two", "received"]["diverged"] == 1
    assert not isnan(table["one", "received"]["mean"])


def test_a_target_that_some_runs_miss_has_no_mean_but_says_how_many_missed_it(made):
    rows = {**ROWS, ("two", 0): ends(0.2, 0.3)}
    _, runs = made(rows)
    cost = cost_of(runs["two"], runs["one"], "received", Target("accuracy", 0.55))
    assert (cost["reached"], cost["not_reached"]) == (1, 1)
    assert isnan(cost["to_target"])
    assert isnan(cost["to_target_difference"])
    assert cost_of(runs["two"], {}, "received", Target("accuracy", 0.15))["to_target"] == 10


def test_curves_end_where_the_first_of_a_methods_runs_ends(made):
    _, runs = made({**ROWS, ("two", 0): ends(0.2, 0.3)})
    last = {(one["algorithm"], one["axis"]): one for one in curves(runs)}
    assert last["two", "received"]["at"] == 10
    assert common_end(runs["two"].values(), "received") == 10
    assert last["two", "received"]["accuracy"] == pytest.approx((0.2 + 0.9) / 2)


def test_a_run_that_diverged_has_no_value_and_no_target_even_before_it_did(made):
    rows = {**ROWS, ("two", 1): [row(0, accuracy=0.1), row(10, accuracy=0.99), row(20, accuracy=0.99)]}
    comparison, runs = made(rows, diverged=[("two", 1)], target=Target.parse("accuracy=0.5"))
    table = {(one["algorithm"], one["axis"]): one for one in standing(runs, comparison.baseline, comparison.target)}
    found = table["two", "received"]
    assert isnan(found["mean"])
    assert isnan(found["difference"])
    assert (found["reached"], found["not_reached"]) == (1, 1)


def test_data_that_changed_between_seeds_is_found_out(made):
    _, runs = made(ROWS, facts={(name, 1): {"dataset_hash": "another"} for name in ("one", "two")})
    assert unpaired(runs) == [
        "the runs do not all have the same data: it was changed in the meantime; remove the old cells"
    ]


def test_a_half_copied_cell_has_not_ended(made, tmp_path):
    _, runs = made(ROWS)
    folder = runs["one"][0].folder
    assert ended(folder) == "complete"
    lines = (folder / "metrics.csv").read_text().splitlines()
    for kept in (2, 1):
        (folder / "metrics.csv").write_text("\n".join(lines[:kept]) + "\n")
        assert ended(folder) is None


def test_runs_that_are_no_pairs_are_found_out(made):
    _, runs = made({**ROWS, ("two", 1): [row(0, loss=1.5), row(10)]}, facts={("two", 0): {"partition_hash": "another"}})
    assert unpaired(runs) == [
        "seed 0: the algorithms do not have the same partition; these runs are not pairs",
        "seed 1: the algorithms do not begin with the same model; these runs are not pairs",
    ]
    assert mixed(runs) == []
