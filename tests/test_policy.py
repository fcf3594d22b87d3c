"""A plan carries a policy: caps, correction, buffer, schedule; in files, in words, in hashes."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import Fleet, InvalidInput, Plan, UnreadableFile, analyze
from sojourn.plan_text import plan_of

FLEET = Fleet.of(fast=(90, 8.0), slow=(10, 1.0))


def test_a_plan_without_a_policy_is_the_papers_and_has_the_hash_that_it_always_had():
    plan = Plan.uniform(FLEET, 50)
    assert np.isinf(plan.cap).all()
    assert (plan.capped, plan.one_each, plan.correction, plan.buffer, plan.schedule) == (False, False, None, None, None)
    assert plan.hash == "e9d8830c42993891"


def test_a_file_from_before_is_read_as_no_cap_and_no_correction_named(tmp_path):
    groups = [{"name": "fast", "count": 90, "sampling": 0.01}, {"name": "slow", "count": 10, "sampling": 0.01}]
    (tmp_path / "old.json").write_text(json.dumps({"sojourn_plan": 1, "concurrency": 50, "groups": groups}))
    plan = Plan.load(tmp_path / "old.json")
    assert (plan.capped, plan.correction) == (False, None)
    assert plan.hash == Plan.uniform(FLEET, 50).hash


@pytest.mark.parametrize("cap", [1, 3, [2, None], [1, 5], None])
def test_a_policy_is_written_and_read(tmp_path, cap):
    policy = {"correction": 0.5, "buffer": 3, "adaptive": True, "schedule": "linear(end=budget)"}
    plan = Plan(FLEET.name, FLEET.count, [0.01, 0.01], 50, cap=cap, **policy)
    plan.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json")
    assert again == plan
    assert again.cap.tolist() == plan.cap.tolist()
    assert json.loads((tmp_path / "plan.json").read_text())["cap"] == cap
    assert {key: getattr(again, key) for key in policy} == policy


def test_with_a_cap_sampling_is_a_weight_that_need_not_sum_to_one():
    with pytest.raises(InvalidInput, match="sampling must sum to 1"):
        Plan.of(FLEET, {"fast": 3.0, "slow": 1.0}, 50)
    weighted = Plan.of(FLEET, {"fast": 3.0, "slow": 1.0}, 50, cap=1)
    again = Plan.of(FLEET, {"fast": 0.3, "slow": 0.1}, 50, cap=1)
    assert analyze(FLEET, weighted).share == pytest.approx(analyze(FLEET, again).share)


def test_what_decides_the_timing_has_a_hash_of_its_own():
    plan = Plan.uniform(FLEET, 50, cap=1)
    named = Plan.uniform(FLEET, 50, 0.1, cap=1)
    corrected = Plan(FLEET.name, FLEET.count, plan.sampling, 50, cap=1, correction=0.5, fleet_hash=FLEET.hash)
    assert plan.timing_hash == named.timing_hash == corrected.timing_hash
    assert plan.timing_hash != Plan.uniform(FLEET, 50).timing_hash != Plan.uniform(FLEET, 50, cap=2).timing_hash
    assert len({plan.hash, named.hash, corrected.hash}) == 3


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cap": 0}, "cap of group 'fast' must be a whole number of at least 1, or none, got 0; 1 = nobody waits"),
        ({"cap": 1.5}, "cap of group 'fast' must be a whole number"),
        ({"cap": [1, 0]}, "cap of group 'slow' must be a whole number"),
        ({"cap": [1]}, "cap must be one number, or one for each of the 2 groups, got 1"),
        ({"cap": "one"}, "cap of group 'fast' must be a whole number .*, got 'one'"),
        ({"cap": float("nan")}, "cap of group 'fast' must be a whole number"),
        ({"correction": -0.5}, r"correction must be a number from 0 \(none\) to 2, got -0.5; 1 = unbiased"),
        ({"correction": float("nan")}, "correction must be a number from 0"),
        ({"buffer": 0}, "buffer must be a whole number of at least 1, got 0"),
    ],
)
def test_a_policy_that_is_not_one_is_refused(changes, said):
    with pytest.raises(InvalidInput, match=said):
        Plan(FLEET.name, FLEET.count, [0.01, 0.01], 50, **changes)


@pytest.mark.parametrize(("tasks", "cap"), [(101, 1), (201, 2), (191, [2, 1])])
def test_more_tasks_than_clients_may_hold_are_refused_in_one_sentence(tasks, cap):
    with pytest.raises(InvalidInput, match=f"at most the {tasks - 1} tasks that the clients may hold under the cap"):
        Plan.uniform(FLEET, tasks, cap=cap)
    assert Plan.uniform(FLEET, tasks - 1, cap=cap).concurrency == tasks - 1


def test_a_cap_in_words():
    assert plan_of(FLEET, None, None, 40, "1").one_each
    assert not plan_of(FLEET, None, None, 40, "none").capped
    assert plan_of(FLEET, None, None, 40, "slow=2").cap.tolist() == [np.inf, 2]
    assert plan_of(FLEET, "fast=5,slow=1", None, 40, "fast=1, slow=none").cap.tolist() == [1, np.inf]
    assert plan_of(FLEET, None, None, 40, None, correction=0.5).correction == 0.5
    for text, said in (("two", "cap must be a whole number, none, or"), ("middle=1", "no group 'middle'")):
        with pytest.raises(InvalidInput, match=said):
            plan_of(FLEET, None, None, 40, text)


def test_what_is_given_beside_a_plan_file_wins_over_it(tmp_path):
    Plan.uniform(FLEET, 40, cap=1).save(tmp_path / "plan.json")
    assert plan_of(FLEET, None, tmp_path / "plan.json", None).one_each
    assert plan_of(FLEET, None, tmp_path / "plan.json", None, "2").cap.tolist() == [2, 2]
    assert plan_of(FLEET, None, tmp_path / "plan.json", 20).concurrency == 20
    assert plan_of(FLEET, None, tmp_path / "plan.json", 20).one_each


def test_the_worked_example_with_nobody_waiting():
    found = analyze(FLEET, Plan.uniform(FLEET, 50, cap=1))
    assert found.throughput == pytest.approx(338.866946392, rel=1e-11)
    assert found.share == pytest.approx([0.0108247550824, 0.00257720425836], rel=1e-11)
    assert found.staleness() == pytest.approx([41.3808430202, 337.017362906], rel=1e-11)
    assert found.exact_for_any_law
    assert found.waiting.tolist() == [0, 0]


@given(st.integers(1, 30), st.sampled_from([1, 2, 3, None]), st.floats(0.2, 5))
def test_staleness_weighted_by_shares_is_one_less_than_the_tasks(tasks, cap, tilt):
    fleet = Fleet.of(fast=(20, 4.0), slow=(10, 0.5))
    found = analyze(fleet, Plan.weighted(fleet, [tilt, 1.0], tasks, cap=cap))
    assert (fleet.count * found.share).sum() == pytest.approx(1)
    assert (fleet.count * found.share * found.staleness()).sum() == pytest.approx(tasks - 1, abs=1e-9)


def test_a_busy_server_under_a_cap_is_refused_and_simulation_named():
    with pytest.raises(InvalidInput, match="under a cap there is no exact theory of a server that takes time"):
        analyze(FLEET, Plan.uniform(FLEET, 50, cap=1), server_rate=20.0)


def test_whether_stale_updates_count_less_is_true_false_or_open(tmp_path):
    plan = Plan.uniform(FLEET, 50)
    plan.save(tmp_path / "plan.json")
    content = json.loads((tmp_path / "plan.json").read_text())
    (tmp_path / "plan.json").write_text(json.dumps({**content, "adaptive": "often"}))
    with pytest.raises(UnreadableFile, match="adaptive must be true, false or null, got 'often'"):
        Plan.load(tmp_path / "plan.json")
