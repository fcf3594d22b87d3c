"""What a plan promises: where parking begins, and where a promise counts as broken."""

import math
from dataclasses import replace

import pytest

from sojourn import Fleet, Plan, analyze, goal, make_plan
from sojourn.planning.promises import _z, against_theory, parking, promised, verdicts

FLEET = Fleet.of(first=(1, 1.0), second=(1, 1.0), others=(8, 1.0))
PER_STEP = goal(steps=1e4)
TASKS = 10
UNIFORM = PER_STEP.predict(FLEET, Plan.uniform(FLEET, TASKS)).analysis.throughput


def judged(first, second):
    """Share of the tasks at one client, throughput beside uniform sampling's, and what is said of it."""
    others = (1 - first - second) / 8
    plan = Plan.of(FLEET, {"first": first, "second": second, "others": others}, TASKS)
    prediction = PER_STEP.predict(FLEET, plan)
    held = prediction.analysis.queue.max() / TASKS
    return held, prediction.analysis.throughput / UNIFORM, parking(PER_STEP, prediction)


def test_half_of_the_tasks_at_one_client_is_parking():
    # two clients get nearly everything, so that throughput is far below that of uniform sampling
    held, speed, said = judged(0.48, 0.48)
    assert 0.49 < held < 0.5
    assert speed < 0.4
    assert said is None
    held, speed, said = judged(0.482, 0.478)
    assert 0.5 < held < 0.51
    assert speed < 0.4
    assert said is not None
    assert "one client of 'first' is sampled with probability 0.482 and holds 50% of the tasks" in said


def test_half_of_the_throughput_of_uniform_sampling_is_no_parking_yet():
    # one client gets most, the others share the rest
    held, speed, said = judged(0.379, 0.069)
    assert held > 0.79
    assert 0.5 < speed < 0.51
    assert said is None
    held, speed, said = judged(0.381, 0.069)
    assert held > 0.79
    assert 0.49 < speed < 0.5
    assert said is not None
    assert f"{speed * UNIFORM:.4g} from {UNIFORM:.4g} with uniform sampling" in said


@pytest.mark.parametrize(("z", "kept"), [(0.0, True), (3.9, True), (-3.9, True), (4.1, False), (-4.1, False)])
def test_a_promise_is_broken_beyond_four_standard_errors_to_either_side(z, kept):
    said = verdicts([{"promise": "throughput", "z": z}])
    expected = "every promise is kept within 4 standard errors"
    assert said == [expected if kept else "not kept within 4 standard errors: throughput"]


def test_a_plan_keeps_its_promises_to_a_millionth():
    planned = make_plan(FLEET, PER_STEP, TASKS)
    analysis = analyze(FLEET, planned.plan)
    assert against_theory(planned.plan, analysis) == ["throughput and staleness are as the plan promises"]
    for off, kept in ((0.9e-6, True), (1.1e-6, False), (-0.01, False)):
        (said,) = against_theory(planned.plan, replace(analysis, throughput=analysis.throughput * (1 + off)))
        assert said.startswith("throughput and staleness are as") is kept
    assert "differs by up to 1% from what the plan promises" in said


def test_without_an_error_a_promise_is_kept_to_the_bit_or_broken():
    assert [_z(1.0, now, 0.0) for now in (1.0, 1.1, 0.9)] == [0.0, math.inf, -math.inf]
    assert _z(1.0, 1.5, 0.25) == 2.0


def test_what_a_plan_promises_is_reported_with_its_step_size_where_it_has_one():
    planned = make_plan(FLEET, PER_STEP, TASKS)
    (said,) = promised(planned.plan)
    assert said.startswith(
        f"the plan minimised {planned.plan.objective}: step size {planned.plan.step_size:.6g}, bound "
    )
    (said,) = promised(replace(planned.plan, step_size=None))
    assert said.startswith(f"the plan minimised {planned.plan.objective}: bound ")
    assert promised(Plan.uniform(FLEET, TASKS)) == []


@pytest.mark.parametrize("least", ["steps", "time", "energy"])
def test_what_is_to_be_least_is_all_that_counts(least):
    fleet = Fleet(("a", "b"), [2, 3], [1.0, 2.0], power=[3.0, 5.0])
    prediction = goal(epsilon=1.0, least=least).predict(fleet, Plan.uniform(fleet, 4))
    assert prediction.value == pytest.approx(getattr(prediction.scored, least), rel=1e-12)
