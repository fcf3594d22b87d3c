"""Theory beside simulation: which is larger, and why."""

import numpy as np
import pytest

from sojourn import Fleet, Plan, analyze, measure
from sojourn.cli.simulation_words import errors_apart, theory_is, why

FLEET = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))
PLAN = Plan.uniform(FLEET, 20)


@pytest.fixture(scope="module")
def summary():
    return measure(FLEET, PLAN, 20_000, seed=3, replications=12)


@pytest.mark.parametrize(
    ("theory", "simulated", "words"),
    [
        (89, 100, "11% lower"),
        (111, 100, "11% higher"),
        (101, 100, "1.00% higher"),
        (100, 100, "the same"),
        (1, 0, "-"),
        (1, np.nan, "-"),
    ],
)
def test_the_theory_is_said_to_be_higher_or_lower(theory, simulated, words):
    assert theory_is(theory, simulated) == words


def test_a_promise_is_missed_by_standard_errors_to_one_side():
    assert errors_apart(-2.125) == "2.12 standard errors lower"
    assert errors_apart(4.0) == "4 standard errors higher"
    assert errors_apart(np.nan) == "-"


def test_chance_can_explain_what_lies_within_three_standard_errors(summary):
    assert why(summary, analyze(FLEET, PLAN), [], False).startswith("chance can explain the differences")


def test_a_theory_of_another_system_is_named_as_the_reason(summary):
    other = analyze(Fleet.of(fast=(5, 2.4), slow=(5, 1.0)), PLAN.uniform(Fleet.of(fast=(5, 2.4), slow=(5, 1.0)), 20))
    said = why(summary, other, ["the theory assumes exponential service"], False)
    assert said.startswith("chance does not explain the differences, up to ")
    assert said.endswith("the theory describes another system, see below")
    assert why(summary, other, [], True).endswith("the run is too short, see below")
    assert why(summary, other, [], False).endswith("no reason is known; try another --seed and more --steps")
