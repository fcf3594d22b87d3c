"""TinyImageNet: five methods, rates by held-out examples, fresh seeds, and what is made of it; on digits."""

import csv
from itertools import pairwise
from statistics import fmean, stdev

import pytest

from queuing_dynamics.ledger import Ledger
from queuing_dynamics.tinyimagenet.experiment import EXPERIMENT, made
from queuing_dynamics.tinyimagenet.methods import LOCAL, METHODS, RATES, algorithm, keys, local_steps
from queuing_dynamics.tinyimagenet.size import FAST, FULL, Size
from queuing_dynamics.tinyimagenet.stages import TRAINING, Tuned, cells_of, finals, ledger_of, trials, tuned
from queuing_dynamics.tuned import accuracy_in_time
from sojourn.errors import SojournError
from sojourn.fleet import Fleet
from sojourn.learning.run.build import check
from sojourn.learning.run.config import TrainConfig
from sojourn.report.reproduction.reproduce import reproduce

TINY = Size(
    clients=4, time=100.0, batch_size=8, data="digits", model="logistic", augment="none", precision="fp32", tasks=2,
    buffer=2, round=1, contacts=2, local_steps=(1, 2), trial_seeds=1, final_seeds=2, caution="very small",
)  # fmt: skip


def test_the_full_size_is_what_is_stated_and_what_was_decided_where_nothing_is():
    assert (FULL.clients, FULL.time, FULL.batch_size, FULL.tasks) == (100, 1000, 32, 50)
    assert (FULL.buffer, FULL.round, FULL.contacts, FULL.local_steps) == (10, 10, 20, (1, 5, 20))
    assert (FULL.data, FULL.augment) == ("tiny-imagenet(per_class=100)", "flip")
    assert FULL.model == "resnet18(norm=batch, stem=pooled)"
    assert (FULL.precision, FULL.trial_seeds, FULL.final_seeds) == ("bf16", 1, 3)
    assert FULL.fleet().count.tolist() == [50, 50]
    assert FULL.fleet().rate.tolist() == [1 / 2, 1 / 16]


def test_methods_have_their_tasks_and_the_times_of_the_server():
    assert algorithm(FULL, "fedavg") == {"algorithm": "fedavg(interaction=3)", "concurrency": 10}
    assert algorithm(FULL, "fedbuff") == {"algorithm": "fedbuff(size=10, dispatch=routed)", "concurrency": 50}
    assert algorithm(FULL, "favano") == {"algorithm": "favano(contacts=20, waiting=4, interaction=3)"}
    assert algorithm(FULL, "asyncsgd") == {"algorithm": "asyncsgd", "concurrency": 50}
    assert algorithm(FULL, "generalized") == {
        "algorithm": "generalized-asyncsgd",
        "concurrency": 50,
        "sampling": "fast=0.0073,slow=0.0127",
    }


@pytest.mark.parametrize("size", [FULL, FAST], ids=["full", "fast"])
def test_every_method_can_be_run(size, tmp_path):
    for method in METHODS:
        for steps in local_steps(size, method):
            config = TrainConfig(**keys(size, tmp_path, method, steps), step_size=0.1)
            assert (config.time, config.partition, config.local_steps) == (size.time, "iid", steps)
            assert Fleet.load(config.fleet).clients == size.clients
            check(config)


def test_every_method_is_tried_at_rates_about_three_times_apart_and_more_where_local_steps_are_tried_too():
    assert {method: len(RATES[method]) for method in METHODS} == {
        method: 5 if len(local_steps(FULL, method)) > 1 else 4 for method in METHODS
    }
    for grid in RATES.values():
        assert all(2.9 < large / small < 3.4 for small, large in pairwise(grid))


def test_trials_are_judged_on_held_out_examples_and_finals_on_the_test_set(tmp_path):
    tried = trials(FULL, tmp_path)
    ended = finals(FULL, tmp_path, {method: Tuned(method, 1, 0.1) for method in METHODS})
    assert (len(tried), len(ended)) == (42, 15)
    assert {(cell.config.judged_on, cell.config.holdout) for _, cell in tried} == {("holdout", 0.1)}
    assert {(cell.config.judged_on, cell.config.holdout) for _, cell in ended} == {("test", 0.0)}
    assert not {marks["seed"] for marks, _ in tried} & {marks["seed"] for marks, _ in ended}
    assert Ledger(tmp_path).missing([*tried, *ended]) == [*tried, *ended]  # no two are the same


def test_a_model_counts_for_as_long_as_the_server_has_it():
    # a round ends at 60 with three updates, which is all until 100
    rows = [(0, 0.1), (60, 0.1), (60, 0.1), (60, 0.4)]
    assert accuracy_in_time([{"time": at, "accuracy": value} for at, value in rows], 100) == pytest.approx(0.4)
    assert accuracy_in_time(
        [{"received": 0, "time": 0.0, "accuracy": 0.1}, {"time": 95.0, "accuracy": 0.4}], 100
    ) == pytest.approx((10 * 0.1 + 5 * 0.4) / 15)


def test_the_best_local_steps_and_rate_are_those_of_the_held_out_examples(tmp_path):
    ledger = Ledger(tmp_path / "trials")
    for marks, cell in trials(FULL, tmp_path):
        rate, grid = marks["rate"], RATES[marks["method"]]
        gone = rate == grid[-1]
        worth = rate / grid[-1] + (0.1 if marks["local_steps"] == 5 else 0.0)
        ledger.runs[cell.hash] = {"cell": cell.hash, "state": "diverged" if gone else "complete"}
        ledger.curves[cell.hash] = [{"received": 0, "time": 0.0, "accuracy": 0.9 if gone else worth}]
    ledger.save()
    best = tuned(FULL, tmp_path, tmp_path)
    assert {method: one.rate for method, one in best.items()} == {method: RATES[method][-2] for method in METHODS}
    assert {method: one.local_steps for method, one in best.items()} == {
        method: 5 if method in LOCAL else 1 for method in METHODS
    }
    assert {one.edge for one in best.values()} == {""}


def test_nothing_is_made_of_results_that_are_not_there(tmp_path):
    with pytest.raises(SojournError, match="42 of 42 trials have not been trained; go on with the stage trials"):
        cells_of("table", FULL, tmp_path, tmp_path)
    with pytest.raises(
        SojournError, match=r"42 of the 42 runs of stage trials .* python -m queuing_dynamics train tiny"
    ):
        made(FULL, tmp_path, tmp_path, tmp_path)


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def is_consistent(size, folder, results, claims):
    """Claims say what the ledger holds, and the files are there."""
    ledger = ledger_of("table", results)
    assert len(ledger.runs) == len(METHODS) * size.final_seeds
    assert [one.verdict for one in claims] == ["not stated"] * len(METHODS)
    assert {one.paper for one in claims} == {"figure only"}
    assert [size.caution in one.note for one in claims] == [True, False, False, False, False]
    tried = rows_of(folder / "rates.csv")
    assert len(tried) == size.trial_seeds * sum(len(RATES[one]) * len(local_steps(size, one)) for one in METHODS)
    for method, one in zip(METHODS, claims, strict=True):
        mine = [cell for cell, row in ledger.runs.items() if row["method"] == method]
        values = [100 * accuracy_in_time(ledger.curves[cell], size.time) for cell in mine]
        assert one.ours == f"{fmean(values):.1f}%"
        assert one.error == f"{stdev(values) / len(values) ** 0.5:.1f}"
        chosen = max((row for row in tried if row["method"] == method), key=lambda row: float(row["accuracy"]))
        assert chosen["chosen"] == "True"
        for key in ("rate", "local_steps"):
            assert {float(ledger.runs[cell][key]) for cell in mine} == {float(chosen[key])}
        assert f"rate {float(chosen['rate']):g}" in one.note
        assert ("less AsyncSGD" in one.note) == (method != "asyncsgd")
        for key, word in (("gradients", "gradients computed"), ("received", "updates received")):
            assert f"{fmean(float(ledger.runs[cell][key]) for cell in mine):.0f} {word}" in one.note
    assert {row["algorithm"] for row in rows_of(folder / "table.csv")} == set(METHODS)
    for ending in ("svg", "png"):
        assert (folder / f"tinyimagenet.{ending}").stat().st_size > 10_000


@pytest.mark.slow
def test_claims_tables_and_picture_say_what_the_ledgers_hold(tmp_path):
    pytest.importorskip("matplotlib")
    work, results = tmp_path / "work", tmp_path / "results"
    TRAINING.train(TINY, work, results, lambda *what: None)
    is_consistent(TINY, tmp_path, results, made(TINY, work, results, tmp_path))
    ledger = ledger_of("table", results)
    next(iter(ledger.runs.values()))["state"] = "diverged"
    ledger.save()
    first = made(TINY, work, results, tmp_path)[0]  # nothing is averaged over those that did not
    assert (first.ours, first.error) == ("diverged", "nan")
    assert first.note.endswith("over 2 seeds, 1 of which diverged; less AsyncSGD +nan (95%: +nan to +nan)")


@pytest.mark.slow
def test_the_fast_experiment_trains_all_that_it_shows(tmp_path):
    pytest.importorskip("matplotlib")
    told = []
    outcome = reproduce(EXPERIMENT, tmp_path, True, lambda *what: told.append(what))
    assert told[-1] == ("table", 10, 10)
    is_consistent(FAST, outcome.folder, outcome.folder / "results", outcome.claims)
