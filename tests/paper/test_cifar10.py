"""The table of CIFAR-10: readings, search, settling, fresh seeds; on digits, with four clients."""

from pathlib import Path

import pytest

from sojourn.paper.cifar10.__main__ import STAGES, cells_of
from sojourn.paper.cifar10.readings import PAPER, Reading, algorithm, readings
from sojourn.paper.cifar10.settled import SAME, Standing, accuracy, best_rate, nearest
from sojourn.paper.cifar10.size import FULL, Size
from sojourn.paper.ledger import Ledger, train
from sojourn.sweep.cell import Cell

TINY = Size(
    clients=4, steps=2, buffer=2, batch_size=8, data="digits", model="logistic", classes=7, augment="none",
    precision="fp32", trial_seeds=1, final_seeds=2,
)  # fmt: skip


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
    assert Reading("periods", 1, 1.0).keys(FULL, "fedbuff")["time"] == 1400
    assert Reading("as many", 1, 0.1).keys(FULL, "generalized")["steps"] == 5800


def test_no_two_trials_are_the_same(tmp_path):
    cells = cells_of("search", FULL, tmp_path, Ledger(tmp_path))
    assert len({cell.hash for _, cell in cells}) == len(cells) == 324
    assert all(cell.config.judged_on == "holdout" for _, cell in cells)


def ledger_of(tmp_path: Path, ends: dict[tuple[str, float, int], float]) -> Ledger:
    """A ledger with these accuracies, by method, rate and seed, all under one reading."""
    ledger, reading = Ledger(tmp_path), Reading("as many", 1, 0.1)
    for number, ((method, rate, seed), value) in enumerate(ends.items()):
        row = {"reading": reading.name(FULL), "method": method, "rate": str(rate), "seed": str(seed)}
        ledger.runs[str(number)] = {"cell": str(number), "state": "complete", **row}
        ledger.curves[str(number)] = [{"version": 200, "accuracy": value / 2}, {"version": 580, "accuracy": value}]
    return ledger


def test_the_settled_reading_is_the_nearest_with_each_method_at_its_best_rate(tmp_path):
    ends = {(one.name, rate, seed): one.paper / 100 - rate for one in PAPER for rate in (0.01, 0.1) for seed in (0, 1)}
    found = nearest(FULL, ledger_of(tmp_path, ends))
    assert found[0].reading == Reading("as many", 1, 0.1)
    assert found[0].buffered == "end"
    assert found[0].distance == pytest.approx(3.0)
    assert {name: best.rate for name, best in found[0].best.items()} == {one.name: 0.01 for one in PAPER}
    assert found[1].buffered == SAME
    assert found[1].best["fedbuff"].accuracy == pytest.approx((49.89 - 1) / 2)


def test_a_rate_at_which_a_run_diverged_is_not_chosen_for_its_lucky_seeds(tmp_path):
    ledger = ledger_of(tmp_path, {("asyncsgd", 0.1, 0): 0.9, ("asyncsgd", 0.1, 1): 0.9, ("asyncsgd", 0.03, 0): 0.5})
    ledger.runs["1"]["state"] = "diverged"
    best = best_rate(list(ledger.runs.values()), ledger)
    assert best is not None
    assert best.rate == 0.03
    assert best.edge


def test_a_curve_is_read_at_the_last_evaluation_up_to_a_step():
    curve = [{"version": 0, "accuracy": 0.1}, {"version": 7, "accuracy": 0.2}, {"version": 12, "accuracy": 0.3}]
    assert accuracy(curve, 10) == 0.2
    assert accuracy(curve, None) == 0.3


def test_a_ledger_keeps_what_a_run_came_to(tmp_path):
    cells = cells_of("search", TINY, tmp_path, Ledger(tmp_path))[:3]
    ledger = Ledger.load(tmp_path / "kept")
    assert train(cells, ledger, tmp_path / "work")
    again = Ledger.load(tmp_path / "kept")
    assert again.missing(cells) == []
    for _, cell in cells:
        before, after = ledger.found(cell), again.found(cell)
        assert before is not None
        assert after is not None
        assert after.rows[-1]["accuracy"] == pytest.approx(before.rows[-1]["accuracy"], rel=1e-5)
        assert after.facts["partition_hash"] == before.facts["partition_hash"]
    assert train(cells, again, tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_training_stops_between_cells_when_its_time_is_up(tmp_path):
    cells = cells_of("search", TINY, tmp_path, Ledger(tmp_path))[:2]
    assert not train(cells, Ledger(tmp_path / "kept"), tmp_path / "work", going=lambda: False)
    assert not (tmp_path / "work").exists()


@pytest.mark.slow
def test_all_stages_follow_from_the_search(tmp_path):
    kept: dict[str, Ledger] = {}
    search = Ledger.load(tmp_path / "search")
    for stage in STAGES:
        ledger = search if stage in ("search", "trials") else Ledger.load(tmp_path / stage)
        cells: list[tuple[object, Cell]] = cells_of(stage, TINY, tmp_path, search)
        assert train(cells, ledger, tmp_path / "work" / stage)
        kept[stage] = ledger
    assert len(kept["table"].runs) == 3 * TINY.final_seeds
    assert len(kept["favourable"].runs) == 6 * TINY.final_seeds
    settled: Standing = nearest(TINY, search)[0]
    assert settled.distance == min(one.distance for one in nearest(TINY, search))
    assert len(list(readings())) == 10
    table = kept["table"].runs.values()
    assert {float(row["rate"]) for row in table} == {best.rate for best in settled.best.values()}
