"""What is said of a run: correct ones keep their promise at any length that is judged, and wrong ones do not."""

import pytest

from sojourn import Fleet, Plan, observe, simulate
from sojourn.timing.observe.judgement import judge

TEN = Fleet.of(fast=(6, 8.0), slow=(4, 1.0))
SINGLE = Fleet.of_rates([1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0])
HUNDRED = Fleet.of(fast=(90, 8.0), slow=(10, 1.0))


def judged(fleet, concurrency, steps, seed, start="stationary"):
    plan = Plan.uniform(fleet, concurrency)
    return judge(observe(simulate(fleet, plan, steps, seed=seed, start=start), fleet, plan))


@pytest.mark.parametrize(
    ("fleet", "tasks", "steps", "start"),
    [*((TEN, 10, steps, "stationary") for steps in (2, 6, 10, 20, 50, 200)), (HUNDRED, 100, 1000, "even")],
)
def test_a_run_that_is_short_against_its_memory_is_not_judged(fleet, tasks, steps, start):
    for seed in range(3):
        found = judged(fleet, tasks, steps, seed, start)
        assert (found.judged, found.far) == ((), ())
        assert found.enough > steps


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fleet", "steps", "many", "seeds"), [(TEN, 1000, 5, 40), (TEN, 3000, 5, 40), (SINGLE, 2400, 17, 20)]
)
def test_few_correct_runs_are_said_to_be_wrong(fleet, steps, many, seeds):
    found = [judged(fleet, 10, steps, seed) for seed in range(seeds)]
    told = [one for one in found if not one.enough]
    assert len(told) >= 0.8 * seeds
    assert all(len(one.judged) == many for one in told)
    assert sum(bool(one.far) for one in told) <= 2


def test_a_run_as_long_as_was_asked_for_is_judged():
    short = judged(TEN, 10, 20, 1)
    assert judged(TEN, 10, 2 * short.enough, 1).judged


def test_the_worst_of_many_figures_may_be_further_off():
    few, many = judged(TEN, 10, 3000, 1), judged(SINGLE, 10, 3000, 1)
    assert few.limit == 3
    assert many.limit > 3.2


def test_another_plan_is_noticed():
    plan = Plan.uniform(TEN, 10)
    run = simulate(TEN, Plan.by_speed(TEN, 10), 3000, seed=1)
    found = judge(observe(run, TEN, plan))
    assert abs(found.far[0].z) > 10
    assert found.reasons == ("theory was asked about another fleet or plan",)


def test_a_group_that_hardly_worked_is_left_out():
    fleet = Fleet.of(many=(99, 1.0), one=(1, 1.0))
    names = {figure.group for figure in judged(fleet, 5, 400, 1).judged}
    assert names == {"all", "many"}
