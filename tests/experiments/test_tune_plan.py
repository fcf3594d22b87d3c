"""How the step size of a plan is chosen: by halving around a guess, on a grid that grows, in a folder."""

from dataclasses import replace
from math import log, nan

import pytest
from pretended import trainer
from some_cells import fleet_file

from sojourn import Fleet, InvalidInput, Plan, SojournError
from sojourn.experiments.halving import RUNGS, halve
from sojourn.experiments.plan_tuning import PlanTuning
from sojourn.experiments.run_cells import Swept
from sojourn.experiments.tune_plan import choose
from sojourn.experiments.tuned_plan import Trial
from sojourn.learning.run.config import TrainConfig
from sojourn.planning.policy import robust


@pytest.fixture
def tuning(tmp_path):
    fleet = fleet_file(tmp_path)

    def make(plan=None, run=None, **how) -> PlanTuning:
        path = tmp_path / "plan.json"
        (plan or robust(Fleet.load(fleet))).save(path)
        keys = {"fleet": fleet, "plan": str(path), "steps": 900, **(run or {})}
        return PlanTuning(TrainConfig.of(keys, "tune"), **how)

    return make


def around(best):
    return lambda config: abs(log(config.step_size / best))


def test_the_best_third_goes_on_and_two_at_least():
    asked = []

    def judge(left, rung):
        asked.append((rung, sorted(left)))
        return {one: abs(one - 4.1) for one in left}

    assert set(halve(range(7), (0.1, 0.3, 1.0), judge)) == {4, 5}
    assert asked == [(0.1, [0, 1, 2, 3, 4, 5, 6]), (0.3, [3, 4, 5]), (1.0, [4, 5])]


def test_halving_ends_where_something_is_not_known():
    assert halve(range(7), (0.1, 1.0), lambda left, rung: None) is None


def test_a_step_size_is_found_around_the_guess_with_few_long_runs(tuning, tmp_path):
    asked = []
    found = choose(tuning(guess=0.1), tmp_path, trainer(tmp_path, around(0.19), asked))
    assert found.chosen == Trial(0.2)
    assert (found.plan.step_size, found.guess, found.edge, found.complete) == (0.2, 0.1, "", True)
    many = {rung: sum(cell.config.steps == round(900 * rung) for cell in asked) for rung in RUNGS}
    assert list(many.values()) == [7 * 2, 3 * 2, 2 * 2]


def test_all_trials_of_a_seed_are_pairs_and_never_see_the_test_set(tuning, tmp_path):
    asked = []
    choose(tuning(guess=0.1, seeds=(3, 4), holdout=0.25), tmp_path, trainer(tmp_path, around(0.1), asked))
    assert {cell.config.seed for cell in asked} == {3, 4}
    assert {(cell.config.holdout, cell.config.judged_on) for cell in asked} == {(0.25, "holdout")}


@pytest.mark.parametrize(("best", "chosen"), [(6.0, 6.4), (0.001, 0.00078125)])
def test_a_bad_guess_is_mended_by_the_shortest_trials(tuning, tmp_path, best, chosen):
    asked = []
    found = choose(tuning(guess=0.1), tmp_path, trainer(tmp_path, around(best), asked))
    assert found.step_size == pytest.approx(chosen)
    assert found.edge == ""
    assert sum(cell.config.steps == 900 for cell in asked) == 2 * 2


def test_what_still_lies_at_the_edge_is_said(tuning, tmp_path):
    found = choose(tuning(guess=0.1, extensions=1), tmp_path, trainer(tmp_path, around(100), []))
    assert (found.step_size, found.edge) == (3.2, "upper")


def test_the_grid_grows_by_what_the_last_rung_says_of_those_that_came_to_it(tuning, tmp_path):
    def loss(config):
        return abs(log(config.step_size / (0.2 if config.steps < 900 else 0.011)))

    ends = trainer(tmp_path, loss, [])
    assert choose(tuning(guess=0.05, rungs=(0.5, 1.0)), tmp_path, ends).step_size == 0.1  # the short ones had the say
    assert choose(tuning(guess=0.2, rungs=(1.0,)), tmp_path, ends).step_size == 0.0125


def test_without_a_guess_a_wide_grid_comes_first(tuning, tmp_path):
    asked = []
    found = choose(tuning(), tmp_path, trainer(tmp_path, around(0.8), asked))
    assert (found.step_size, found.guess) == (0.8, None)
    sizes = {cell.config.step_size for cell in asked}
    assert {0.0015625, 0.00625, 0.025, 0.1, 0.4, 1.6, 6.4} <= sizes
    assert {0.2, 0.8} <= sizes


def test_the_plans_promise_is_a_guess_before_its_step_size(tuning, tmp_path):
    plan = robust(Fleet.load(fleet_file(tmp_path)))
    assert tuning(replace(plan, step_size=0.3)).first == 0.3
    assert tuning(replace(plan, step_size=0.3, promises={"step_size": 0.7})).first == 0.7
    assert tuning(replace(plan, promises={"step_size": 0.7}), guess=0.2).first == 0.2
    assert tuning(run={"step_size": 0.6}).first == 0.6


def test_corrections_are_tried_with_every_step_size_and_the_best_of_both_is_taken(tuning, tmp_path):
    def loss(config):
        return abs(log(config.step_size / 0.1)) + abs((config.correction or 0.0) - 0.9)

    found = choose(tuning(guess=0.1, corrections=(0.0, 0.5, 1.0)), tmp_path, trainer(tmp_path, loss, []))
    assert found.chosen == Trial(0.1, 1.0)
    assert (found.plan.step_size, found.plan.correction) == (0.1, 1.0)
    assert len({(row["step_size"], row["correction"]) for row in found.rows}) == 7 * 3


def test_a_correction_of_none_at_all_is_a_correction(tuning):
    cell = tuning(corrections=(0.0, 1.0), buffers=(2,), run={"algorithm": "fedbuff"}).cell(Trial(0.1, 0.0, 2), 1.0, 0)
    assert cell.config.correction == 0.0


def test_buffers_are_those_of_an_algorithm_that_gathers(tuning, tmp_path):
    asked = []

    def loss(config):
        from sojourn.learning.run.build import fleet_and_plan

        return abs(log(config.step_size / 0.1)) + abs(fleet_and_plan(config)[1].buffer - 3)

    for algorithm in ("fedbuff", "generalized-asyncsgd"):
        made = tuning(guess=0.1, buffers=(1, 3), run={"algorithm": algorithm})
        found = choose(made, tmp_path, trainer(tmp_path, loss, asked))
        assert (found.plan.buffer, found.plan.step_size) == (3, 0.1)
    with pytest.raises(InvalidInput, match="buffer has no effect on asyncsgd"):
        tuning(guess=0.1, buffers=(1, 3), run={"algorithm": "asyncsgd"})
    with pytest.raises(InvalidInput, match="correction has no effect on favano"):
        tuning(guess=0.1, corrections=(0.0, 1.0), run={"algorithm": "favano"})


def test_a_schedule_does_within_a_rung_what_it_does_in_the_budget(tuning, tmp_path):
    plan = robust(Fleet.load(fleet_file(tmp_path)))
    third = tuning(plan).cell(Trial(0.1), 1 / 3, 0).config
    assert (third.steps, third.schedule) == (300, None)  # the plan's, which ends where the run does
    third = tuning(replace(plan, schedule="drops(at=300/600, by=0.5)")).cell(Trial(0.1), 1 / 3, 0).config
    assert third.schedule == "drops(at=100.0/200.0, by=0.5)"
    third = tuning(plan, {"steps": None, "time": 90.0, "schedule": "cosine(end=90, over=time)"})
    assert third.cell(Trial(0.1), 1 / 3, 0).config.schedule == "cosine(over=time, end=30.0)"
    assert third.cell(Trial(0.1), 1.0, 0).config.schedule == "cosine(end=90, over=time)"
    assert third.plan.schedule == "cosine(end=90, over=time)"


def test_rungs_too_short_to_feel_staleness_are_left_out(tuning, tmp_path):
    assert tuning(run={"steps": 900}).lengths == RUNGS
    assert tuning(run={"steps": 200}).lengths == RUNGS[1:]  # 22 updates say nothing
    assert tuning(run={"steps": 40}).lengths == (1.0,)
    many = Plan.uniform(Fleet.load(fleet_file(tmp_path)), 100)
    assert tuning(many, {"steps": 900}).lengths == RUNGS[1:]  # 200 for 100 tasks in flight
    fast = tuning(run={"steps": None, "time": 40.0})  # 28 updates in a unit of time
    assert fast.lengths == RUNGS
    assert fast.cell(Trial(0.1), 1 / 3, 0).config.time == pytest.approx(40 / 3)


def test_a_trial_that_diverges_is_the_worst_and_nothing_is_chosen_where_all_do(tuning, tmp_path):
    def loss(config):
        return nan if config.step_size > 0.15 and config.seed == 10_001 else 1 / config.step_size

    assert choose(tuning(guess=0.1), tmp_path, trainer(tmp_path, loss, [])).step_size == 0.1
    with pytest.raises(SojournError, match=r"diverged at every step size from 0\.00195312 to 8"):
        choose(tuning(guess=1.0, extensions=3, seeds=(1,)), tmp_path, trainer(tmp_path, lambda config: nan, []))


def test_an_interrupt_leaves_a_folder_that_a_second_call_goes_on_with(tuning, tmp_path):
    asked = []
    ends = trainer(tmp_path, around(0.1), asked)

    def some(cells):
        ends(cells[:5])
        return Swept(len(cells), 5, interrupted=True)

    first = choose(tuning(guess=0.1), tmp_path, some)
    assert (first.complete, first.interrupted, first.open, len(first.rows)) == (False, True, 9, 5)
    assert first.plan.step_size is None
    again = choose(tuning(guess=0.1), tmp_path, ends)
    assert (again.step_size, len(asked)) == (0.1, 14 + 6 + 4)


def test_a_trial_that_fails_is_told_and_nothing_is_chosen(tuning, tmp_path):
    def fails(cells):
        return Swept(len(cells), 0, {cells[0].name: "no such data"})

    found = choose(tuning(guess=0.1), tmp_path, fails)
    assert not found.complete
    assert list(found.failures.values()) == ["no such data"]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"guess": -1.0}, "guess must be positive"),
        ({"holdout": 1.0}, "holdout must be a share between 0 and 1"),
        ({"rungs": (0.5,)}, "rungs must rise from above 0 to 1"),
        ({"rungs": (0.5, 0.2, 1.0)}, "rungs must rise"),
        ({"extensions": -1}, "extensions must be a whole number"),
        ({"corrections": (0.5, 0.5)}, "must be different"),
        ({"corrections": (7.0,)}, "correction must be a number from 0"),
        ({"run": {"holdout": 0.1}}, "holdout is set by the tuning"),
    ],
)
def test_what_no_tuning_can_keep_to_is_refused(tuning, how, said):
    with pytest.raises(InvalidInput, match=said):
        tuning(**how)
