"""Objectives: every score's gradient is its slope, at free and clipped steps, with links, a server and weights."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from any_fleet import linked_fleet
from sojourn import Constants, Fleet, InvalidInput, Plan, goal
from sojourn.planning.bound.objective import NetworkObjective, client_weights
from sojourn.planning.bound.scores import StepBudget, TimeBudget, TimeOfStep, ToEpsilon

ANY = settings(max_examples=40)
STEP = 1e-4
APART = Constants(A=2.0, L=1.5, sigma2=1.0, G2=2.0, R2=9.0)
SCORES = {
    "steps": StepBudget(500, Constants(A=3, L=1, B=2), free_step=True),
    "steps, clipped": StepBudget(2, Constants(A=300, L=1, B=0.1)),
    "time": TimeBudget(300, Constants(A=3, L=1, B=2), free_step=True),
    "time, clipped": TimeBudget(2, Constants(A=300, L=2, B=0.1)),
    "epsilon": ToEpsilon(0.3, Constants(A=3, L=1, B=2), free_step=True),
    "epsilon, clipped": ToEpsilon(30.0, Constants(A=300, L=1, B=0.1, rho2=0.0)),
    "epsilon in steps": ToEpsilon(0.3, Constants(A=3, L=1, B=2), 1.0, 0.0),
    "energy": ToEpsilon(0.3, Constants(A=3, L=1, B=2), 0.0, 0.0, 1.0),
    "communication": ToEpsilon(0.5, APART),
    "communication, mixed": ToEpsilon(0.5, APART, 0.1, 0.3, 0.6),
    "step time": TimeOfStep(),
    "strong growth": StepBudget(5, Constants(A=300, L=1, sigma2=0.1, G2=0.1, rho2=2.0)),
}


@st.composite
def cases(draw):
    some = st.floats(0.2, 5)
    fleet, column = linked_fleet(draw, some, least=2, powers=True)
    plan = Plan.weighted(fleet, column(some), concurrency=draw(st.integers(1, 12)))
    server = draw(st.one_of(st.none(), st.floats(1, 20)))
    return fleet, plan, column(some), server


@pytest.mark.slow
@pytest.mark.parametrize("reading", ["indicator", "conditional"])
@pytest.mark.parametrize("name", SCORES)
@ANY
@given(case=cases())
def test_the_gradient_is_the_slope_when_probability_moves_from_one_group_to_another(name, reading, case):
    fleet, plan, weights, server = case
    objective = NetworkObjective(SCORES[name], weights, reading, server, server_power=2.0)

    def value(shift):
        moved = plan.sampling.copy()
        moved[0] += shift / fleet.count[0]
        moved[1] -= shift / fleet.count[1]
        return objective.predict(fleet, Plan(fleet.name, fleet.count, moved, plan.concurrency)).value

    gradient = objective.predict(fleet, plan, gradient=True).gradient
    along = gradient[0] - gradient[1]
    room = STEP * min(plan.sampling[:2] * fleet.count[:2])
    near, far = value(room) - value(-room), value(2 * room) - value(-2 * room)
    slope = (8 * near - far) / (12 * room)
    scale = value(0.0) / plan.sampling.min()
    # the two step limits meet in a kink, where there is no slope
    assume(abs(near / 2 - far / 4) < 1e-5 * abs(near) + 1e-12 * scale * room)
    assert along == pytest.approx(slope, rel=2e-5, abs=1e-7 * scale)


@pytest.mark.parametrize("name", ["steps, clipped", "time, clipped", "epsilon, clipped"])
def test_the_clipped_cases_are_clipped_and_the_free_ones_are_not(name):
    fleet = Fleet.of(a=(2, 1.0), b=(3, 2.0))
    scored = NetworkObjective(SCORES[name]).predict(fleet, Plan.uniform(fleet, 5)).scored
    assert scored.step_size == scored.largest_step_size < scored.free_step_size
    assert scored.proven
    free = NetworkObjective(SCORES[name.partition(",")[0]]).predict(fleet, Plan.uniform(fleet, 5)).scored
    assert free.step_size == free.free_step_size


def test_a_plan_with_a_step_size_is_judged_with_it():
    fleet = Fleet.of(a=(2, 1.0), b=(3, 2.0))
    for objective in (goal(time=100), goal(steps=100), goal(epsilon=1.0)):
        best = objective.predict(fleet, Plan.uniform(fleet, 5))
        same = objective.predict(fleet, Plan.uniform(fleet, 5, best.scored.step_size))
        assert same.value == pytest.approx(best.value, rel=1e-12)
        assert objective.predict(fleet, Plan.uniform(fleet, 5, best.scored.step_size / 2)).value > best.value
    beyond = goal(time=100).predict(fleet, Plan.uniform(fleet, 5, 10.0))
    assert not beyond.scored.proven
    assert goal(epsilon=1.0).predict(fleet, Plan.uniform(fleet, 5, 10.0)).value == np.inf


def test_weights_are_shares_of_all_clients():
    fleet = Fleet(("a", "b"), [3, 1], [1.0, 2.0], data_size=[10.0, 30.0])
    assert client_weights(fleet).tolist() == [0.25, 0.25]
    assert client_weights(fleet, "data").tolist() == [10 / 60, 0.5]
    assert client_weights(fleet, [1.0, 2.0]).tolist() == [0.2, 0.4]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("size", "weights must be equal, data or numbers, got 'size'"),
        ("data", "weights by data need the data size of every group, 'a' has none"),
        ([1.0], "one value for each of 2 groups, got 1"),
        ([1.0, 0.0], "weights must be positive and finite"),
    ],
)
def test_weights_that_make_no_sense_are_refused(weights, message):
    with pytest.raises(InvalidInput, match=message):
        client_weights(Fleet.of(a=(3, 1.0), b=(1, 2.0)), weights)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({}, "a plan needs a goal, got none; give a budget"),
        ({"time": 1, "steps": 1}, "budgets time and steps exclude each other"),
        ({"time": -1}, "time must be positive and finite, got -1"),
        ({"steps": 0}, "steps must be positive and finite, got 0"),
        ({"epsilon": float("inf")}, "epsilon must be positive and finite, got inf"),
        ({"epsilon": 1, "least": "money"}, "least time, steps or energy, got 'money'"),
        (
            {"time": 1, "least": "energy"},
            "'energy' cannot be combined with a budget of time; leave out one of them, or give",
        ),
        ({"time": 1, "least": "step time"}, "'throughput' cannot be combined with a budget of time"),
    ],
)
def test_goals_that_make_no_sense_are_refused(wanted, message):
    with pytest.raises(InvalidInput, match=message):
        goal(**wanted)


def test_energy_needs_powers():
    fleet = Fleet(("a", "b"), [1, 1], [1.0, 2.0], power=[1.0, np.nan])
    with pytest.raises(InvalidInput, match="an energy objective needs the powers of every group, 'b' lacks one"):
        goal(epsilon=1, least="energy").predict(fleet, Plan.uniform(fleet, 2))
    assert np.isnan(goal(epsilon=1).predict(fleet, Plan.uniform(fleet, 2)).scored.energy)


@pytest.mark.parametrize(("power", "rate"), [(-1.0, 2.0), (np.nan, 2.0), (5.0, None)])
def test_a_servers_power_must_make_sense(power, rate):
    with pytest.raises(InvalidInput, match="server_power"):
        goal(epsilon=1, least="energy", server_power=power, server_rate=rate)


@pytest.mark.parametrize(
    "objective",
    [
        goal(time=1e308),
        goal(steps=10**300),
        goal(epsilon=1e-300),
        goal(epsilon=1e300),
        goal(time=1, constants=Constants(A=1e200, L=1e200, B=1e200)),
        goal(time=1, constants=Constants(A=1e-300, L=1e-300, B=1e-300)),
    ],
)
def test_numbers_beyond_computing_are_refused_with_the_way_out(objective):
    fleet = Fleet.of(a=(90, 8.0), b=(10, 1.0))
    with pytest.raises(InvalidInput, match=r"too large or too small to compute with .* choose other units"):
        objective.predict(fleet, Plan.uniform(fleet, 20))


def test_the_prices_of_epsilon_must_make_sense():
    with pytest.raises(InvalidInput, match="must not be negative, and one must be positive"):
        ToEpsilon(1.0, per_time=0.0)
    with pytest.raises(InvalidInput, match="must not be negative"):
        ToEpsilon(1.0, per_energy=-1.0)


@pytest.mark.parametrize("wanted", [{"free_step": True}, {"reading": "conditional"}])
def test_the_communication_aware_bound_has_no_step_and_one_reading(wanted):
    with pytest.raises(InvalidInput, match="has no step size, no conditional reading and no strong growth"):
        goal(epsilon=1.0, constants=APART, **wanted)
