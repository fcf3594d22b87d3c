"""What a frozen object holds cannot be changed, not after pickling or copying either, and costs no copy."""

import copy
import pickle
from dataclasses import fields

import numpy as np
import pytest

from sojourn import Fleet, Plan, Trace, analyze, make_plan, simulate
from sojourn.frozen import ReadOnly
from sojourn.planning.bound.goal import goal
from sojourn.trace import COLUMNS

FLEET = Fleet.of(fast=(3, 4.0), slow=(2, 1.0))
PLAN = make_plan(FLEET, goal(time=100.0)).plan
TRACE = simulate(FLEET, Plan.uniform(FLEET, concurrency=5), steps=50, seed=1)
OBJECTS = {"fleet": FLEET, "plan": PLAN, "trace": TRACE, "analysis": analyze(FLEET, PLAN)}
WAYS = {
    "itself": lambda one: one,
    "pickled": lambda one: pickle.loads(pickle.dumps(one)),
    "copied": copy.copy,
    "copied deeply": copy.deepcopy,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", OBJECTS)
def test_no_array_of_it_can_be_written(name, way) -> None:
    one = WAYS[way](OBJECTS[name])
    arrays = [getattr(one, field.name) for field in fields(one)]
    arrays = [array for array in arrays if isinstance(array, np.ndarray)]
    assert arrays
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "key"), [("plan", "promises"), ("trace", "metadata")])
def test_no_mapping_of_it_can_be_written(name, key, way) -> None:
    one = WAYS[way](OBJECTS[name])
    mapping = getattr(one, key)
    assert one == OBJECTS[name]
    for change in (
        lambda: mapping.__setitem__("seed", 7),
        lambda: mapping.update(seed=7),
        lambda: mapping.pop("seed", None),
        lambda: mapping.setdefault("more", 7),
        mapping.clear,
        mapping.popitem,
    ):
        with pytest.raises(TypeError, match="cannot change"):
            change()
    with pytest.raises(TypeError, match="cannot change"):
        mapping |= {"seed": 7}


def test_lists_inside_a_plans_promises_cannot_be_written() -> None:
    with pytest.raises(TypeError):
        PLAN.promises["staleness"][0] = 0.0


def test_columns_are_not_copied_and_whoever_gave_them_may_still_write() -> None:
    given = {key: np.array(getattr(TRACE, key)) for key in COLUMNS}
    trace = Trace(**given)
    for key, array in given.items():
        assert np.shares_memory(array, getattr(trace, key))
        assert array.flags.writeable


def test_a_mapping_can_be_changed_once_it_is_a_dict() -> None:
    mine = dict(ReadOnly(a=1)) | {"b": 2}
    mine["a"] = 3
    assert mine == {"a": 3, "b": 2}
