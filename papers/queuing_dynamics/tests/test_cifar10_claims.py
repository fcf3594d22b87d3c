"""What is said of the table of CIFAR-10: by hand, from runs that are made up."""

import csv
import shutil
from collections import Counter
from itertools import combinations, product
from math import isnan, sqrt

import pytest

from queuing_dynamics.cifar10 import experiment
from queuing_dynamics.cifar10.claims import levels_of, of_the_tasks, of_users, orders, sizes
from queuing_dynamics.cifar10.compared import LAST_MODEL, LAST_PART, MEASURES, differences, levels, read, worst_clients
from queuing_dynamics.cifar10.experiment import KEPT, Made
from queuing_dynamics.cifar10.readings import PAPER, PLANNED, Reading, readings
from queuing_dynamics.cifar10.settled import Standing
from queuing_dynamics.cifar10.size import FULL
from queuing_dynamics.cifar10.stages import TRAINING, cells_of, ledger_of
from queuing_dynamics.tuned import Best
from sojourn.errors import SojournError
from sojourn.experiments.cells import Cell, EndedCell
from sojourn.learning.run.config import TrainConfig
from sojourn.report.reproduction.reproduce import reproduce

RATES = {one.name: 0.1 for one in PAPER}
SETTLED = Standing(Reading("as many", 1, 0.1), "end", {one.name: Best(0.1, one.paper, "") for one in PAPER})


def run_of(*accuracies, slow=1.0, buffer=1, diverged=False, folder=None):
    """A run of 100 updates with an accuracy at every 10th, in percent."""
    one = EndedCell(Cell("made up", TrainConfig(fleet="fleet.csv", steps=100)), folder, diverged)
    one.__dict__["rows"] = [
        {"received": at, "gradients": at, "version": at / buffer, "time": slow * at}
        | {"accuracy": value / 100, "client_worst": value / 200, "staleness": 9.0}
        for at, value in zip(range(0, 110, 10), accuracies, strict=True)
    ]
    return one


def flat(value, **how):
    """A run with this accuracy all the way."""
    return run_of(*[value] * 11, **how)


def table(fedbuff, asyncsgd, generalized):
    """Runs of ten seeds around these levels, the same noise for all."""
    noise = [-2, -1, -1, 0, 0, 0, 0, 1, 1, 2]
    levels = {"fedbuff": fedbuff, "asyncsgd": asyncsgd, "generalized": generalized}
    return {
        method: {
            seed: flat(level + shift + 0.1 * (seed % 2), buffer=10 if method == "fedbuff" else 1)
            for seed, shift in enumerate(noise)
        }
        for method, level in levels.items()
    }


def test_a_run_is_read_by_its_last_model_and_over_the_last_part_of_the_way():
    one = run_of(0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, slow=2.0)
    assert read(one, LAST_MODEL, "received", 100) == pytest.approx(100)
    assert read(one, LAST_PART, "received", 100) == pytest.approx(92.5)
    assert read(one, LAST_MODEL, "received", 55) == pytest.approx(55)
    assert read(one, LAST_PART, "time", 100) == pytest.approx(46.25)
    assert isnan(read(flat(50, diverged=True), LAST_MODEL, "received", 100))


def test_levels_have_mean_deviation_and_interval_over_the_seeds():
    rows = list(levels({"asyncsgd": {0: flat(60), 1: flat(62), 2: flat(64)}}, RATES))
    assert [row["measure"] for row in rows] == [LAST_PART, LAST_MODEL]
    for row in rows:
        assert row["accuracy"] == pytest.approx(62)
        assert row["deviation"] == pytest.approx(2)
        assert row["accuracy_high"] - 62 == pytest.approx(4.3027 * 2 / sqrt(3), rel=1e-4)


def test_worst_clients_are_compared_while_the_models_are_alike():
    better, worse = run_of(0, 10, 20, 32, 38, 50, 60, 70, 80, 90, 90), run_of(0, 5, 10, 15, 20, 25, 30, 34, 38, 40, 44)
    never = flat(20)  # its worst client, as everyone's here, is behind by half of the accuracy
    rows = {
        row["method"]: row for row in worst_clients({"a": {0: better}, "b": {0: worse}, "c": {0: better, 1: never}})
    }
    assert rows["a"]["behind"] == pytest.approx((16 + 19) / 2)
    assert rows["b"]["behind"] == pytest.approx((15 + 17 + 19) / 3)
    assert isnan(rows["c"]["behind"])


def test_differences_are_paired_by_seed_where_the_shorter_run_ends():
    rising = [10.0 * step for step in range(11)]
    runs = {
        "generalized": {0: run_of(*rising, slow=2.0), 1: run_of(*rising, slow=2.0)},
        "asyncsgd": {1: flat(48), 0: flat(52)},
    }
    rows = {(row["axis"], row["measure"]): row for row in differences(runs, [("generalized", "asyncsgd")])}
    assert rows["received", LAST_MODEL]["difference"] == pytest.approx(50)
    assert rows["time", LAST_MODEL]["at"] == 100  # where the faster one has received all, the slower one half
    assert rows["time", LAST_MODEL]["difference"] == pytest.approx(0)
    assert rows["received", LAST_MODEL]["difference_high"] == pytest.approx(50 + 12.7062 * 2, rel=1e-4)


@pytest.mark.parametrize(("generalized", "verdict"), [(70, "agrees"), (60, "too close to call"), (50, "disagrees")])
def test_an_order_is_confirmed_refuted_or_too_close_to_call(generalized, verdict):
    runs = table(50, 60, generalized)
    # pairs whose differences are not all the same
    runs["generalized"] = {seed: flat(generalized + (-3) ** (seed % 2)) for seed in range(10)}
    first = orders(runs, "received")[0]
    assert first.statement == "Generalized AsyncSGD above AsyncSGD, per update, nearest of 14 readings"
    assert first.verdict == verdict


def apart(part, last):
    """Runs by which the second method is above the first by so many points over the last part, and at the end."""
    before = (3 * part - last) / 2  # a third of the last part's mean is the last model's, by the line that leads to it
    noise = [0.9 * (-1) ** seed for seed in range(10)]
    return {
        "asyncsgd": {seed: flat(60) for seed in range(10)},
        "generalized": {
            seed: run_of(*[60 + before + shift] * 10, 60 + last + shift) for seed, shift in enumerate(noise)
        },
        "fedbuff": {seed: flat(50) for seed in range(10)},
    }


ABOVE, OPEN, BELOW = 4.0, 0.2, -4.0


@pytest.mark.parametrize(("part", "last"), list(product((ABOVE, OPEN, BELOW), repeat=2)))
def test_an_order_agrees_in_part_only_where_a_way_of_reading_confirms_it(part, last):
    first = orders(apart(part, last), "received")[0]
    told = [float(number) for number in first.ours.removesuffix(" points").split(" / ")]
    assert told == pytest.approx([part, last], abs=0.15)
    seen = {part, last}
    if seen == {ABOVE}:
        assert first.verdict == "agrees"
    elif ABOVE in seen:
        assert first.verdict == "partly"
    elif BELOW in seen:
        assert first.verdict == "disagrees"
    else:
        assert first.verdict == "too close to call"


def test_an_order_counts_only_where_both_ways_of_reading_see_it():
    runs = table(50, 60, 60)
    ends_low = [70] * 10 + [50]
    runs["generalized"] = {seed: run_of(*(value + 0.1 * seed for value in ends_low)) for seed in range(10)}
    first = orders(runs, "received")[0]
    assert first.ours.startswith("+3.6")  # over the last part it is above, its last models are below
    assert " / -9.6" in first.ours
    assert first.verdict == "partly"


def test_a_run_that_diverged_decides_nothing():
    runs = table(50, 60, 70)
    runs["generalized"][3] = flat(70, diverged=True)
    by_statement = {one.statement: one.verdict for one in [*orders(runs, "received"), *sizes(runs)]}
    assert {verdict for key, verdict in by_statement.items() if "Generalized" in key} == {"not stated"}
    assert by_statement["AsyncSGD above FedBuff, per update, nearest of 14 readings"] == "agrees"
    levels = levels_of(FULL, runs, RATES, SETTLED)
    assert [one.verdict for one in levels][2:] == ["not stated", "not stated"]


def test_server_steps_are_compared_with_fedbuff_alone_whose_steps_are_others():
    found = orders(table(50, 60, 70), "version")
    assert [one.statement for one in found] == [
        "AsyncSGD above FedBuff, per server step, nearest of 14 readings",
        "Generalized AsyncSGD above FedBuff, per server step, nearest of 14 readings",
    ]
    assert all(one.note.startswith("at 10 steps") for one in found)


def test_sizes_and_levels_agree_where_they_are_the_papers():
    printed = table(*(one.paper for one in PAPER))
    for one in PAPER:  # differences that vary between the seeds
        printed[one.name] = {s: flat(one.paper + (s % 5 - 2) * len(one.name) / 5) for s in range(10)}
    assert [one.verdict for one in sizes(printed)] == ["agrees"] * 3
    assert [one.verdict for one in levels_of(FULL, printed, RATES, SETTLED)][:3] == ["agrees"] * 3
    poor = table(*(one.paper - 8 for one in PAPER))
    assert [one.verdict for one in levels_of(FULL, poor, RATES, SETTLED)] == ["disagrees"] * 4


@pytest.mark.parametrize(
    ("generalized", "verdict"),
    [(70, "agrees"), (66.6, "too close to call"), (65.4, "too close to call"), (62, "disagrees")],
)
def test_the_target_is_reached_where_the_interval_is_above_it(generalized, verdict):
    target = levels_of(FULL, table(50, 60, generalized), RATES, SETTLED)[-1]
    assert target.statement == "Generalized AsyncSGD reaches 66%, nearest of 14 readings"
    assert target.verdict == verdict


def test_what_is_judged_under_a_reading_that_was_chosen_says_so_in_its_row():
    runs, chosen = table(50, 60, 70), f"nearest of {len(list(readings()))} readings"
    made = [*orders(runs, "received"), *orders(runs, "time"), *orders(runs, "version"), *sizes(runs)]
    made += levels_of(FULL, runs, RATES, SETTLED)
    assert {one.verdict for one in made} >= {"agrees", "disagrees"}
    assert all(one.statement.endswith(f", {chosen}") for one in made)


def test_users_see_the_best_first_and_what_lies_between_it_and_asyncsgd():
    runs = {**table(50, 60, 70), PLANNED: {seed: flat(65.0 + seed % 2) for seed in range(10)}}
    found = of_users(FULL, runs, dict.fromkeys(runs, "10 tasks"), dict.fromkeys(runs, 0.1))
    titles = ("Generalized AsyncSGD", "Generalized AsyncSGD, the planner's plan", "AsyncSGD", "FedBuff")
    assert [one.statement for one in found] == [f"{title}, tuned for virtual time 1400" for title in titles]
    assert [one.ours for one in found] == ["70.0% / 70.0%", "65.5% / 65.5%", "60.0% / 60.0%", "50.0% / 50.0%"]
    assert found[0].note.endswith("; less AsyncSGD +10.0 (+10.0 to +10.0) / +10.0 (+10.0 to +10.0)")
    assert found[1].note.startswith("10 tasks, 100 updates, staleness 9.0, worst client 32.8%; 95%: ")
    assert "less AsyncSGD" not in found[2].note


def test_users_see_a_method_of_which_a_run_diverged_last():
    runs = table(50, 60, 70)
    runs["generalized"][3] = flat(70, diverged=True)
    found = of_users(FULL, runs, dict.fromkeys(runs, "10 tasks"), dict.fromkeys(runs, 0.1))
    assert [one.statement.split(",")[0] for one in found] == ["AsyncSGD", "FedBuff", "Generalized AsyncSGD"]
    assert found[-1].ours == "nan% / nan%"


def test_users_see_what_every_number_of_tasks_came_to_and_which_is_best():
    tried = {"fedbuff": {100: Best(0.1, 44.7, ""), 10: Best(0.3, 33.8, "upper")}, PLANNED: {9: Best(0.03, 41.6, "")}}
    routed, planned = of_the_tasks(tried)
    assert (routed.statement, routed.ours) == ("FedBuff, held out, with 10 / 100 tasks", "33.8% / 44.7%")
    assert routed.note == "rates 0.3, the largest tried / 0.1; best with 100"
    assert planned.note == "rate 0.03"


@pytest.mark.slow
def test_a_table_that_lacks_runs_is_refused(tmp_path):
    shutil.copytree(KEPT, tmp_path / "results")
    table = ledger_of("table", tmp_path / "results")
    first = next(cell.hash for _, cell in cells_of("table", FULL, tmp_path, tmp_path / "results"))
    del table.runs[first], table.curves[first]
    table.save()
    with pytest.raises(SojournError, match="1 of the 30 runs of stage table are not among the kept results of cifar10"):
        Made(FULL, tmp_path, tmp_path / "results", tmp_path)


@pytest.mark.slow
def test_the_fast_experiment_trains_all_stages_and_judges_nothing(tmp_path):
    pytest.importorskip("matplotlib")
    told = []
    outcome = reproduce(experiment.EXPERIMENT, tmp_path, True, lambda *what: told.append(what))
    assert list(dict.fromkeys(what for what, _, _ in told)) == list(TRAINING.stages)
    assert {one.verdict for one in outcome.claims} == {"not stated"}
    for name in ("table", "in-time", "favourable"):
        for ending in (".csv", "-levels.csv", "-differences.csv", "-worst-clients.csv", ".png", ".svg"):
            assert (outcome.folder / f"{name}{ending}").stat().st_size > 100
    with (outcome.folder / "favourable-differences.csv").open() as file:
        pairs = [frozenset((row["method"], row["less"])) for row in csv.DictReader(file) if row["axis"] == "time"]
    methods = frozenset.union(*pairs)
    assert Counter(pairs) == {frozenset(two): len(MEASURES) for two in combinations(methods, 2)}
    assert len(methods) == 10
    with (outcome.folder / "rates.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(ledger_of("search", outcome.folder / "results").runs)
    best = max((row for row in rows if row["method"] == "asyncsgd"), key=lambda row: float(row["accuracy"]))
    assert 20 < float(best["accuracy"]) <= 100
