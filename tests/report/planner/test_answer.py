"""Answers of the planner page are those of analyze, make_plan and the twin; nonsense gets one sentence."""

import json
from dataclasses import replace

import numpy as np
import pytest
from planner_questions import FLEET, asked

import sojourn as sj
from sojourn.landscape import Landscape
from sojourn.planning.policy import Policy
from sojourn.planning.search import FLOOR, TIE
from sojourn.planning.twin.quick import quick
from sojourn.report.planner.answer import answer, plan_text
from sojourn.report.planner.question import MOST_CLIENTS, MOST_GROUPS, rows_of

FALLING = "linear(end=budget)"


@pytest.mark.parametrize("cap", [None, 1, 2])
def test_timing_is_that_of_analyze(cap):
    found = answer(asked(cap=cap))["yours"]
    exact = sj.analyze(FLEET, sj.Plan.weighted(FLEET, np.sqrt(FLEET.rate), 6, cap=cap))
    assert found["throughput"] == pytest.approx(exact.throughput, rel=1e-12)
    assert found["updates"] == 5.0 * found["throughput"]
    assert [one["staleness"] for one in found["by_group"]] == pytest.approx(exact.staleness().tolist(), rel=1e-12)
    assert [one["share"] for one in found["by_group"]] == pytest.approx((FLEET.count * exact.share).tolist(), rel=1e-12)
    assert found["idle"] == pytest.approx(float((FLEET.count * (1 - exact.utilisation)).sum()), rel=1e-9)
    assert found["stalest"] == pytest.approx(float(exact.staleness().max()), rel=1e-12)


def test_the_recommended_side_is_the_plan_of_make_plan():
    found, advice = answer(asked())["recommended"], sj.make_plan(FLEET, time=5.0)
    plan, row = advice.plan, advice.rows[0]
    assert (found["cap"], found["concurrency"], found["correction"]) == (1, plan.concurrency, plan.correction)
    assert (found["updates"], found["idle"], found["stalest"]) == (row.updates, row.idle, row.slowest)


def test_the_loss_is_the_ratio_of_the_twin():
    mine = replace(sj.Plan.weighted(FLEET, np.sqrt(FLEET.rate), 6), correction=0.0, schedule=FALLING)
    best = sj.make_plan(FLEET, time=5.0).plan
    here, there = (one.loss for one in quick(FLEET, [Policy("mine", mine), Policy("best", best)], 5.0))
    found = answer(asked())["loss"]
    assert found["ratio"] == pytest.approx(here / there, rel=1e-12)
    assert found["word"] == ("higher" if here / there > 1 + TIE else "tie")


def test_both_losses_below_the_floor_are_no_difference():
    found = answer(asked(time=1000.0))["loss"]
    losses = [one.loss for one in quick(FLEET, [Policy("best", sj.make_plan(FLEET, time=5.0).plan)], 1000.0)]
    assert losses[0] < FLOOR * Landscape.generic().loss
    assert found == {"ratio": 1.0, "word": "floor"}


def test_the_recommended_policy_is_recognised():
    best = answer(asked())["recommended"]
    again = answer(asked(**{key: best[key] for key in ("cap", "concurrency", "sampling", "correction")}))
    assert again["loss"] == {"ratio": 1.0, "word": "same"}


def test_what_is_not_asked_is_the_recommended_policy():
    assert answer({"groups": rows_of(FLEET)})["loss"]["word"] == "same"


def test_many_groups_are_shown_in_classes_of_speed_that_add_up():
    fleet = sj.Fleet.of_rates(np.linspace(1.0, 5.0, 100))
    found = answer(asked(fleet, concurrency=50))
    exact = sj.analyze(fleet, sj.Plan.weighted(fleet, np.sqrt(fleet.rate), 50))
    assert len(found["groups"]) == 20
    assert sum(one["count"] for one in found["groups"]) == 100
    by_group = found["yours"]["by_group"]
    assert sum(one["share"] for one in by_group) == pytest.approx(1.0)
    assert sum(one["share"] * one["staleness"] for one in by_group) == pytest.approx(49.0)
    fastest = slice(95, 100)
    mean = (exact.share * exact.staleness())[fastest].sum() / exact.share[fastest].sum()
    assert by_group[0]["staleness"] == pytest.approx(mean)


def test_a_fleet_goes_through_its_rows_unchanged():
    fleet = sj.Fleet(
        ("a b", "c"),
        np.array([2, 3]),
        np.array([1 / 3, 2.0]),
        law=(sj.Law.parse("gamma(shape=2)"), sj.Law.parse("exponential")),
        uplink_rate=np.array([np.inf, 4.0]),
        power=np.array([1.5, np.nan]),
    )
    sent = json.loads(json.dumps(rows_of(fleet)))
    exact = sj.analyze(fleet, sj.Plan.uniform(fleet, 3))
    assert answer({"groups": sent, "cap": None, "concurrency": 3})["yours"]["throughput"] == exact.throughput
    assert json.loads(plan_text({"groups": sent, "concurrency": 3}))["fleet_hash"] == fleet.hash


@pytest.mark.parametrize("which", ["yours", "recommended"])
def test_the_plan_file_is_the_policy_shown(tmp_path, which):
    path = tmp_path / "plan.json"
    path.write_text(plan_text(asked(cap=2, correction=1.0, which=which)))
    plan, shown = sj.Plan.load(path), answer(asked(cap=2, correction=1.0))[which]
    plan.check(FLEET)
    assert (plan.concurrency, plan.correction) == (shown["concurrency"], shown["correction"])
    assert set(plan.cap) == {shown["cap"]}
    assert plan.promises["throughput"] == shown["throughput"]
    assert plan.promises["steps"] == shown["updates"]
    assert sj.analyze(FLEET, plan).throughput == shown["throughput"]
    plan.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == path.read_text()


def test_the_recommended_plan_file_is_that_of_make_plan(tmp_path):
    sj.make_plan(FLEET, time=5.0).plan.save(tmp_path / "plan.json")
    assert plan_text(asked(which="recommended")) == (tmp_path / "plan.json").read_text()


ROW = {"name": "a", "count": 1, "rate": 1.0}
NONSENSE = [
    ({"cap": 0}, "cap", "got 0"),
    ({"cap": 1.5}, "cap", "got 1.5"),
    ({"cap": 99}, "cap", "from 1"),
    ({"concurrency": 0}, "concurrency", "got 0"),
    ({"concurrency": "many"}, "concurrency", "got 'many'"),
    ({"concurrency": True}, "concurrency", "got True"),
    ({"concurrency": 10**30}, "concurrency", "from 1 to"),
    ({"cap": 1, "concurrency": 13}, "concurrency", "at most the 12 tasks"),
    ({"correction": -1}, "correction", "got -1"),
    ({"correction": float("nan")}, "correction", "got nan"),
    ({"sampling": "/etc/passwd"}, "sampling", "must be uniform"),
    ({"sampling": "speed^x"}, "sampling", "number"),
    ({"sampling": ["speed"]}, "sampling", "must be text"),
    ({"time": 0}, "time", "positive"),
    ({"time": "soon"}, "time", "got 'soon'"),
    ({"time": 1e30}, "time", "at most"),
    ({"time": None}, "time", "got None"),
    ({"groups": []}, "fleet", "at least one group"),
    ({"groups": None}, "fleet", "must be a list"),
    ({"groups": [{**ROW, "rate": -1}]}, "fleet", "rate of group 'a' must be positive"),
    ({"groups": [{**ROW, "count": 0}]}, "fleet", "count of group 'a' must be at least 1"),
    ({"groups": [{**ROW, "rate": 1e308}]}, "fleet", "rate of group 'a' must be from 1e-12 to 1e+12 per second"),
    ({"groups": [{**ROW, "rate": "1e-307"}, {**ROW, "name": "b"}]}, "fleet", "rate of group 'a' must be from"),
    ({"groups": [{**ROW, "uplink_rate": 1e300}]}, "fleet", "uplink_rate of group 'a' must be from"),
    ({"groups": [{**ROW, "rate": "fast"}]}, "fleet", "row 1: rate must be a number, got 'fast'"),
    ({"groups": [{**ROW, "law": "os:system"}]}, "fleet", "row 1"),
    ({"groups": [{**ROW, "law": [1]}]}, "fleet", "row 1: law must be"),
    ({"groups": [{**ROW, "colour": "red"}]}, "fleet", "unknown column"),
    ({"groups": [ROW, ROW]}, "fleet", "unique"),
    ({"groups": [{"name": "a"}]}, "fleet", "'rate' is required"),
    ({"groups": [{**ROW, "count": MOST_CLIENTS + 1}]}, "fleet", "at most"),
    ({"groups": [{**ROW, "name": f"g{one}"} for one in range(MOST_GROUPS + 1)]}, "fleet", "at most"),
    ({"question": 1}, "question", "has no 'question'"),
]


@pytest.mark.parametrize(("changes", "field", "said"), NONSENSE)
def test_nonsense_gets_one_sentence_and_its_field(changes, field, said):
    found = answer(asked(**changes))
    assert found["field"] == field
    assert said in found["error"]
    assert "\n" not in found["error"]


@pytest.mark.parametrize("lowest", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("sampling", ["uniform", "speed"])
@pytest.mark.parametrize("cap", [None, 1])
@pytest.mark.filterwarnings("error")
def test_answers_are_numbers_up_to_the_limits_of_rates(lowest, sampling, cap):
    groups = [{"name": "a", "count": 9, "rate": 1e12}, {"name": "b", "count": 3, "rate": lowest}]
    for time in ({}, {"time": 1e-3}, {"time": 1e10}):
        question = {"groups": groups, "cap": cap, "sampling": sampling, **time}
        found = answer(question)
        assert "error" not in found
        json.dumps(found, allow_nan=False)
        json.dumps(json.loads(plan_text(question)), allow_nan=False)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_no_number_is_never_answered(monkeypatch, bad):
    monkeypatch.setattr("sojourn.report.planner.answer.answered", lambda _: {"yours": {"by_group": [{"share": bad}]}})
    found = answer(asked())
    assert found["field"] == "fleet"
    assert "beyond what numbers can hold" in found["error"]
    plan = sj.Plan.uniform(FLEET, 3)
    monkeypatch.setattr(
        "sojourn.report.planner.answer.promised", lambda *_: replace(plan, promises={"throughput": bad})
    )
    with pytest.raises(sj.InvalidInput, match="beyond what numbers can hold"):
        plan_text(asked())


@pytest.mark.parametrize("asked", [None, 3, [], "x", {"groups": {}}])
def test_what_is_no_question_is_refused(asked):
    assert set(answer(asked)) == {"error", "field"}


def test_a_name_with_html_in_it_stays_as_it_is():
    rows = [{"name": "<b>&amp;", "count": 2, "rate": 1.0}]
    assert answer({"groups": rows})["groups"][0]["name"] == "<b>&amp;"
