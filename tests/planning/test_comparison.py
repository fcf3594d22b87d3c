"""A plan beside others, errors in its inputs, and what is said of it."""

import numpy as np
import pytest

from sojourn import Fleet, Plan, goal, make_plan
from sojourn.planning.bound import comparison
from sojourn.planning.bound.advice import BLIND, PESSIMISM, TOO_SHORT, advice
from sojourn.planning.bound.comparison import compare, papers_plan, sensitivity

FLEET = Fleet.of(fast=(90, 8.0), slow=(10, 1.0))


@pytest.fixture(scope="module")
def planned():
    return make_plan(FLEET, goal(time=1000))


def test_the_plan_is_the_best_of_its_comparison(planned):
    rows = compare(planned)
    assert list(rows) == [
        "uniform, 14 tasks",
        "uniform, 100 tasks (C = n)",
        "by speed, 14 tasks",
        "the paper's, 14 tasks",
        "this plan",
    ]
    assert min(rows, key=lambda name: rows[name].value) == "this plan"
    assert all(row.scored.time == pytest.approx(1000) for row in rows.values())
    assert rows["by speed, 14 tasks"].plan.sampling[0] == pytest.approx(8 / 730)


def test_the_papers_plan_minimises_the_bound_per_step_on_the_grid():
    plan = papers_plan(FLEET, goal(steps=1e4, free_step=True), 100)
    assert plan.sampling[0] == pytest.approx(4.5921095e-3, abs=(1 / 90) / 51)
    assert papers_plan(Fleet.of(all=(10, 2.0)), goal(steps=1e4), 10) is None
    assert papers_plan(FLEET, goal(least="step time"), 10) is None


def test_an_error_of_a_fifth_in_an_input_costs_little_here_and_is_counted_with_the_kept_step(planned):
    rows = {row.case: row for row in sensitivity(planned)}
    assert len(rows) == 9
    assert all(row.regret >= -1e-9 for row in rows.values())
    # A only scales the first term: the kept plan, step included, on another A, by hand
    scored = planned.prediction.scored
    first = 100 / (scored.step_size * (scored.steps + 1))
    assert rows["A 20% more"].kept == pytest.approx(planned.prediction.value + 0.2 * first, rel=1e-12)
    fresh = make_plan(FLEET.with_rates([9.6, 1.0]), goal(time=1000))
    faster = rows["fast clients' rates 20% more"]
    assert faster.best == pytest.approx(fresh.prediction.value, rel=1e-6)
    assert faster.concurrency == fresh.plan.concurrency
    assert max(row.regret for row in rows.values()) < 0.02


@pytest.mark.parametrize("settings", [{"search": "clusters", "clusters": 3}, {"equal": False}])
def test_plans_made_anew_come_from_the_same_family(settings):
    fleet = Fleet.of(a=(3, 10.0), b=(3, 4.0), c=(4, 1.0))
    kept = make_plan(fleet, goal(steps=1e4), 30, **settings)
    assert all(row.regret >= -1e-6 for row in sensitivity(kept))
    one_speed = make_plan(Fleet.of(all=(5, 1.0)), goal(time=100), search="clusters", clusters=1)
    assert len(sensitivity(one_speed)) == 7


def test_a_plan_that_is_worse_than_uniform_with_fewer_tasks_is_said_to_be():
    many = make_plan(FLEET, goal(time=100), 900)
    assert "% higher than uniform, 100 tasks" in advice(many, compare(many))[0]


def test_a_fixed_concurrency_stays_fixed_under_errors():
    fixed = make_plan(FLEET, goal(steps=1e4), 50)
    assert {row.concurrency for row in sensitivity(fixed)} == {50}


@pytest.mark.slow
def test_errors_of_a_large_fleet_are_studied_through_bins(monkeypatch):
    monkeypatch.setattr(comparison, "FEW", 10)
    fleet = Fleet.of_rates(np.exp(np.random.default_rng(2).normal(0, 0.5, 40)))
    rows = sensitivity(make_plan(fleet, goal(time=100)))
    # a kept step beyond the theorem's largest may do better than any that the theorem allows
    assert all((row.regret > -1e-6 or not row.proven) and row.regret < 0.1 for row in rows)
    assert {row.proven for row in rows} == {True, False}


def test_the_advice_speaks_of_what_was_computed(planned):
    said = advice(planned, compare(planned))
    assert said[0] == (
        "sample fast clients 2.2x as often as slow ones; 14 tasks in flight; "
        "bound 53% lower than uniform, 100 tasks (C = n)"
    )
    assert "Theorem 1 allows steps up to 0.0127863" in said[1]
    assert said[-1] == PESSIMISM


@pytest.mark.slow
def test_the_advice_for_slow_favoured_clipped_equal_and_many_speeds():
    per_step = make_plan(FLEET, goal(steps=1e4), 100)
    assert advice(per_step, compare(per_step))[0].startswith("sample slow clients 13x as often as fast ones; 100 tasks")
    clipped = make_plan(FLEET, goal(steps=10), 100)
    assert "without that limit" in advice(clipped, compare(clipped))[1]
    free = make_plan(FLEET, goal(steps=10, free_step=True), 100)
    assert "the bound is not proven for it" in advice(free, compare(free))[1]
    same = Fleet.of(all=(10, 2.0))
    alike = make_plan(same, goal(time=100))
    assert advice(alike, compare(alike))[0].startswith("sample all clients alike")
    many = Fleet.of_rates(np.linspace(1, 10, 20))
    spread = make_plan(many, goal(time=1000))
    assert advice(spread, compare(spread))[0].startswith("sample the fastest clients ")


def test_a_budget_too_small_for_one_step_is_said():
    for objective in (goal(time=1e-3), goal(epsilon=1e4)):
        short = make_plan(FLEET, objective, 2)
        assert TOO_SHORT in advice(short, compare(short))


def test_parking_and_blindness_are_said():
    parked = make_plan(FLEET, goal(steps=1e4), 100, equal=False)
    assert any(line.startswith("parking: ") for line in advice(parked, compare(parked)))
    blind = make_plan(FLEET, goal(least="step time"), 100)
    assert advice(blind, compare(blind))[-1] == BLIND


def test_promises_are_those_of_the_prediction(planned):
    promises = planned.plan.promises
    assert promises["bound"] == planned.prediction.value
    assert promises["throughput"] == planned.prediction.analysis.throughput
    assert list(promises["staleness"]) == planned.prediction.analysis.staleness().tolist()
    assert promises["energy"] is None
    assert planned.plan.objective == "Theorem 1's bound after 1000 units of time"
    Plan.check(planned.plan, FLEET)
