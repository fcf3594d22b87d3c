"""Plans: probabilities that sum to one, their file, and the fleet they belong to."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn import Fleet, InvalidInput, Plan, UnreadableFile

ANY = settings(max_examples=100)
FLEET = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))
GIVEN = {
    "sojourn_plan": 1,
    "concurrency": 4,
    "groups": [{"name": "fast", "count": 5, "sampling": 0.1}, {"name": "slow", "count": 5, "sampling": 0.1}],
}

weights = st.floats(1e-3, 1e3)
finite = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def plans(draw):
    groups = draw(st.integers(1, 5))
    count = np.array(draw(st.lists(st.integers(1, 10**6), min_size=groups, max_size=groups)))
    weight = np.array(draw(st.lists(weights, min_size=groups, max_size=groups)))
    return Plan(
        name=tuple(draw(st.lists(st.text(min_size=1, max_size=5), min_size=groups, max_size=groups, unique=True))),
        count=count,
        sampling=weight / (count * weight).sum(),
        concurrency=draw(st.integers(1, 10**9)),
        step_size=draw(st.none() | st.floats(min_value=0, exclude_min=True, allow_infinity=False)),
        objective=draw(st.none() | st.text(max_size=5)),
        fleet_hash=draw(st.none() | st.text("0123456789abcdef", min_size=16, max_size=16)),
        promises=draw(st.dictionaries(st.text(max_size=5), json_values, max_size=3)),
    )


def write(folder, content):
    path = folder / "plan.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


@ANY
@given(counts=st.lists(st.integers(1, 10**6), min_size=1, max_size=5), data=st.data())
def test_weights_become_probabilities_that_sum_to_one_over_all_clients(counts, data):
    fleet = Fleet(tuple("abcde"[: len(counts)]), counts, np.ones(len(counts)))
    weight = np.array(data.draw(st.lists(weights, min_size=len(counts), max_size=len(counts))))
    plan = Plan.weighted(fleet, weight, concurrency=3)
    assert (plan.count * plan.sampling).sum() == pytest.approx(1, rel=1e-12)
    assert plan.sampling / plan.sampling[0] == pytest.approx(weight / weight[0], rel=1e-12)


def test_a_uniform_plan_gives_every_client_one_over_n():
    fleet = Fleet.of(a=(1, 3.0), b=(3, 1.0))
    assert Plan.uniform(fleet, concurrency=2).sampling.tolist() == [0.25, 0.25]


def test_a_plan_by_speed_follows_the_rates():
    fleet = Fleet.of(a=(1, 5.0), b=(3, 1.0))
    # weights 5 and 1, 1, 1 over 8
    assert Plan.by_speed(fleet, concurrency=2).sampling.tolist() == [0.625, 0.125]


def test_probabilities_are_given_by_the_name_of_the_group():
    plan = Plan.of(FLEET, {"slow": 0.1925, "fast": 0.0075}, concurrency=1000, step_size=0.5)
    assert plan.sampling.tolist() == [0.0075, 0.1925]
    assert (plan.concurrency, plan.step_size, plan.fleet_hash) == (1000, 0.5, FLEET.hash)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampling": [0.1, 0.09]}, r"sampling must sum to 1 over all 10 clients, got 0\.95; .*use Plan\.weighted"),
        ({"sampling": [0.5, 0.5]}, r"sampling must sum to 1 .* got 5; give each client's probability \(not the group"),
        ({"sampling": [0.2, 0.0]}, r"sampling of group 'slow' must be a positive probability, got 0\.0; .*must leave"),
        ({"sampling": [-0.1, 0.3]}, r"sampling of group 'fast' must be a positive probability, got -0\.1"),
        ({"sampling": [0.1, math.nan]}, "sampling of group 'slow' must be a positive probability, got nan"),
        ({"sampling": [0.1]}, "name, count and sampling must have one value for each group, got 2, 2 and 1 values"),
        ({"count": [9e18, 9e18]}, r"a fleet can have at most 1e\+17 clients, got 1.8e\+19"),
        ({"count": [5, 5.5]}, r"count must hold whole numbers, got \[5.0, 5.5\]"),
        ({"count": [5, 0]}, r"count must hold whole numbers of at least 1, got \[5, 0\]"),
        ({"concurrency": 0}, "concurrency must be a whole number from 1 to 1,000,000,000, got 0"),
        ({"concurrency": -1}, "concurrency must be a whole number .*, got -1"),
        ({"concurrency": 10**9 + 1}, "concurrency must be a whole number .*, got 1000000001"),
        ({"concurrency": 2.0}, r"concurrency must be a whole number .*, got 2\.0"),
        ({"concurrency": True}, "concurrency must be a whole number .*, got True"),
        ({"step_size": 0.0}, r"step_size must be positive and finite, got 0\.0; leave it out if unknown"),
        ({"step_size": math.inf}, "step_size must be positive and finite, got inf"),
        ({"step_size": math.nan}, "step_size must be positive and finite, got nan"),
    ],
)
def test_a_wrong_plan_is_refused_with_the_rule_the_value_and_the_way_out(changes, message):
    facts = {"name": FLEET.name, "count": FLEET.count, "sampling": [0.1, 0.1], "concurrency": 4, **changes}
    with pytest.raises(InvalidInput, match=message):
        Plan(**facts)


def test_probabilities_by_name_must_name_every_group_and_no_other():
    with pytest.raises(InvalidInput, match=r"sampling must name every group, 'slow' is missing; add slow=\.\.\."):
        Plan.of(FLEET, {"fast": 0.2}, concurrency=4)
    with pytest.raises(InvalidInput, match="the fleet has no group 'medium'; its groups are fast, slow"):
        Plan.of(FLEET, {"fast": 0.1, "slow": 0.1, "medium": 0.1}, concurrency=4)


def test_there_is_one_weight_for_each_group():
    with pytest.raises(InvalidInput, match="weights must have one value for each of 2 groups, got 3"):
        Plan.weighted(FLEET, [1, 2, 3], concurrency=4)


def test_a_plan_fits_the_fleet_it_was_made_for_and_no_other():
    plan = Plan.uniform(FLEET, concurrency=4)
    plan.check(FLEET)
    other = FLEET.with_rates([1.2, 1.1])
    message = rf"made for fleet {FLEET.hash}, this is fleet {other.hash}; make a new plan, or remove fleet_hash"
    with pytest.raises(InvalidInput, match=message):
        plan.check(other)
    with pytest.raises(InvalidInput, match="the plan's groups must be those of the fleet, got others"):
        plan.check(Fleet.of(fast=(5, 1.2), slow=(6, 1.0)))
    with pytest.raises(InvalidInput, match="the plan's groups must be those of the fleet, got others"):
        plan.check(Fleet.of(fast=(5, 1.2), late=(5, 1.0)))


def test_a_plan_without_a_fingerprint_fits_any_fleet_with_its_groups(tmp_path):
    path = tmp_path / "plan.json"
    Plan.uniform(FLEET, concurrency=4).save(path)
    content = json.loads(path.read_text("utf-8"))
    del content["fleet_hash"]
    Plan.load(write(tmp_path, content)).check(FLEET.with_rates([3.0, 4.0]))


@pytest.mark.slow
@ANY
@given(plan=plans())
def test_saving_and_loading_gives_the_same_plan_to_the_last_bit(tmp_path_factory, plan):
    path = tmp_path_factory.getbasetemp() / "any-plan.json"
    plan.save(path)
    loaded = Plan.load(path)
    assert loaded == plan
    assert loaded.hash == plan.hash
    assert loaded.sampling.tobytes() == plan.sampling.tobytes()
    assert (loaded.step_size, loaded.objective) == (plan.step_size, plan.objective)
    assert (loaded.fleet_hash, loaded.promises) == (plan.fleet_hash, plan.promises)


def test_a_plan_written_by_hand_needs_only_groups_and_concurrency(tmp_path):
    plan = Plan.load(write(tmp_path, GIVEN))
    assert plan.sampling.tolist() == [0.1, 0.1]
    assert (plan.step_size, plan.objective, plan.fleet_hash, plan.promises) == (None, None, None, {})


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"concurrency": 5}, True),
        ({"step_size": 0.1}, True),
        ({"sampling": [0.15, 0.05]}, True),
        ({"name": ("fast", "late")}, True),
        ({"objective": "time"}, False),
        ({"fleet_hash": "0" * 16}, False),
        ({"promises": {"throughput": 1.0}}, False),
    ],
)
def test_the_fingerprint_covers_the_decisions_and_equality_covers_all(change, differs):
    facts = {"name": FLEET.name, "count": FLEET.count, "sampling": [0.1, 0.1], "concurrency": 4}
    plan, changed = Plan(**facts), Plan(**{**facts, **change})
    assert (plan.hash != changed.hash) is differs
    assert plan != changed
    assert plan == Plan(**facts)
    assert hash(plan) == hash(Plan(**facts))


def test_the_arrays_of_a_plan_cannot_be_changed():
    plan = Plan.uniform(FLEET, concurrency=4)
    with pytest.raises(ValueError, match="read-only"):
        plan.sampling[0] = 1.0
    assert plan != "plan"


@pytest.mark.parametrize("kept", [0, 1, 40, 200, -2])
def test_a_truncated_plan_file_is_refused(tmp_path, kept):
    path = tmp_path / "plan.json"
    Plan.uniform(FLEET, concurrency=4).save(path)
    path.write_text(path.read_text("utf-8").rstrip()[:kept], "utf-8")
    with pytest.raises(UnreadableFile, match=r"plan file .*plan\.json is not valid JSON \(.*\); is it truncated\?"):
        Plan.load(path)


@pytest.mark.parametrize("content", [{"groups": []}, [1, 2], "text", 3, None])
def test_json_that_is_not_a_plan_is_refused(tmp_path, content):
    path = write(tmp_path, json.dumps(content))
    with pytest.raises(UnreadableFile, match="is not a sojourn plan: the key 'sojourn_plan' is missing"):
        Plan.load(path)


def test_a_plan_of_a_newer_sojourn_is_refused_with_the_way_out(tmp_path):
    path = write(tmp_path, {**GIVEN, "sojourn_plan": 2})
    with pytest.raises(UnreadableFile, match="has schema 2, this sojourn reads 1; update sojourn"):
        Plan.load(path)


@pytest.mark.parametrize("key", ["groups", "concurrency"])
def test_a_plan_file_without_a_key_is_refused_by_name(tmp_path, key):
    path = write(tmp_path, {name: value for name, value in GIVEN.items() if name != key})
    with pytest.raises(InvalidInput, match=rf"plan file .*: key '{key}' is required and missing; add it"):
        Plan.load(path)


@pytest.mark.parametrize("key", ["name", "count", "sampling"])
def test_a_group_without_a_key_is_refused_by_name(tmp_path, key):
    group = {name: value for name, value in GIVEN["groups"][0].items() if name != key}
    path = write(tmp_path, {**GIVEN, "groups": [group]})
    with pytest.raises(InvalidInput, match=rf"key '{key}' is required and missing; add it"):
        Plan.load(path)


def test_a_plan_file_that_breaks_a_rule_is_refused_with_its_path(tmp_path):
    path = write(tmp_path, {**GIVEN, "concurrency": 1.5})
    with pytest.raises(InvalidInput, match=r"plan file .*plan\.json: concurrency must be a whole number .*, got 1\.5"):
        Plan.load(path)


@pytest.mark.parametrize("change", [{"groups": 7}, {"groups": ["fast"]}, {"step_size": "small"}])
def test_a_value_of_the_wrong_kind_in_a_plan_file_is_refused(tmp_path, change):
    path = write(tmp_path, {**GIVEN, **change})
    with pytest.raises(UnreadableFile, match=r"plan file .* has a value of the wrong kind: "):
        Plan.load(path)


def test_a_plan_file_that_is_not_there_or_a_folder_or_no_text_is_named(tmp_path):
    with pytest.raises(UnreadableFile, match=r"plan file .*none\.json does not exist; check the path"):
        Plan.load(tmp_path / "none.json")
    with pytest.raises(UnreadableFile, match="is a folder; name the file in it"):
        Plan.load(tmp_path)
    (tmp_path / "plan.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UnreadableFile, match="is not UTF-8 text; save it as UTF-8"):
        Plan.load(tmp_path / "plan.json")
