"""The robust policy, and what is usual beside it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sojourn
from sojourn import Fleet, Plan, analyze
from sojourn.errors import InvalidInput
from sojourn.planning.advice import advise, robust_policy
from sojourn.planning.policy import Wishes, robust

FLEET = Fleet.of(fast=(90, 8.0), slow=(10, 1.0))


def row(advice, name):
    return next(row for row in advice.rows if name in row.policy.name)


def test_the_answer_without_data_is_one_task_per_client_half_corrected_and_decaying():
    plan = robust(FLEET)
    assert (plan.concurrency, plan.one_each, plan.correction) == (100, True, 0.5)
    assert (plan.schedule, plan.step_size, plan.buffer) == ("linear(end=budget)", None, None)


def test_its_throughput_shares_and_staleness_are_exact():
    promises = advise(FLEET, 1000).plan.promises
    assert promises["throughput"] == pytest.approx(730, rel=1e-12)
    assert promises["staleness"] == pytest.approx([90.25, 729], rel=1e-9)
    assert promises["share"] == pytest.approx([8 / 730, 1 / 730], rel=1e-12)
    assert promises["steps"] == pytest.approx(730_000, rel=1e-12)


def test_policies_stand_side_by_side_with_what_the_same_time_is_worth():
    found = advise(FLEET, "1h")
    names = [one.policy.name for one in found.rows]
    assert [name.split()[0].rstrip(",:") for name in names] == [
        "robust",
        "idle",
        "routed",
        "AsyncSGD",
        "FedBuff",
        "the",
    ]
    assert row(found, "AsyncSGD").updates == pytest.approx(3600 * analyze(FLEET, Plan.uniform(FLEET, 100)).throughput)
    assert row(found, "idle").idle == pytest.approx(50)
    assert row(found, "robust").idle == row(found, "robust").waiting == 0
    assert row(found, "FedBuff").steps == pytest.approx(row(found, "FedBuff").updates / 10)
    assert row(found, "AsyncSGD").waiting > 80
    assert row(found, "paper's").policy.plan.concurrency < 20


def test_the_reasons_speak_of_this_fleet():
    said = " ".join(advise(FLEET, 1000).why)
    assert "8.04 times as many updates" in said
    assert "8 times as fast as the slowest" in said
    assert "correction of 1/2 or more" in said
    same = " ".join(advise(Fleet.of(all=(10, 1.0)), 1000).why)
    assert "All clients are about equally fast" in same
    (alone,) = [one for one in advise(Fleet.of(all=(1, 1.0)), 1000).why if "correction" in one]
    assert alone == "The fleet is a single client, so the correction does not matter."


def test_a_time_too_short_for_one_update_per_client_is_warned_of():
    assert advise(FLEET, 0.1).why[0] == (
        "Warning: about 73 updates are expected in 0.1 s, fewer than one per client: allow more time."
    )
    assert not any("Warning" in one for one in advise(FLEET, 1).why)


def test_wishes_are_kept():
    assert robust(FLEET, Wishes(concurrency=30)).concurrency == 30
    assert robust(FLEET, Wishes(most_tasks=30)).concurrency == 30
    assert robust(FLEET, Wishes(most_tasks=3000)).concurrency == 100
    assert robust(FLEET, Wishes(correction=1.0)).correction == 1
    assert robust(FLEET, Wishes(correction=0.0)).correction == 0
    assert np.isinf(robust(FLEET, Wishes(cap=None)).cap).all()


@settings(max_examples=20)
@given(st.floats(1, 1000))
def test_the_most_tasks_are_taken_with_which_nobody_is_staler_than_allowed(limit):
    plan = robust(FLEET, Wishes(most_staleness=limit))
    assert analyze(FLEET, plan).staleness().max() <= limit
    if plan.concurrency < 100:
        more = Plan.uniform(FLEET, plan.concurrency + 1, cap=1)
        assert analyze(FLEET, more).staleness().max() > limit


def test_a_number_of_tasks_and_a_staleness_that_exclude_each_other_are_refused():
    with pytest.raises(InvalidInput, match="with 100 tasks in flight the stalest client has a mean staleness of 729"):
        robust(FLEET, Wishes(concurrency=100, most_staleness=50))


def test_the_door_takes_a_time_or_an_objective():
    assert sojourn.make_plan(FLEET, time="1 min").time == 60
    assert sojourn.make_plan(FLEET, time=5, concurrency=7).plan.concurrency == 7
    with pytest.raises(InvalidInput, match="make_plan needs a time"):
        sojourn.make_plan(FLEET)
    with pytest.raises(InvalidInput, match="got both"):
        sojourn.make_plan(FLEET, sojourn.goal(time=5), time=5)
    with pytest.raises(InvalidInput, match="has no setting 'search'"):
        sojourn.make_plan(FLEET, time=5, search="grid")
    with pytest.raises(InvalidInput, match="time must be positive and finite"):
        sojourn.make_plan(FLEET, time=0)


@pytest.mark.parametrize("fleet", [Fleet.of(one=(1, 2.0)), Fleet.of(two=(2, 2.0)), Fleet.of(a=(3, 1.0), b=(1, 1e-6))])
def test_small_and_odd_fleets_get_a_plan_too(fleet):
    found = advise(fleet, 10)
    assert found.plan.concurrency == fleet.clients
    assert all(np.isfinite(one.updates) for one in found.rows)


def test_a_million_clients_are_planned_for():
    found = advise(Fleet.of(phones=(900_000, 0.01), tablets=(100_000, 0.1)), "1 day")
    assert found.plan.concurrency == 1_000_000
    assert found.plan.promises["throughput"] == pytest.approx(19_000)


def linked(travel):
    """Ten clients whose tasks travel so many times as long as they are worked on."""
    return replace(Fleet.of(all=(10, 1.0)), uplink_rate=[2 / travel], downlink_rate=[2 / travel])


@pytest.mark.parametrize(("travel", "held"), [(0.01, 1), (0.4, 1), (1.0, 2), (2.6, 3), (20.0, 3)])
def test_the_longer_tasks_travel_the_more_of_them_a_client_holds(travel, held):
    plan = robust(linked(travel))
    assert (plan.concurrency, set(plan.cap)) == (10 * held, {held})


def test_what_the_user_decides_stays_where_tasks_travel():
    fleet = linked(2.6)
    assert robust(fleet, Wishes(cap=1)).concurrency == 10
    assert robust(fleet, Wishes(concurrency=7)).one_each
    assert robust(fleet, Wishes(most_tasks=10)).one_each
    assert robust(fleet, Wishes(most_tasks=15)).concurrency == 15
    assert robust(fleet, Wishes(most_staleness=4.5)).concurrency == 5


@pytest.mark.parametrize("travel", [0.4, 2.6])
def test_no_sentence_calls_tasks_a_waste_where_more_of_them_bring_in_more(travel):
    link = [1400 / travel]
    found = advise(replace(Fleet.of(all=(2, 700.0)), uplink_rate=link, downlink_rate=link), "2h")
    said = " ".join(found.why)
    assert max(row.updates for row in found.rows) > 1.05 * found.rows[0].updates
    assert "waste" not in said
    assert "More tasks would bring in more updates" in said
    assert ("as many updates as one task per client" in said) == (travel > 1)


@pytest.mark.parametrize(
    ("law", "cap", "assumed"),
    [("lognormal(sigma=1)", None, True), ("exponential", None, False), ("lognormal(sigma=1)", 1, False)],
)
def test_figures_that_assume_exponential_service_for_other_laws_say_so(law, cap, assumed):
    fleet = replace(linked(2.6), law=[law])
    wishes = None if cap is None else Wishes(cap=cap)
    said = " ".join(advise(fleet, "1h", wishes).why)
    assert ("these figures assume exponential service" in said) == assumed


def test_the_policy_is_named_after_how_many_tasks_a_client_may_hold():
    assert robust_policy(linked(0.01)).name == "robust: nobody waits"
    assert robust_policy(linked(2.6)).name == "robust: at most 3 each"
    assert robust_policy(FLEET, Wishes(cap=None)).name == "robust: any number each"
    assert robust_policy(FLEET, Wishes(cap=4)).name == "robust: at most 4 each"


def test_travel_is_a_part_of_the_time_of_tasks_and_not_of_groups():
    fleet = replace(Fleet.of(fast=(1, 9.0), slow=(1, 1.0)), uplink_rate=[1.0, 1e9], downlink_rate=[1e9, 1e9])
    advice = advise(fleet, "1h", Wishes(cap=1))
    share = np.asarray(
        advice.plan.promises["share"]
    )  # of the updates: the slow client's task is as long as the other's
    travel = share[0] / (share[0] * 10 / 9 + share[1])
    assert f"Tasks are on links for {100 * travel:.2g}% of the time" in " ".join(advice.why)
