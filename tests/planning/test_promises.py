"""What a plan promises: where parking begins, and where a promise counts as broken."""

import pytest

from sojourn import Fleet, Plan, goal
from sojourn.planning.promises import parking, verdicts

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
