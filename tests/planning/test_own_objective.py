"""Objectives of one's own: planned with as they are, refused where something is missing."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from sojourn import Fleet, InvalidInput, Plan, make_plan
from sojourn.planning.bound.objective import NetworkObjective, Seen
from sojourn.planning.bound.own import ByValue, as_objective, own_objective
from sojourn.planning.bound.scores import TimeBudget, TimeOfStep

FLEET = Fleet.of(fast=(6, 4.0), slow=(4, 1.0))
EXAMPLES = Path(__file__).parents[2] / "examples" / "extending"


@dataclass(frozen=True)
class StepTime:
    """The package's TimeOfStep, written as a stranger would."""

    unit: float = 1.0
    name = "time of a step"

    def value(self, seen, concurrency):
        return self.unit / seen.throughput


def test_a_value_alone_plans_as_a_score_with_slopes_does():
    ours = make_plan(FLEET, NetworkObjective(TimeOfStep()), concurrency=10)
    theirs = make_plan(FLEET, StepTime(), concurrency=10)
    assert theirs.prediction.value == pytest.approx(ours.prediction.value, rel=1e-6)
    assert theirs.plan.sampling == pytest.approx(ours.plan.sampling, rel=1e-2)
    assert theirs.plan.objective == "time of a step"


def test_slopes_by_differences_are_those_of_the_formula():
    seen = Seen(S1=1.3, S2=40.0, throughput=7.0, energy=np.nan)
    scored = ByValue(StepTime(2.0)).score(seen, 10)
    assert scored.value == 2.0 / 7.0
    assert scored.slopes == pytest.approx(Seen(0.0, 0.0, -2.0 / 49.0, 0.0), rel=1e-6)


def test_a_score_with_slopes_and_a_prediction_are_taken_as_they_are():
    score = TimeBudget(100.0)
    made = as_objective(score, server_rate=20.0)
    assert isinstance(made, NetworkObjective)
    assert made.score is score
    assert made.server_rate == 20.0
    assert as_objective(made) is made


def test_an_objective_is_named_by_where_it_is_with_its_options():
    made = own_objective(f"{__name__}:StepTime(unit=3)", server_rate=20.0)
    assert isinstance(made, NetworkObjective)
    assert made.score == ByValue(StepTime(3.0))
    assert made.server_rate == 20.0
    plan = Plan.uniform(FLEET, 10)
    assert made.predict(FLEET, plan).value == pytest.approx(
        3 * as_objective(StepTime(), server_rate=20.0).predict(FLEET, plan).value
    )


class Nameless:
    def value(self, seen, concurrency):
        return 1.0


class Empty:
    name = "nothing"


class NoEnergy:
    name = "half a score"

    def score(self, seen, concurrency, step_size=None):
        raise AssertionError


class Never:
    name = "never"

    def value(self, seen, concurrency):
        return float("nan")


@pytest.mark.parametrize(
    ("objective", "sentence"),
    [
        (Nameless(), "objective Nameless does not define name"),
        (Empty(), r"objective Empty does not define value\(seen, concurrency\), score.* or predict"),
        (NoEnergy(), "objective NoEnergy does not define needs_energy"),
        (StepTime, r"must be an object, got the class StepTime; write StepTime\(\)"),
        (Never(), "objective 'never': value must be finite, got nan"),
        (7, "objective int does not define name .* and value"),
    ],
)
def test_what_an_objective_does_not_define_is_reported_before_anything_is_planned(objective, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        make_plan(FLEET, objective, concurrency=10)
