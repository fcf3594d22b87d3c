"""The table of CIFAR-10: readings, search, settling, fresh seeds; on digits, with four clients."""

from collections import Counter
from pathlib import Path

import pytest

from queuing_dynamics.cifar10.favourable import by_tasks, favourable, favourable_trials
from queuing_dynamics.cifar10.finals import finals
from queuing_dynamics.cifar10.readings import (
    FASTER,
    IDLE,
    PAPER,
    PLANNED,
    PURE,
    ROOT,
    SPEED,
    UNWEIGHTED,
    Reading,
    algorithm,
    by_speed,
    readings,
)
from queuing_dynamics.cifar10.search import common, trial, trials, tried
from queuing_dynamics.cifar10.settled import THREE, nearest, refined, refined_in_time, settled
from queuing_dynamics.cifar10.size import FULL, Size
from queuing_dynamics.cifar10.stages import STAGES, cells_of, chosen, ledger_of
from queuing_dynamics.ledger import Ledger, train
from queuing_dynamics.tuned import Best, accuracy
from sojourn.errors import SojournError, UnreadableFile
from sojourn.experiments.cells import Cell
from sojourn.experiments.comparison import FIRST_TUNING_SEED
from sojourn.learning.run.config import TrainConfig

TINY = Size(
    clients=4, steps=2, buffer=2, batch_size=8, data="digits", model="logistic", classes=7, augment="none",
    precision="fp32", trial_seeds=1, final_seeds=2,
)  # fmt: skip
NEAR = Reading("as many", 1, 0.1)


def test_the_full_size_is_what_the_paper_states():
    assert (FULL.clients, FULL.steps, FULL.buffer, FULL.batch_size, FULL.classes) == (100, 200, 10, 128, 7)
    assert FULL.time == 1400
    assert FULL.fleet().count.tolist() == [50, 50]
    assert algorithm(FULL, "generalized")["sampling"] == "fast=0.0073,slow=0.0127"
    assert {one.name: one.paper for one in PAPER} == {"fedbuff": 49.89, "asyncsgd": 59.09, "generalized": 66.61}


def test_a_step_of_fedbuff_is_a_full_buffer_where_steps_are_updates():
    reading = Reading("updates", 1, 0.1)
    assert reading.keys(FULL, "asyncsgd")["steps"] == 200
    assert reading.keys(FULL, "fedbuff")["steps"] == 2000
    assert reading.ends == ("end", "updates")
    assert Reading("periods", 1, 1.0).keys(FULL, "fedbuff")["time"] == 1400
    assert NEAR.keys(FULL, "generalized")["steps"] == 5800


def test_no_two_trials_are_the_same_but_those_of_rounds_which_are_read_earlier(tmp_path):
    cells = cells_of("search", FULL, tmp_path, tmp_path)
    assert len(Ledger(tmp_path).missing(cells)) == len(cells) - 36 == 432
    assert Reading("rounds", 1, 0.1).most(FULL) == 2000
    assert all(cell.config.judged_on == "holdout" for _, cell in cells)


def pretend(ledger: Ledger, folder: Path, reading: Reading, worth) -> None:
    """Enter every trial of a reading that is missing, with the accuracy that a method has at a rate."""
    for marks, cell in ledger.missing(tried(FULL, folder, reading, THREE, ledger).cells):
        value = worth(marks["method"], marks["rate"])
        ledger.runs[cell.hash] = {"cell": cell.hash, "state": "complete" if value == value else "diverged"}
        ledger.curves[cell.hash] = [
            {"received": at, "version": at / 10 if marks["method"] == "fedbuff" else at, "accuracy": share * value}
            for at, share in ((0, 0.0), (1700, 0.5), (2000, 0.5), (4900, 1.0), (5800, 1.0))
        ]


@pytest.mark.slow
def test_the_settled_reading_is_the_nearest_with_each_method_at_its_best_rate(tmp_path):
    ledger, numbers = Ledger(tmp_path), {one.name: one.paper / 100 for one in PAPER}
    for reading in readings():
        off = 0.0 if reading == NEAR else 0.3
        pretend(ledger, tmp_path, reading, lambda method, rate, off=off: numbers[method] - off - abs(rate - 0.1) / 10)
        pretend(ledger, tmp_path, reading, lambda method, rate: 0.0)  # where a grid has grown
    found = settled(FULL, tmp_path, ledger)
    assert (found.reading, found.end) == (NEAR, "end")
    assert found.distance == pytest.approx(0.0, abs=1e-9)
    assert {best.rate for best in found.best.values()} == {0.1}
    early = next(one for one in nearest(FULL, tmp_path, ledger) if one.reading == NEAR and one.end == "buffers")
    assert early.best["fedbuff"].accuracy == pytest.approx(49.89 / 2)


def test_grids_grow_for_all_where_the_best_of_one_lies_at_an_edge(tmp_path):
    ledger = Ledger(tmp_path)
    pretend(ledger, tmp_path, NEAR, lambda method, rate: rate if method == "asyncsgd" else -abs(rate - 0.1))
    grown = tried(FULL, tmp_path, NEAR, THREE, ledger)
    assert grown.best == {}
    assert len(ledger.missing(grown.cells)) == 3 * FULL.trial_seeds
    for _ in range(2):
        pretend(ledger, tmp_path, NEAR, lambda method, rate: rate if method == "asyncsgd" else -abs(rate - 0.1))
    best = tried(FULL, tmp_path, NEAR, THREE, ledger).best
    assert best["asyncsgd"].edge == "upper"  # it was let to grow twice, no more
    assert best["generalized"].edge == ""


def test_a_run_that_diverged_is_worth_nothing_to_its_rate(tmp_path):
    ledger = Ledger(tmp_path)
    pretend(ledger, tmp_path, NEAR, lambda method, rate: 0.9 if rate == 0.1 else 0.5)
    cells = [cell for marks, cell in tried(FULL, tmp_path, NEAR, THREE, ledger).cells if marks["rate"] == 0.1]
    for cell in cells[::3]:
        ledger.runs[cell.hash]["state"] = "diverged"
    pretend(ledger, tmp_path, NEAR, lambda method, rate: 0.0)
    pretend(ledger, tmp_path, NEAR, lambda method, rate: 0.0)
    assert all(best.rate == 0.1 for best in tried(FULL, tmp_path, NEAR, THREE, ledger).best.values())
    for cell in cells:
        ledger.runs[cell.hash]["state"] = "diverged"
    best = tried(FULL, tmp_path, NEAR, THREE, ledger).best
    assert all(one.rate != 0.1 for one in best.values())


@pytest.mark.slow
def test_a_finer_rate_is_taken_where_it_is_better_and_another_one_where_time_decides(tmp_path):
    ledger, numbers = Ledger(tmp_path / "search"), {one.name: one.paper / 100 for one in PAPER}
    for reading in readings():
        off = 0.0 if reading == NEAR else 0.3
        for _ in range(3):  # grids grow
            pretend(ledger, tmp_path, reading, lambda method, rate, off=off: numbers[method] - off - abs(rate - 0.1))
    found = settled(FULL, tmp_path, ledger)
    assert refined(FULL, tmp_path, found, ledger).best == {}
    for marks, cell in ledger.missing(refined(FULL, tmp_path, found, ledger).cells):
        slower = 2.0 if marks["rate"] > 0.1 else 1.0  # the larger rate is better at the end, and takes longer
        ledger.runs[cell.hash] = {"cell": cell.hash, "state": "complete"}
        ledger.curves[cell.hash] = [
            {"received": at, "version": at, "time": slower * at, "accuracy": 0.8 * slower * at / 5800}
            for at in (0, 5800)
        ]
    for rows in ledger.curves.values():
        for row in rows:
            row.setdefault("time", row["received"])
    by_update, in_time = (how(FULL, tmp_path, found, ledger) for how in (refined, refined_in_time))
    assert {round(best.rate, 3) for best in by_update.best.values()} == {0.173}
    assert {round(best.rate, 4) for best in in_time.best.values()} == {0.0577}
    assert by_update.cells == in_time.cells


def test_finals_learn_from_all_examples_and_are_judged_by_the_test_set_with_seeds_of_their_own(tmp_path):
    chosen = {one.name: (NEAR, Best(0.1, 50.0, "")) for one in PAPER}
    ended = list(finals(FULL, tmp_path, chosen))
    tried_ones = trials(FULL, tmp_path, NEAR, "asyncsgd", (0.1,))
    assert len(ended) == 3 * 10
    assert {(cell.config.judged_on, cell.config.holdout) for _, cell in ended} == {("test", 0.0)}
    assert {(cell.config.judged_on, cell.config.holdout) for _, cell in tried_ones} == {("holdout", 0.1)}
    assert not {marks["seed"] for marks, _ in ended} & {marks["seed"] for marks, _ in tried_ones}


@pytest.mark.slow
def test_fedbuff_is_not_read_after_more_buffers_than_it_filled(tmp_path):
    ledger = Ledger(tmp_path)
    for reading in readings():
        for _ in range(3):
            pretend(ledger, tmp_path, reading, lambda method, rate: 0.5 - abs(rate - 0.1))
    asked = [one.end for one in nearest(FULL, tmp_path, ledger) if one.reading == NEAR]
    assert sorted(asked) == ["buffers", "end"]
    for marks, cell in tried(FULL, tmp_path, NEAR, THREE, ledger).cells:
        if marks["method"] == "fedbuff":
            ledger.curves[cell.hash][-1]["version"] = 199
    assert [one.end for one in nearest(FULL, tmp_path, ledger) if one.reading == NEAR] == ["end"]


def test_a_user_sees_every_way_tried_as_often_and_the_finisher_s_with_a_task_a_client(tmp_path):
    tries = Counter()
    for marks, cell in cells_of("trials", FULL, tmp_path, tmp_path):
        tries[marks["method"], cell.config.concurrency] += 1
        assert (cell.config.time, cell.config.judged_on) == (FULL.time, "holdout")
        assert (cell.config.algorithm == "asyncsgd(assignment=pure)") == (marks["method"] == PURE)
    tasks = {method: [count for name, count in tries if name == method] for method, _ in tries}
    assert set(tries.values()) == {4 * FULL.trial_seeds}
    assert tasks.pop(PURE) == [FULL.clients]
    assert tasks.pop(PLANNED) == [FULL.planned()[0]]
    assert set(map(tuple, tasks.values())) == {(10, 50, 100)}


def test_more_tasks_than_clients_are_tried_where_tasks_may_wait_and_a_task_a_client_is_best(tmp_path):
    ledger = Ledger(tmp_path)
    while missing := ledger.missing(cell for _, one in favourable_trials(FULL, tmp_path, ledger) for cell in one.cells):
        for marks, cell in missing:
            tasks, waits = cell.config.concurrency, marks["method"] not in (IDLE, PURE)
            worth = 0.5 - abs(tasks - (50 if marks["method"] == "asyncsgd" else 100)) / 1000 - abs(marks["rate"] - 0.1)
            assert tasks <= 100 or (waits and marks["method"] != "asyncsgd")
            ledger.runs[cell.hash] = {"cell": cell.hash, "state": "complete"}
            ledger.curves[cell.hash] = [{"received": at, "version": at, "accuracy": worth} for at in (0, 1000)]
    found = by_tasks(FULL, tmp_path, ledger)
    more = ("generalized", FASTER, ROOT, SPEED, UNWEIGHTED, "fedbuff")
    assert {method for method, mine in found.items() if 300 in mine} == set(more)
    assert {method: one.tasks(FULL) for method, (one, _) in favourable(FULL, tmp_path, ledger).items()} == {
        **dict.fromkeys((*more, IDLE, PURE), 100),
        "asyncsgd": 50,
        PLANNED: FULL.planned()[0],
    }


def test_p_by_speed_is_in_proportion_to_a_power_of_it():
    assert by_speed(0.0) == 1.0
    fast = by_speed(1.0)
    assert fast / (2 - fast) == pytest.approx(8, rel=1e-4)
    assert algorithm(FULL, SPEED)["sampling"] == "fast=0.01777778,slow=0.00222222"


@pytest.mark.slow
def test_by_speed_without_weights_differs_from_by_speed_in_the_weights_alone(tmp_path):
    """Clients and their tasks are the same to the last one, so that what differs is what the updates weigh."""
    reading, seed = Reading("periods", 1, 1.0), FIRST_TUNING_SEED
    cells = [trial(TINY, tmp_path, reading, method, 0.01, seed) for method in (SPEED, UNWEIGHTED)]
    ledger = Ledger(tmp_path / "kept")
    assert train(cells, ledger, tmp_path / "work")
    weighted, plain = (ledger.found(cell) for _, cell in cells)
    for key in ("received", "version", "time", "gradients", "staleness"):
        assert weighted.column(key).tolist() == plain.column(key).tolist()
    assert weighted.facts["plan_hash"] == plain.facts["plan_hash"]
    assert weighted.rows[-1]["test_loss"] != plain.rows[-1]["test_loss"]


@pytest.mark.slow
def test_without_weights_and_with_uniform_p_it_is_asyncsgd(tmp_path):
    control = {**algorithm(TINY, UNWEIGHTED), "sampling": TINY.sampling(1.0)}
    both = [{**NEAR.keys(TINY, "asyncsgd"), **keys} for keys in (algorithm(TINY, "asyncsgd"), control)]
    cells = [
        ({"number": number}, Cell(f"run {number}", TrainConfig(**keys, **common(TINY, tmp_path, NEAR), step_size=0.1)))
        for number, keys in enumerate(both)
    ]
    ledger = Ledger(tmp_path / "kept")
    assert train(cells, ledger, tmp_path / "work")
    one, other = (ledger.found(cell) for _, cell in cells)
    for key in ("received", "version", "time"):
        assert one.column(key).tolist() == other.column(key).tolist()
    assert one.column("test_loss") == pytest.approx(other.column("test_loss"), rel=1e-4)


def test_by_speed_without_weights_is_tried_at_the_rates_of_asyncsgd():
    assert NEAR.rates(UNWEIGHTED) == NEAR.rates("asyncsgd")


def test_a_search_that_is_not_whole_settles_nothing(tmp_path):
    with pytest.raises(SojournError, match="readings were not tried whole"):
        cells_of("table", FULL, tmp_path, tmp_path)
    with pytest.raises(SojournError, match="was not tried whole"):
        cells_of("favourable", FULL, tmp_path, tmp_path)


def test_a_curve_is_worth_its_mean_over_the_last_part_of_the_way():
    curve = [{"version": at, "accuracy": value} for at, value in ((0, 0.1), (80, 0.2), (90, 0.3), (100, 0.5))]
    # from 85 to 90 it rises from 0.25 to 0.3, from there to 0.5
    assert accuracy(curve, "version") == pytest.approx((5 * 0.275 + 10 * 0.4) / 15, abs=1e-3)
    assert accuracy(curve, "version", 85, last=0) == pytest.approx(0.25)


@pytest.mark.slow
def test_a_ledger_keeps_what_a_run_came_to(tmp_path):
    cells = cells_of("search", TINY, tmp_path, tmp_path)[:3]
    ledger = Ledger.load(tmp_path / "kept")
    assert train(cells, ledger, tmp_path / "work")
    again = Ledger.load(tmp_path / "kept")
    assert again.missing(cells) == []
    for _, cell in cells:
        before, after = ledger.found(cell), again.found(cell)
        assert before is not None
        assert after is not None
        assert after.rows[-1]["accuracy"] == pytest.approx(before.rows[-1]["accuracy"], rel=1e-4)
        assert after.facts["partition_hash"] == before.facts["partition_hash"]
    assert train(cells, again, tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("runs", "curves", "message"),
    [
        ("a,b\n1,2\n", "", "runs.csv has no column cell: it is no ledger"),
        ("junk\n", "", "runs.csv has no column cell: it is no ledger"),
        ("cell,received,state\nabc,complete\n", "", "runs.csv has a row without state: it is no ledger"),
        ("cell,state\nabc,complete\n", "", "curves.csv has nothing of the run abc; restore both files"),
        ("cell,state\nabc,complete\n", "cell,received,accuracy\nabc,1,much\n", "has 'much' where a number belongs"),
    ],
)
def test_what_is_no_ledger_is_said_to_be_none(tmp_path, runs, curves, message):
    (tmp_path / "runs.csv").write_text(runs)
    (tmp_path / "curves.csv").write_text(curves)
    with pytest.raises(UnreadableFile, match=message):
        Ledger.load(tmp_path)


def test_a_ledger_without_runs_can_be_read_again(tmp_path):
    Ledger(tmp_path).save()
    assert Ledger.load(tmp_path).runs == {}


def test_training_stops_between_cells_when_its_time_is_up(tmp_path):
    cells = cells_of("search", TINY, tmp_path, tmp_path)[:2]
    assert not train(cells, Ledger(tmp_path / "kept"), tmp_path / "work", going=lambda: False)
    assert not (tmp_path / "work").exists()


@pytest.mark.slow
def test_all_stages_follow_from_the_search(tmp_path):
    for stage in STAGES:
        ledger = ledger_of(stage, tmp_path)
        while ledger.missing(cells := cells_of(stage, TINY, tmp_path, tmp_path)):  # grids grow
            assert train(cells, ledger, tmp_path / "work" / stage)
            ledger = ledger_of(stage, tmp_path)
    assert 3 * TINY.final_seeds <= len(ledger_of("table", tmp_path).runs) <= 6 * TINY.final_seeds
    assert len(ledger_of("favourable", tmp_path).runs) == 10 * TINY.final_seeds
    search = ledger_of("search", tmp_path)
    for stage in ("table", "in-time"):
        rates = {(row["method"], float(row["rate"])) for row in ledger_of("table", tmp_path).runs.values()}
        assert rates >= {(one, best.rate) for one, (_, best) in chosen(stage, TINY, tmp_path, search).items()}
