"""The numbers that a planner must reach: the paper's worked example, and the published fleet of the extension."""

import numpy as np
import pytest

from sojourn import Constants, Fleet, Plan, analyze, goal, make_plan
from sojourn.planning.bound.search import Limits

EXTENSION = Constants(A=1, L=1, sigma2=1, G2=25, R2=196)
FIVE_TYPES = Fleet(
    name=("a", "b", "c", "d", "e"),
    count=[15, 15, 20, 40, 10],
    rate=[10, 0.3, 5, 0.15, 12],
    uplink_rate=[2, 9, 6, 0.1, 10],
    downlink_rate=[2.5, 10, 7, 0.12, 11],
)


def worked(fast):
    return Fleet.of(fast=(90, float(fast)), slow=(10, 1.0))


@pytest.mark.parametrize("search", ["clusters", "simplex", "power"])
@pytest.mark.parametrize(
    ("fast", "tasks", "reading", "p_fast", "step", "best", "uniform"),
    [
        (2, 10, "indicator", 9.0056522e-3, 0.012730575, 1.31209204, 1.33113357),
        (8, 100, "indicator", 4.5921095e-3, 0.0067358609, 2.35982729, 5.17093687),
        (16, 100, "conditional", 5.8072016e-3, 0.0018163812, 8.28588364, 23.7424371),
    ],
)
def test_the_worked_example_per_step(search, fast, tasks, reading, p_fast, step, best, uniform):
    fleet = worked(fast)
    objective = goal(steps=1e4, free_step=True, reading=reading)
    planned = make_plan(fleet, objective, tasks, search)
    assert planned.plan.sampling[0] == pytest.approx(p_fast, rel=1e-6)
    assert planned.plan.step_size == pytest.approx(step, rel=1e-6)
    assert planned.prediction.value == pytest.approx(best, rel=1e-8)
    assert objective.predict(fleet, Plan.uniform(fleet, tasks)).value == pytest.approx(uniform, rel=1e-8)


@pytest.mark.parametrize(("fast", "p_fast"), [(2, 9.0056522e-3), (8, 4.5921095e-3)])
def test_the_papers_grid_comes_within_a_grid_step_of_the_optimum(fast, p_fast):
    tasks = 10 if fast == 2 else 100
    planned = make_plan(worked(fast), goal(steps=1e4, free_step=True), tasks, "grid")
    assert abs(planned.plan.sampling[0] - p_fast) <= (1 / 90) / 51
    assert planned.plan.sampling[0] * 90 + planned.plan.sampling[1] * 10 == pytest.approx(1)


@pytest.mark.parametrize(
    ("fast", "tasks", "best", "at_100"), [(2, 19, 0.9401, 1.2991), (8, 14, 0.5616, 1.2031), (16, 10, 0.4835, 1.1983)]
)
def test_concurrency_in_physical_time(fast, tasks, best, at_100):
    fleet = worked(fast)
    planned = make_plan(fleet, goal(time=1000, free_step=True))
    assert planned.plan.concurrency == tasks
    assert planned.prediction.value == pytest.approx(best, abs=5e-5)
    uniform = goal(time=1000, free_step=True).predict(fleet, Plan.uniform(fleet, 100))
    assert uniform.value == pytest.approx(at_100, abs=5e-5)


def test_per_step_one_task_is_best():
    assert make_plan(worked(8), goal(steps=1e4)).plan.concurrency == 1


def test_throughput_of_the_published_fleet():
    uniform = analyze(FIVE_TYPES, Plan.uniform(FIVE_TYPES, 100))
    assert uniform.throughput == pytest.approx(7.40595, abs=5e-6)
    assert uniform.staleness() == pytest.approx([7.358, 33.914, 3.768, 229.634, 2.020], abs=5e-4)
    most = make_plan(FIVE_TYPES, goal(least="step time"), 100)
    assert most.prediction.analysis.throughput == pytest.approx(159.878, abs=0.0005)  # 159.9 to four digits
    # a maximum: the gradient is the same for all clients that are sampled, and smaller for those that are not
    slope = most.prediction.analysis.throughput_gradient()
    sampled = most.plan.sampling > 1e-6
    assert np.ptp(slope[sampled]) < 1e-3 * abs(slope[sampled]).max()
    assert slope[~sampled].max() < slope[sampled].min()


@pytest.mark.slow
def test_the_time_optimal_plan_of_the_published_fleet_is_no_worse_than_the_others():
    time = goal(epsilon=1.0, constants=EXTENSION)
    planned = make_plan(FIVE_TYPES, time)
    others = {
        "uniform": Plan.uniform(FIVE_TYPES, 100),
        "fewest rounds": make_plan(FIVE_TYPES, goal(epsilon=1.0, least="steps", constants=EXTENSION), 100).plan,
        "most throughput": make_plan(FIVE_TYPES, goal(least="step time"), 100).plan,
        "time, C = 91": make_plan(FIVE_TYPES, time, 91).plan,
    }
    values = {name: time.predict(FIVE_TYPES, plan).value for name, plan in others.items()}
    assert planned.prediction.value < min(values.values())
    assert values["uniform"] == pytest.approx(12034.6, abs=0.1)
    assert values["fewest rounds"] == pytest.approx(14699.7, abs=0.1)
    assert make_plan(FIVE_TYPES, time, 100).prediction.value == pytest.approx(11759.9, abs=0.1)
    assert planned.plan.concurrency == 48
    assert planned.prediction.value == pytest.approx(10965.288, abs=0.001)


def test_parking_is_found_and_named_and_the_symmetric_optimum_has_none():
    fleet = worked(8)
    objective = goal(steps=1e4, free_step=True)
    parked = make_plan(fleet, objective, 100, equal=False)
    symmetric = make_plan(fleet, objective, 100)
    assert parked.prediction.value < 0.94 * symmetric.prediction.value
    assert parked.prediction.analysis.throughput < 0.5 * symmetric.prediction.analysis.throughput
    assert parked.parked is not None
    assert parked.parked.startswith("parking: one client of 'slow-")
    assert 0.2 < parked.plan.sampling.max() < 0.4
    assert symmetric.parked is None
    assert np.ptp(symmetric.plan.sampling[1:]) == 0


def test_in_time_unequal_probabilities_for_equal_clients_gain_nothing():
    fleet = Fleet.of(fast=(6, 8.0), slow=(4, 1.0))
    objective = goal(time=1000)
    equal, unequal = make_plan(fleet, objective), make_plan(fleet, objective, equal=False)
    assert unequal.prediction.value == pytest.approx(equal.prediction.value, rel=1e-6)
    assert unequal.parked is None


def test_a_floor_keeps_everyone_sampled():
    most = make_plan(FIVE_TYPES, goal(least="step time"), 100, limits=Limits(floor=0.002))
    assert most.plan.sampling.min() == pytest.approx(0.002, rel=1e-6)
    assert most.plan.sampling.min() >= 0.002
